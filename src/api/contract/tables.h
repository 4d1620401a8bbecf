/* SPDX-License-Identifier: Apache-2.0 */
/* What tools/openapic.py writes and route.c and schema.c read. Private to them. */
#pragma once

#include <stdint.h>

#include "api/contract/route.h"
#include "api/contract/schema.h"

enum api_node_kind { API_NODE_LITERAL, API_NODE_PARAMETER, API_NODE_REST };

/* A place in the tree of segments; each method has a tree of its own. */
struct api_node {
    const char *text; /* NULL unless a literal */
    uint8_t len;
    uint8_t kind;         /* enum api_node_kind */
    uint16_t first_child; /* children lie together: literals, then a parameter, then a rest */
    uint16_t n_children;
    uint16_t op; /* of a path that ends here; API_OPS: none does */
};

extern const struct api_node api_nodes[];
extern const uint16_t api_roots[API_METHODS];
extern const struct api_op_info api_op_infos[API_OPS];
extern const struct api_asset api_assets[API_ASSETS];
