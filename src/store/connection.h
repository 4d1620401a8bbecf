/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to the database: opened with our settings, its statements prepared once and kept,
 * SQLite's result codes as our errors.
 *
 * Used by one thread at a time. Knows the statements, not when they run.
 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/record.h"
#include "store/shm.h"

#define CONN_BUSY_MS 5000 /* another program has the file locked: wait so long, then say so */

/* Statements that are not made from a table of columns. */
enum conn_statement {
    CONN_BEGIN,
    CONN_COMMIT,
    CONN_SAVEPOINT,
    CONN_UNDO,
    CONN_RELEASE,
    CONN_OLD_KEY,
    CONN_FREE_KEY,
    CONN_EXPIRE_KEYS,
    CONN_STATEMENTS
};

/* Statements that exist for each type of record. */
enum conn_record_op { CONN_GET, CONN_INSERT, CONN_PUT, CONN_MOVE, CONN_DELETE, CONN_RECORD_OPS };

/* Lists and counts, one per set of filters: see read.c, which makes their text. */
#define CONN_FILTERS 10
#define CONN_FILTER_SETS (1U << CONN_FILTERS)
#define CONN_SLOT_RECORD ((size_t)CONN_STATEMENTS)
#define CONN_SLOT_QUERY (CONN_SLOT_RECORD + (size_t)RECORD_TYPES * CONN_RECORD_OPS)
#define CONN_SLOTS (CONN_SLOT_QUERY + (size_t)RECORD_TYPES * 2 * CONN_FILTER_SETS)

struct conn {
    sqlite3 *db; /* NULL when closed */
    struct shm shm;
    sqlite3_stmt *statements[CONN_SLOTS];
};

/* ERR_STORAGE and the like from a result code. `doing` starts the message. Returns -1. */
int conn_err(const struct conn *c, int rc, const char *doing, struct err *e);

/* True if the failure is of the storage, not of the one statement. */
bool conn_is_fatal(int rc);

/* No file is touched until the first statement runs. */
int conn_open(struct conn *c, const char *path, struct err *e);
int conn_set_writer(struct conn *c, struct err *e); /* write-ahead log, synchronous FULL */
int conn_set_reader(struct conn *c, struct err *e); /* refuses to write */
void conn_close(struct conn *c);                    /* a closed one is fine */

int conn_exec(struct conn *c, const char *sql, struct err *e); /* once, not kept */
int conn_int(struct conn *c, const char *sql, int64_t *ret, struct err *e);

/* Borrowed from the connection; reset after use. NULL and *e. */
sqlite3_stmt *conn_statement(struct conn *c, enum conn_statement which, struct err *e);
sqlite3_stmt *conn_record(struct conn *c, enum record_type type, enum conn_record_op op,
                          struct err *e);
sqlite3_stmt *conn_prepare(struct conn *c, size_t slot, const struct buf *sql, struct err *e);
