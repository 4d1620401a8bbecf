/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and counts of any type of record, on the thread that owns the connection.
 *
 * Filters are a table (query.c): each row gives its condition and where its value stands in
 * struct store_filter. Each set of filters that is used gets one statement, which is kept.
 */
#pragma once

#include "store/internal.h"

/* Rows that match, whatever limit, offset and `before` say. */
int query_count(struct conn *c, enum record_type type, const struct store_filter *f, int64_t *ret,
                struct err *e);

/* Owns the row; -1 and *e end the walk. A row's position orders it: see store_filter.before. */
typedef int query_row(void *user, void *row, int64_t position, struct err *e);

/* Calls fn for each row, newest first. */
int query_walk(struct conn *c, enum record_type type, const struct store_filter *f, query_row *fn,
               void *user, struct err *e);

/* Ends a read. One that is left open keeps its snapshot, and then the log cannot shrink. */
void query_done(sqlite3_stmt *stmt);
