/* SPDX-License-Identifier: Apache-2.0 */
/* Versions and migrations; see migrations.h. */
#include "store/migrations.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/str.h"

#define SCHEMA_SQL_MAX (64UL << 10)

/* Above this size a look at every page would delay the start: damage shows when a page is used. */
#define FULL_CHECK_BYTES (32 << 20)

const struct schema schema_current = {SCHEMA_VERSION, records, RECORD_TYPES};

/* One row: what belongs to the installation as a whole. */
static const char meta_sql[] =
    "CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), install_id TEXT NOT NULL,"
    " epoch INTEGER NOT NULL, reopened INTEGER NOT NULL) STRICT;"
    "INSERT INTO meta VALUES (1, lower(hex(randomblob(16))), 0, 0);";

/*
 * "ok", or what is wrong in SQLite's words: their last line, above it is only the database's name.
 */
static int check_pages(struct conn *c, const char *path, struct err *e)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(c->db, "PRAGMA quick_check(1)", -1, &stmt, NULL);
    bool is_good = false;

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    if (rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);

        is_good = text != NULL && str_eq(text, "ok");
        if (!is_good) {
            const char *line = text != NULL ? strrchr(text, '\n') : NULL;

            line = line != NULL ? line + 1 : text;
            err_set(e, ERR_STORAGE, "%s is damaged: %s", path, line != NULL ? line : "");
        }
    } else {
        conn_err(c, rc, path, e);
    }
    sqlite3_finalize(stmt);
    return is_good ? 0 : -1;
}

int schema_check(struct conn *c, const struct schema *s, const char *path, struct err *e)
{
    int64_t version = 0;
    int64_t application = 0;
    int64_t tables = 0;
    int64_t bytes = 0;

    if (conn_int(c, "PRAGMA user_version", &version, e) != 0 ||
        conn_int(c, "PRAGMA application_id", &application, e) != 0 ||
        conn_int(c, "SELECT count(*) FROM sqlite_schema", &tables, e) != 0 ||
        conn_int(c, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                 &bytes, e) != 0) {
        return err_wrap(e, "cannot read %s", path);
    }
    if (version == 0 && application == 0 && tables == 0) {
        return 0;
    }
    if (application != SCHEMA_APPLICATION) {
        return err_set(e, ERR_STORAGE, "%s is a database of another program", path);
    }
    if (version > s->version) {
        return err_set(e, ERR_STORAGE,
                       "%s has schema version %" PRId64 ", this program knows up to %d: it was "
                       "written by a newer version; nothing was changed",
                       path, version, s->version);
    }
    return bytes <= FULL_CHECK_BYTES ? check_pages(c, path, e) : 0;
}

static int add_version(struct buf *b, const struct schema *s, int version)
{
    int rc = version == 1 ? buf_add_str(b, meta_sql) : 0;

    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        const struct record *r = &s->records[i];
        int since = r->since > 0 ? r->since : 1;

        if (since == version) {
            rc = record_sql_create(b, r, version);
        } else if (since < version) {
            rc = record_sql_add_columns(b, r, version);
        }
    }
    return rc;
}

int schema_migrate(struct conn *c, const struct schema *s, struct err *e)
{
    AUTO_BUF struct buf sql = BUF_INIT(SCHEMA_SQL_MAX);
    int64_t found = 0;

    if (conn_int(c, "PRAGMA user_version", &found, e) != 0) {
        return -1;
    }
    if (found == s->version) {
        return 0;
    }
    int rc = buf_add_str(&sql, "BEGIN IMMEDIATE;");
    for (int version = (int)found + 1; rc == 0 && version <= s->version; version++) {
        rc = add_version(&sql, s, version);
    }
    rc = rc != 0 ? rc
                 : buf_printf(&sql, "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT;",
                              SCHEMA_APPLICATION, s->version);
    if (rc != 0) {
        return err_sys(e, -rc, "schema");
    }
    FAULT_POINT("store.migrate.before");
    if (conn_exec(c, sql.data, e) != 0) {
        struct err ignored;

        if (sqlite3_get_autocommit(c->db) == 0) {
            (void)conn_exec(c, "ROLLBACK", &ignored);
        }
        return err_wrap(e, "schema version %" PRId64 " to %d", found, s->version);
    }
    FAULT_POINT("store.migrate.after");
    return 0;
}
