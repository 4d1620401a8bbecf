/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that knows the columns: a table per kind of record, from which the schema, the
 * statements, binding and reading are made. A column is spelt here (record.c) and in the struct of
 * store.h, nowhere else.
 *
 * Knows SQLite's statements, but opens no connection and runs nothing.
 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define RECORD_SQL_MAX 8192

enum column_kind {
    COLUMN_TEXT,     /* const char *; NULL is written as "" */
    COLUMN_OPTIONAL, /* const char *; NULL stays NULL */
    COLUMN_LINK,     /* const char *; "" is NULL in the table, where a reference may be absent */
    COLUMN_INT,      /* int */
    COLUMN_INT64,    /* int64_t */
    COLUMN_HASH,     /* uint8_t[STORE_HASH_SIZE] */
};

struct column {
    const char *name;
    size_t offset; /* in the struct */
    enum column_kind kind;
    bool is_fixed;  /* written when the row is made and never again */
    bool is_moved;  /* written when the row is made and by moves, not by later puts */
    bool is_sought; /* a number with an index of its own, in which 0 is left out */
    size_t max;     /* bytes of a text; 0: STORE_TEXT_MAX */
    int since;      /* schema version that brought it; 0 is 1 */
    const char *constraint;
};

enum record_type { RECORD_SESSION, RECORD_EXECUTION, RECORD_TEMPLATE, RECORD_KEY, RECORD_TYPES };

struct record {
    const char *table;
    const char *what; /* in messages: "session" */
    size_t size;
    const struct column *columns;
    size_t n;
    size_t keys; /* that many columns at the front identify a row */
    const char *constraint;
    const char *indexes; /* statements, made with the table */
    int since;           /* schema version that brought the table; 0 is 1 */
};

extern const struct record records[RECORD_TYPES];

/* Appends SQL text. Return 0 or -errno, like struct buf. */
int record_sql_create(struct buf *b, const struct record *r, int version); /* as of that version */
int record_sql_add_columns(struct buf *b, const struct record *r, int version); /* new in it */
int record_sql_insert(struct buf *b, const struct record *r);
int record_sql_put(struct buf *b, const struct record *r);
int record_sql_move(struct buf *b, const struct record *r); /* needs id and status columns */
/* Without WHERE. `behind`: one more column after those of the record; NULL: none. */
int record_sql_select(struct buf *b, const struct record *r, const char *behind);
int record_sql_where_key(struct buf *b, const struct record *r);

/* True if the record has a column of that name. */
bool record_has(const struct record *r, const char *column);

/* ERR_INVALID when a text is too long or an identifying one is missing. */
int record_check(const struct record *r, const void *rec, struct err *e);

/* One block with all texts, freed by free(). NULL when memory is gone; *ret_size is its size. */
void *record_copy(const struct record *r, const void *rec, size_t *ret_size);

/*
 * Column i is parameter i+1, as far as the statement has them. The texts are borrowed until the
 * statement is reset.
 */
int record_bind(const struct record *r, sqlite3_stmt *stmt, const void *rec);

/* The current row of a record_sql_select(), as record_copy() would give it. */
void *record_read(const struct record *r, sqlite3_stmt *stmt);
