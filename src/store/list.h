/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of rows, for the owner's thread (list.c) and for the reader's (reader.c). */
#pragma once

#include "store/query.h"

struct row_list {
    void **rows; /* each is owned */
    size_t n;
    size_t cap;
    size_t limit;
    void *(*shrink)(void *row); /* see struct store_read */
    int64_t last;               /* position of the last row */
    int64_t next;               /* see struct store_session_list */
    int64_t total;
};

/* One page; `l` has shrink, or is empty, and is empty again after a failure. */
int list_read(struct conn *c, enum record_type type, const struct store_filter *f, bool with_total,
              struct row_list *l, struct err *e);
void list_free(void *rows, size_t n);
