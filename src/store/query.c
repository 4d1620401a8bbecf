/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and counts; see query.h. */
#include "store/query.h"

#include <errno.h>

#include "base/attr.h"

#define PARAM_LIMIT (CONN_FILTERS + 1)
#define PARAM_OFFSET (CONN_FILTERS + 2)

enum filter_kind { BY_TEXT, BY_STATUS, BY_FLAG, BY_NUMBER };

static const struct filter {
    const char *column;
    const char *condition; /* its parameter has the number of the row */
    enum filter_kind kind;
    size_t offset;
} filters[CONN_FILTERS] = {
    {"status", "status = ?1", BY_STATUS, offsetof(struct store_filter, status)},
    {"session_id", "session_id = ?2", BY_TEXT, offsetof(struct store_filter, session_id)},
    {"template", "template = ?3", BY_TEXT, offsetof(struct store_filter, template)},
    {"agent_id", "agent_id = ?4", BY_TEXT, offsetof(struct store_filter, agent_id)},
    {"mode", "mode = ?5", BY_TEXT, offsetof(struct store_filter, mode)},
    {"owner", "owner = ?6", BY_TEXT, offsetof(struct store_filter, owner)},
    {"ended_ms", "ended_ms = 0", BY_FLAG, offsetof(struct store_filter, live)},
    {"epoch", "epoch < ?8", BY_NUMBER, offsetof(struct store_filter, epoch_before)},
    {"ended_ms", "ended_ms > 0 AND ended_ms < ?9", BY_NUMBER,
     offsetof(struct store_filter, ended_before)},
    {NULL, NULL, BY_NUMBER, offsetof(struct store_filter, before)}, /* of the position */
};

#define OF_SESSION (1U << 1)
#define ENDED_BEFORE (1U << 8)
#define BEFORE (1U << 9)

static const void *value_of(const struct filter *filter, const struct store_filter *f)
{
    return (const char *)f + filter->offset;
}

static bool is_set(const struct filter *filter, const struct store_filter *f)
{
    switch (filter->kind) {
    case BY_FLAG:
        return *(const bool *)value_of(filter, f);
    case BY_NUMBER:
        return *(const int64_t *)value_of(filter, f) != 0;
    case BY_TEXT:
    case BY_STATUS:
        break;
    }
    return *(const void *const *)value_of(filter, f) != NULL;
}

/*
 * The set of filters as bits. A filter that this type of record cannot have is refused, not
 * ignored.
 */
static int filter_set(enum record_type type, const struct store_filter *f, unsigned *ret,
                      struct err *e)
{
    unsigned set = 0;

    for (size_t i = 0; i < CONN_FILTERS; i++) {
        if (!is_set(&filters[i], f)) {
            continue;
        }
        if (filters[i].column != NULL && !record_has(&records[type], filters[i].column)) {
            return err_set(e, ERR_INVALID, "%s have no %s", records[type].table, filters[i].column);
        }
        set |= 1U << i;
    }
    *ret = set;
    return 0;
}

/*
 * The column that orders rows. Within a session it is the number, which an index has together with
 * the session: by seq, SQLite would read and sort all of its executions for one page.
 */
static const char *position_of(enum record_type type, unsigned set)
{
    return type == RECORD_EXECUTION && (set & OF_SESSION) != 0 ? "number" : "seq";
}

static int query_text(struct buf *b, enum record_type type, bool is_count, unsigned set)
{
    const char *word = " WHERE ";
    const char *position = position_of(type, set);
    int rc = is_count ? buf_printf(b, "SELECT count(*) FROM %s", records[type].table)
                      : record_sql_select(b, &records[type], position);

    for (size_t i = 0; rc == 0 && i < CONN_FILTERS; i++) {
        if ((set & 1U << i) == 0) {
            continue;
        }
        rc = filters[i].condition != NULL ? buf_printf(b, "%s%s", word, filters[i].condition)
                                          : buf_printf(b, "%s%s < ?%zu", word, position, i + 1);
        word = " AND ";
    }
    if (rc != 0 || is_count) {
        return rc;
    }
    rc = (set & ENDED_BEFORE) != 0 ? buf_add_str(b, " ORDER BY ended_ms")
                                   : buf_printf(b, " ORDER BY %s DESC", position);
    return rc != 0 ? rc : buf_printf(b, " LIMIT ?%d OFFSET ?%d", PARAM_LIMIT, PARAM_OFFSET);
}

static sqlite3_stmt *query_statement(struct conn *c, enum record_type type, bool is_count,
                                     unsigned set, struct err *e)
{
    AUTO_BUF struct buf sql = BUF_INIT(RECORD_SQL_MAX);
    size_t slot = CONN_SLOT_QUERY + ((size_t)type * 2 + is_count) * CONN_FILTER_SETS + set;

    if (c->statements[slot] != NULL) {
        return c->statements[slot];
    }
    int rc = query_text(&sql, type, is_count, set);
    if (rc != 0) {
        err_sys(e, -rc, "prepare");
        return NULL;
    }
    return conn_prepare(c, slot, &sql, e);
}

static int bind_filter(sqlite3_stmt *stmt, int at, const struct filter *filter,
                       const struct store_filter *f)
{
    const void *value = value_of(filter, f);

    switch (filter->kind) {
    case BY_STATUS:
        return sqlite3_bind_int(stmt, at, **(const int *const *)value);
    case BY_NUMBER:
        return sqlite3_bind_int64(stmt, at, *(const int64_t *)value);
    case BY_TEXT:
        return sqlite3_bind_text(stmt, at, *(const char *const *)value, -1, SQLITE_STATIC);
    case BY_FLAG:
        break;
    }
    return SQLITE_OK;
}

/* A statement with its filters bound, ready to step. */
static sqlite3_stmt *query(struct conn *c, enum record_type type, bool is_count,
                           const struct store_filter *f, struct err *e)
{
    unsigned set = 0;

    if (filter_set(type, f, &set, e) != 0) {
        return NULL;
    }
    set &= is_count ? ~BEFORE : ~0U; /* all pages count */
    sqlite3_stmt *stmt = query_statement(c, type, is_count, set, e);
    int rc = SQLITE_OK;
    for (size_t i = 0; stmt != NULL && rc == SQLITE_OK && i < CONN_FILTERS; i++) {
        if ((set & 1U << i) != 0) {
            rc = bind_filter(stmt, (int)i + 1, &filters[i], f);
        }
    }
    if (rc != SQLITE_OK) {
        conn_err(c, rc, "read", e);
        return NULL;
    }
    return stmt;
}

void query_done(sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
}

int query_count(struct conn *c, enum record_type type, const struct store_filter *f, int64_t *ret,
                struct err *e)
{
    sqlite3_stmt *stmt = query(c, type, true, f, e);

    if (stmt == NULL) {
        return -1;
    }
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        *ret = sqlite3_column_int64(stmt, 0);
    } else {
        conn_err(c, rc, "count", e);
    }
    query_done(stmt);
    return rc == SQLITE_ROW ? 0 : -1;
}

int query_walk(struct conn *c, enum record_type type, const struct store_filter *f, query_row *fn,
               void *user, struct err *e)
{
    sqlite3_stmt *stmt = query(c, type, false, f, e);
    int failed = 0;

    if (stmt == NULL) {
        return -1;
    }
    sqlite3_bind_int64(stmt, PARAM_LIMIT, f->limit > 0 ? (int64_t)MIN(f->limit, INT64_MAX) : -1);
    sqlite3_bind_int64(stmt, PARAM_OFFSET, (int64_t)MIN(f->offset, INT64_MAX));
    int rc = sqlite3_step(stmt);
    while (rc == SQLITE_ROW) {
        void *row = record_read(&records[type], stmt);

        int64_t position = sqlite3_column_int64(stmt, (int)records[type].n);
        failed = row != NULL ? fn(user, row, position, e) : err_sys(e, ENOMEM, "read");
        if (failed != 0) {
            break;
        }
        rc = sqlite3_step(stmt);
    }
    if (failed == 0 && rc != SQLITE_DONE) {
        failed = conn_err(c, rc, "read", e);
    }
    query_done(stmt);
    return failed != 0 ? -1 : 0;
}
