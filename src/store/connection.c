/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, statements and result codes; see connection.h. */
#include "store/connection.h"

#include <errno.h>
#include <string.h>

static const char *const statements[CONN_STATEMENTS] = {
    [CONN_BEGIN] = "BEGIN IMMEDIATE",
    [CONN_COMMIT] = "COMMIT",
    [CONN_SAVEPOINT] = "SAVEPOINT batch",
    [CONN_UNDO] = "ROLLBACK TO batch",
    [CONN_RELEASE] = "RELEASE batch",
    [CONN_OLD_KEY] = "DELETE FROM keys WHERE scope = ?1 AND key = ?2 AND created_ms <= ?3",
    [CONN_FREE_KEY] = "DELETE FROM keys WHERE scope = ?1 AND key = ?2 AND id = ?3",
    [CONN_EXPIRE_KEYS] = "DELETE FROM keys WHERE created_ms <= ?1",
};

/* Extended codes keep the primary one in their low byte. */
static enum err_code code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return ERR_SYSTEM;
    case SQLITE_TOOBIG:
    case SQLITE_RANGE:
        return ERR_INVALID;
    case SQLITE_CONSTRAINT:
        break;
    default:
        return ERR_STORAGE;
    }
    switch (rc) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
        return ERR_EXISTS;
    case SQLITE_CONSTRAINT_FOREIGNKEY:
        return ERR_NOT_FOUND;
    default:
        return ERR_INVALID;
    }
}

static int errno_of(const struct conn *c, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return ENOSPC;
    case SQLITE_NOMEM:
        return ENOMEM;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
        return c->db != NULL ? sqlite3_system_errno(c->db) : 0;
    default:
        return 0;
    }
}

int conn_err(const struct conn *c, int rc, const char *doing, struct err *e)
{
    int sys = errno_of(c, rc);
    const char *detail = sys != 0 ? strerrordesc_np(sys) : NULL;

    /* SQLite's own text names tables and columns, never values. */
    err_set(e, code_of(rc), "%s: %s%s%s", doing,
            c->db != NULL ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc), detail != NULL ? ": " : "",
            detail != NULL ? detail : "");
    e->sys_errno = sys;
    return -1;
}

bool conn_is_fatal(int rc)
{
    return code_of(rc) == ERR_STORAGE || code_of(rc) == ERR_SYSTEM;
}

int conn_open(struct conn *c, const char *path, struct err *e)
{
    /* No mutex inside: a connection belongs to one thread. */
    int rc = sqlite3_open_v2(
        path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

    if (rc != SQLITE_OK) {
        conn_err(c, rc, path, e);
        conn_close(c);
        return -1;
    }
    shm_watch(&c->shm, c->db);
    sqlite3_busy_timeout(c->db, CONN_BUSY_MS);
    /* Views and triggers that were planted in the file call no function of ours. */
    if (conn_exec(c, "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;", e) != 0) {
        conn_close(c);
        return -1;
    }
    return 0;
}

/* Checkpoints are the writer thread's own decision (writer.c): SQLite's would delay a commit. */
int conn_set_writer(struct conn *c, struct err *e)
{
    int64_t synchronous = 0;
    int64_t is_wal = 0;

    if (conn_exec(c,
                  "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                  "PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0;"
                  "PRAGMA journal_size_limit = 16777216; PRAGMA temp_store = MEMORY;",
                  e) != 0 ||
        conn_int(c, "SELECT journal_mode = 'wal' FROM pragma_journal_mode", &is_wal, e) != 0 ||
        conn_int(c, "PRAGMA synchronous", &synchronous, e) != 0) {
        return -1;
    }
    if (is_wal != 1 || synchronous != 2) {
        return err_set(e, ERR_STORAGE, "this file system cannot hold a write-ahead log");
    }
    return 0;
}

int conn_set_reader(struct conn *c, struct err *e)
{
    return conn_exec(c, "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY;", e);
}

void conn_close(struct conn *c)
{
    for (size_t i = 0; i < CONN_SLOTS; i++) {
        sqlite3_finalize(c->statements[i]);
        c->statements[i] = NULL;
    }
    sqlite3_close(c->db);
    c->db = NULL;
}

int conn_exec(struct conn *c, const char *sql, struct err *e)
{
    int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : conn_err(c, rc, "store", e);
}

int conn_int(struct conn *c, const char *sql, int64_t *ret, struct err *e)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        *ret = sqlite3_column_int64(stmt, 0);
    }
    sqlite3_finalize(stmt);
    if (rc == SQLITE_DONE) {
        return err_set(e, ERR_STORAGE, "store: no answer to %s", sql);
    }
    return rc == SQLITE_ROW ? 0 : conn_err(c, rc, "store", e);
}

sqlite3_stmt *conn_prepare(struct conn *c, size_t slot, const struct buf *sql, struct err *e)
{
    int rc = sqlite3_prepare_v3(c->db, sql->data, -1, SQLITE_PREPARE_PERSISTENT,
                                &c->statements[slot], NULL);

    if (rc != SQLITE_OK) {
        conn_err(c, rc, "prepare", e);
        return NULL;
    }
    return c->statements[slot];
}

sqlite3_stmt *conn_statement(struct conn *c, enum conn_statement which, struct err *e)
{
    AUTO_BUF struct buf sql = BUF_INIT(RECORD_SQL_MAX);

    if (c->statements[which] != NULL) {
        return c->statements[which];
    }
    if (buf_add_str(&sql, statements[which]) != 0) {
        err_sys(e, ENOMEM, "prepare");
        return NULL;
    }
    return conn_prepare(c, which, &sql, e);
}

static int record_op_text(struct buf *b, const struct record *r, enum conn_record_op op)
{
    int rc = 0;

    switch (op) {
    case CONN_INSERT:
        return record_sql_insert(b, r);
    case CONN_PUT:
        return record_sql_put(b, r);
    case CONN_MOVE:
        return record_sql_move(b, r);
    case CONN_DELETE:
        rc = buf_printf(b, "DELETE FROM %s", r->table);
        break;
    case CONN_GET:
    case CONN_RECORD_OPS:
        rc = record_sql_select(b, r, NULL);
        break;
    }
    return rc != 0 ? rc : record_sql_where_key(b, r);
}

sqlite3_stmt *conn_record(struct conn *c, enum record_type type, enum conn_record_op op,
                          struct err *e)
{
    AUTO_BUF struct buf sql = BUF_INIT(RECORD_SQL_MAX);
    size_t slot = CONN_SLOT_RECORD + (size_t)type * CONN_RECORD_OPS + op;

    if (c->statements[slot] != NULL) {
        return c->statements[slot];
    }
    int rc = record_op_text(&sql, &records[type], op);
    if (rc != 0) {
        err_sys(e, -rc, "prepare");
        return NULL;
    }
    return conn_prepare(c, slot, &sql, e);
}
