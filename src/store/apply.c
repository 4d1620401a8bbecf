/* SPDX-License-Identifier: Apache-2.0 */
/* Changes as SQL, and whose fault a failure is; see apply.h. */
#include "store/apply.h"

#include <string.h>

#include "base/attr.h"
#include "base/str.h"

/* Runs a statement that returns no rows; its parameters are bound. Returns SQLite's code. */
static int run(sqlite3_stmt *stmt)
{
    int rc = sqlite3_step(stmt);

    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt); /* they point into the batch */
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

int apply_statement(struct conn *c, enum conn_statement which, const char *doing, struct err *e)
{
    sqlite3_stmt *stmt = conn_statement(c, which, e);

    if (stmt == NULL) {
        return -1;
    }
    int rc = run(stmt);
    return rc == SQLITE_OK ? 0 : conn_err(c, rc, doing, e);
}

static enum apply_verdict fail_batch(struct store_batch *batch, enum store_outcome outcome)
{
    batch->result.outcome = outcome;
    return APPLY_BATCH_FAILED;
}

static enum apply_verdict judge(struct conn *c, int rc, struct store_batch *batch, const char *what,
                                struct err *e)
{
    if (rc == SQLITE_OK) {
        return APPLY_DONE;
    }
    if (conn_is_fatal(rc)) {
        conn_err(c, rc, what, e);
        return APPLY_STORAGE_FAILED;
    }
    conn_err(c, rc, what, &batch->result.err);
    return fail_batch(batch, STORE_FAILED);
}

/* A row of the table by its key, or NULL: *ret_rc is SQLITE_OK then if there simply is none. */
static void *read_back(struct conn *c, enum record_type type, const void *rec, int *ret_rc,
                       struct err *e)
{
    sqlite3_stmt *stmt = conn_record(c, type, CONN_GET, e);
    void *row = NULL;

    if (stmt == NULL) {
        *ret_rc = SQLITE_NOMEM;
        return NULL;
    }
    int rc = record_bind(&records[type], stmt, rec);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        row = record_read(&records[type], stmt);
        rc = row != NULL ? SQLITE_OK : SQLITE_NOMEM;
    }
    *ret_rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return row;
}

static enum apply_verdict put_or_delete(struct conn *c, const struct change *change,
                                        struct store_batch *batch, struct err *e)
{
    enum conn_record_op op = change->kind == CHANGE_PUT ? CONN_PUT : CONN_DELETE;
    sqlite3_stmt *stmt = conn_record(c, change->type, op, e);

    if (stmt == NULL) {
        return APPLY_STORAGE_FAILED;
    }
    int rc = record_bind(&records[change->type], stmt, change->rec);
    rc = rc != SQLITE_OK ? rc : run(stmt);
    return judge(c, rc, batch, records[change->type].what, e);
}

static int status_of(enum record_type type, const void *row)
{
    return type == RECORD_SESSION ? ((const struct store_session *)row)->status
                                  : ((const struct store_execution *)row)->status;
}

static enum apply_verdict move(struct conn *c, const struct change *change,
                               struct store_batch *batch, struct err *e)
{
    AUTO_FREE void *row = NULL;
    const struct record *r = &records[change->type];
    sqlite3_stmt *stmt = conn_record(c, change->type, CONN_MOVE, e);

    if (stmt == NULL) {
        return APPLY_STORAGE_FAILED;
    }
    int rc = record_bind(r, stmt, change->rec);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_int(stmt, (int)r->n + 1, change->from);
    rc = rc != SQLITE_OK ? rc : run(stmt);
    if (rc != SQLITE_OK || sqlite3_changes(c->db) > 0) {
        return judge(c, rc, batch, r->what, e);
    }
    row = read_back(c, change->type, change->rec, &rc, e);
    if (rc != SQLITE_OK) {
        return judge(c, rc, batch, r->what, e);
    }
    batch->result.stored_status = row != NULL ? status_of(change->type, row) : -1;
    err_set(&batch->result.err, ERR_CONFLICT, "%s is in status %d, not in %d", r->what,
            batch->result.stored_status, change->from);
    return fail_batch(batch, STORE_MOVED);
}

/* The key is there already: the caller wants to know whose it is. */
static enum apply_verdict key_taken(struct conn *c, const struct change *change,
                                    struct store_batch *batch, struct err *e)
{
    AUTO_FREE struct store_key *holder = NULL;
    int rc = SQLITE_OK;

    holder = read_back(c, RECORD_KEY, change->rec, &rc, e);
    if (holder == NULL) {
        return judge(c, rc != SQLITE_OK ? rc : SQLITE_CORRUPT, batch, "key", e);
    }
    (void)str_copy(batch->result.holder_id, sizeof(batch->result.holder_id), holder->id);
    memcpy(batch->result.holder_hash, holder->hash, STORE_HASH_SIZE);
    err_set(&batch->result.err, ERR_EXISTS, "the key belongs to %s", batch->result.holder_id);
    return fail_batch(batch, STORE_KEY_TAKEN);
}

static enum apply_verdict claim(struct conn *c, const struct change *change,
                                struct store_batch *batch, struct err *e)
{
    const struct store_key *key = change->rec;
    sqlite3_stmt *old = conn_statement(c, CONN_OLD_KEY, e);
    sqlite3_stmt *new = conn_record(c, RECORD_KEY, CONN_INSERT, e);

    if (old == NULL || new == NULL) {
        return APPLY_STORAGE_FAILED;
    }
    int rc = sqlite3_bind_text(old, 1, key->scope, -1, SQLITE_STATIC);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_text(old, 2, key->key, -1, SQLITE_STATIC);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_int64(old, 3, change->expired);
    rc = rc != SQLITE_OK ? rc : run(old);
    rc = rc != SQLITE_OK ? rc : record_bind(&records[RECORD_KEY], new, key);
    rc = rc != SQLITE_OK ? rc : run(new);
    if (rc == SQLITE_CONSTRAINT_UNIQUE) {
        return key_taken(c, change, batch, e);
    }
    return judge(c, rc, batch, "key", e);
}

static enum apply_verdict free_key(struct conn *c, const struct change *change,
                                   struct store_batch *batch, struct err *e)
{
    const struct store_key *key = change->rec;
    sqlite3_stmt *stmt = conn_statement(c, CONN_FREE_KEY, e);

    if (stmt == NULL) {
        return APPLY_STORAGE_FAILED;
    }
    int rc = sqlite3_bind_text(stmt, 1, key->scope, -1, SQLITE_STATIC);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_text(stmt, 2, key->key, -1, SQLITE_STATIC);
    rc = rc != SQLITE_OK ? rc : sqlite3_bind_text(stmt, 3, key->id, -1, SQLITE_STATIC);
    rc = rc != SQLITE_OK ? rc : run(stmt);
    return judge(c, rc, batch, "key", e);
}

static enum apply_verdict expire(struct conn *c, const struct change *change,
                                 struct store_batch *batch, struct err *e)
{
    sqlite3_stmt *stmt = conn_statement(c, CONN_EXPIRE_KEYS, e);

    if (stmt == NULL) {
        return APPLY_STORAGE_FAILED;
    }
    int rc = sqlite3_bind_int64(stmt, 1, change->expired);
    rc = rc != SQLITE_OK ? rc : run(stmt);
    return judge(c, rc, batch, "keys", e);
}

static enum apply_verdict (*const appliers[])(struct conn *c, const struct change *change,
                                              struct store_batch *batch, struct err *e) = {
    [CHANGE_PUT] = put_or_delete, [CHANGE_DELETE] = put_or_delete, [CHANGE_MOVE] = move,
    [CHANGE_CLAIM] = claim,       [CHANGE_FREE] = free_key,        [CHANGE_EXPIRE] = expire,
};

enum apply_verdict apply_batch(struct conn *c, struct store_batch *batch, struct err *e)
{
    enum apply_verdict verdict = APPLY_DONE;

    if (apply_statement(c, CONN_SAVEPOINT, "savepoint", e) != 0) {
        return APPLY_STORAGE_FAILED;
    }
    for (size_t i = 0; verdict == APPLY_DONE && i < batch->n; i++) {
        verdict = appliers[batch->changes[i].kind](c, &batch->changes[i], batch, e);
    }
    if (verdict == APPLY_STORAGE_FAILED) {
        return verdict; /* the transaction is lost, and the savepoint with it */
    }
    if (verdict == APPLY_BATCH_FAILED && apply_statement(c, CONN_UNDO, "undo", e) != 0) {
        return APPLY_STORAGE_FAILED;
    }
    return apply_statement(c, CONN_RELEASE, "release", e) == 0 ? verdict : APPLY_STORAGE_FAILED;
}
