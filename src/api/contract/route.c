/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matching of paths; see route.h. One step per segment, no way back: a literal that fits is taken.
 */
#include "api/contract/route.h"

#include <stdio.h>
#include <string.h>

#include "api/contract/tables.h"
#include "base/attr.h"
#include "base/str.h"

static const char *const method_names[API_METHODS] = {
    [API_GET] = "GET", [API_POST] = "POST", [API_PUT] = "PUT", [API_DELETE] = "DELETE"};

static const struct api_node *child_find(const struct api_node *node, const char *segment,
                                         size_t len)
{
    for (unsigned i = 0; i < node->n_children; i++) {
        const struct api_node *child = &api_nodes[node->first_child + i];

        if (child->kind != API_NODE_LITERAL) {
            return child;
        }
        if (child->len == len && memcmp(child->text, segment, len) == 0) {
            return child;
        }
    }
    return NULL;
}

/* Walks the tree of one method. False: the path is not in it. */
static bool tree_match(enum api_method method, const char *path, size_t len, struct api_match *m)
{
    const struct api_node *node = &api_nodes[api_roots[method]];
    size_t at = 1; /* behind the first slash */

    m->n_params = 0;
    while (at < len || (at == len && len > 1)) {
        const char *slash = memchr(path + at, '/', len - at);
        size_t n = slash != NULL ? (size_t)(slash - path) - at : len - at;

        const struct api_node *parent = node;
        node = child_find(node, path + at, n);
        if (node == NULL) {
            return false;
        }
        if (node->kind == API_NODE_REST) {
            n = len - at;
        }
        /* Nothing behind a slash is a rest only where the path may end before it as well. */
        if (n == 0 && (node->kind == API_NODE_PARAMETER || parent->op != node->op)) {
            return false;
        }
        if (node->kind != API_NODE_LITERAL) {
            m->params[m->n_params++] = (struct api_slice){path + at, n};
        }
        at += n + 1;
    }
    if (node->op == API_OPS) {
        return false;
    }
    m->op = (enum api_op)node->op;
    /* The rest of the path may be absent with its slash; its slice then is the empty end. */
    if (m->n_params < api_op_infos[m->op].n_path) {
        m->params[m->n_params++] = (struct api_slice){path + len, 0};
    }
    return true;
}

static bool method_find(const char *name, enum api_method *ret, bool *ret_is_head)
{
    *ret_is_head = str_eq(name, "HEAD");
    for (unsigned i = 0; i < API_METHODS; i++) {
        if (str_eq(*ret_is_head ? "GET" : name, method_names[i])) {
            *ret = (enum api_method)i;
            return true;
        }
    }
    return false;
}

enum api_found api_route_match(const char *method, const char *path, size_t len,
                               struct api_match *ret)
{
    struct api_match m = {0};
    enum api_method wanted = API_GET;

    if (len == 0 || path[0] != '/') {
        return API_NOT_FOUND;
    }
    bool is_known = method_find(method, &wanted, &m.is_head);
    if (is_known && tree_match(wanted, path, len, &m)) {
        *ret = m;
        return API_FOUND;
    }

    uint8_t allow = 0;
    for (unsigned i = 0; i < API_METHODS; i++) {
        if (tree_match((enum api_method)i, path, len, &m)) {
            allow |= (uint8_t)(1u << i);
        }
    }
    if (allow == 0) {
        return API_NOT_FOUND;
    }
    *ret = (struct api_match){.op = API_OPS, .allow = allow};
    return API_METHOD_REFUSED;
}

void api_allow_text(uint8_t allow, char ret[static API_ALLOW_MAX])
{
    size_t used = 0;

    ret[0] = '\0';
    for (unsigned i = 0; i < API_METHODS; i++) {
        if ((allow & (1u << i)) != 0) {
            used +=
                (size_t)snprintf(ret + used, API_ALLOW_MAX - used, "%s%s%s", used > 0 ? ", " : "",
                                 method_names[i], i == API_GET ? ", HEAD" : "");
        }
    }
}

const struct api_op_info *api_op_get(enum api_op op)
{
    return &api_op_infos[op];
}

const struct api_asset *api_asset_get(enum api_asset_name name)
{
    return &api_assets[name];
}
