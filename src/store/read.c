/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of one row, on the owner's thread: they never wait for the writer. Lists are in list.c. */
#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/str.h"
#include "store/query.h"

/* By its one or two identifying columns. 0 with NULL when there is none. */
static int find_row(struct store *st, enum record_type type, const char *first, const char *second,
                    void **ret, struct err *e)
{
    sqlite3_stmt *stmt = conn_record(&st->reader, type, CONN_GET, e);
    void *row = NULL;

    if (stmt == NULL) {
        return -1;
    }
    int rc = sqlite3_bind_text(stmt, 1, first, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK && second != NULL) {
        rc = sqlite3_bind_text(stmt, 2, second, -1, SQLITE_STATIC);
    }
    rc = rc != SQLITE_OK ? rc : sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        row = record_read(&records[type], stmt);
        rc = row != NULL ? SQLITE_DONE : SQLITE_NOMEM;
    }
    query_done(stmt);
    if (rc != SQLITE_DONE) {
        return conn_err(&st->reader, rc, "read", e);
    }
    *ret = row;
    return 0;
}

static int get_row(struct store *st, enum record_type type, const char *id, void **ret,
                   struct err *e)
{
    void *row = NULL;

    if (find_row(st, type, id, NULL, &row, e) != 0) {
        return -1;
    }
    if (row == NULL) {
        char shown[STORE_ID_MAX + 1];

        str_printable(shown, sizeof(shown), id, strnlen(id, STORE_ID_MAX));
        return err_set(e, ERR_NOT_FOUND, "no %s %s", records[type].what, shown);
    }
    *ret = row;
    return 0;
}

int store_get_session(struct store *st, const char *id, struct store_session **ret, struct err *e)
{
    return get_row(st, RECORD_SESSION, id, (void **)ret, e);
}

int store_get_session_of_box(struct store *st, int64_t box, struct store_session **ret,
                             struct err *e)
{
    AUTO_BUF struct buf sql = BUF_INIT(RECORD_SQL_MAX);
    sqlite3_stmt *stmt = NULL;
    int rc = record_sql_select(&sql, &records[RECORD_SESSION], NULL);

    rc = rc != 0 ? rc : buf_add_str(&sql, " WHERE box != 0 AND box = ?1 ORDER BY seq DESC LIMIT 1");
    if (rc != 0) {
        return err_sys(e, -rc, "prepare");
    }
    rc = sqlite3_prepare_v2(st->reader.db, sql.data, -1, &stmt, NULL);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_int64(stmt, 1, box);
    rc = rc != SQLITE_OK ? rc : sqlite3_step(stmt);
    *ret = rc == SQLITE_ROW ? record_read(&records[RECORD_SESSION], stmt) : NULL;
    sqlite3_finalize(stmt);
    if (*ret != NULL) {
        return 0;
    }
    return rc == SQLITE_DONE
               ? err_set(e, ERR_NOT_FOUND, "no session had this box")
               : conn_err(&st->reader, rc == SQLITE_ROW ? SQLITE_NOMEM : rc, "read", e);
}

int store_get_execution(struct store *st, const char *id, struct store_execution **ret,
                        struct err *e)
{
    return get_row(st, RECORD_EXECUTION, id, (void **)ret, e);
}

int store_get_template(struct store *st, const char *name, struct store_template **ret,
                       struct err *e)
{
    return get_row(st, RECORD_TEMPLATE, name, (void **)ret, e);
}

int store_find_key(struct store *st, const char *scope, const char *key, int64_t now_ms,
                   struct store_key **ret, struct err *e)
{
    void *row = NULL;

    if (find_row(st, RECORD_KEY, scope, key, &row, e) != 0) {
        return -1;
    }
    struct store_key *found = row;
    if (found != NULL && found->created_ms <= now_ms - st->key_retention_ms) {
        free(found);
        found = NULL;
    }
    *ret = found;
    return 0;
}

int store_kept_bytes(struct store *st, int64_t *ret, struct err *e)
{
    return conn_int(&st->reader, "SELECT coalesce(sum(kept_bytes), 0) FROM sessions", ret, e);
}

int store_count_templates(struct store *st, int64_t *ret, struct err *e)
{
    return conn_int(&st->reader, "SELECT count(*) FROM templates", ret, e);
}
