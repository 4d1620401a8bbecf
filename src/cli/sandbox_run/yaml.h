/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON as YAML: block style, strings plain where every YAML reader takes them for strings
 * and double-quoted otherwise. Numbers keep their digits.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/* Adds valid JSON as one YAML document that ends in a newline. Returns 0 or -errno. */
int yaml_add(struct buf *b, const char *json, size_t n);
