/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and counts of any type of record, on the owner's thread.
 *
 * Filters are a table (query.c): each row gives its condition and where its value stands in
 * struct store_filter. Each set of filters that is used gets one statement, which is kept.
 */
#pragma once

#include "store/internal.h"

/* Rows that match, whatever limit and offset say. */
int query_count(struct store *st, enum record_type type, const struct store_filter *f, int64_t *ret,
                struct err *e);

/*
 * Calls fn for each row, newest first; fn owns the row, and ends the walk by returning -1 and *e.
 */
int query_walk(struct store *st, enum record_type type, const struct store_filter *f,
               int (*fn)(void *user, void *row, struct err *e), void *user, struct err *e);

/* Ends a read. One that is left open keeps its snapshot, and then the log cannot shrink. */
void query_done(sqlite3_stmt *stmt);
