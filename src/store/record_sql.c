/* SPDX-License-Identifier: Apache-2.0 */
/* The SQL that is made from the tables of columns; see record.h. Values are always parameters. */
#include "store/record.h"

static int add_column_definition(struct buf *b, const struct column *c)
{
    /* A default each: a column that a later version adds has a value in the rows of before. */
    static const char *const types[] = {
        [COLUMN_TEXT] = "TEXT NOT NULL DEFAULT ''",
        [COLUMN_OPTIONAL] = "TEXT",
        [COLUMN_LINK] = "TEXT",
        [COLUMN_INT] = "INTEGER NOT NULL DEFAULT 0",
        [COLUMN_INT64] = "INTEGER NOT NULL DEFAULT 0",
        [COLUMN_HASH] = "BLOB NOT NULL",
    };

    return buf_printf(b, "%s %s %s", c->name, types[c->kind],
                      c->constraint != NULL ? c->constraint : "");
}

/* Statements of their own, behind that of the table. */
static int add_indexes(struct buf *b, const struct record *r, int first, int last)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        const struct column *c = &r->columns[i];
        if (c->is_sought && c->since >= first && c->since <= last) {
            rc = buf_printf(b, "CREATE INDEX %s_%s ON %s(%s) WHERE %s != 0;", r->table, c->name,
                            r->table, c->name, c->name);
        }
    }
    return rc;
}

/* seq orders rows by when they were made, which clocks cannot be trusted to do. */
int record_sql_create(struct buf *b, const struct record *r, int version)
{
    int rc = buf_printf(b, "CREATE TABLE %s (seq INTEGER PRIMARY KEY, ", r->table);

    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        if (r->columns[i].since <= version) {
            rc = add_column_definition(b, &r->columns[i]);
            rc = rc != 0 ? rc : buf_add_str(b, ", ");
        }
    }
    rc = rc != 0 ? rc : buf_printf(b, "%s) STRICT;%s", r->constraint, r->indexes);
    return rc != 0 ? rc : add_indexes(b, r, 0, version);
}

int record_sql_add_columns(struct buf *b, const struct record *r, int version)
{
    for (size_t i = 0; i < r->n; i++) {
        if (r->columns[i].since != version) {
            continue;
        }
        int rc = buf_printf(b, "ALTER TABLE %s ADD COLUMN ", r->table);
        rc = rc != 0 ? rc : add_column_definition(b, &r->columns[i]);
        rc = rc != 0 ? rc : buf_add_str(b, ";");
        if (rc != 0) {
            return rc;
        }
    }
    return add_indexes(b, r, version, version);
}

/* "a, b, c" */
static int add_names(struct buf *b, const struct record *r, size_t n)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = buf_printf(b, "%s%s", i > 0 ? ", " : "", r->columns[i].name);
    }
    return rc;
}

/*
 * "x = ?10, y = ?11" for all columns that may change: parameters have the same numbers everywhere.
 */
static int add_assignments(struct buf *b, const struct record *r, bool is_move)
{
    const char *separator = "";
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        if (!r->columns[i].is_fixed && (is_move || !r->columns[i].is_moved)) {
            rc = buf_printf(b, "%s%s = ?%zu", separator, r->columns[i].name, i + 1);
            separator = ", ";
        }
    }
    return rc;
}

int record_sql_insert(struct buf *b, const struct record *r)
{
    int rc = buf_printf(b, "INSERT INTO %s (", r->table);

    rc = rc != 0 ? rc : add_names(b, r, r->n);
    rc = rc != 0 ? rc : buf_add_str(b, ") VALUES (");
    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        rc = buf_printf(b, "%s?%zu", i > 0 ? ", " : "", i + 1);
    }
    return rc != 0 ? rc : buf_add_str(b, ")");
}

int record_sql_put(struct buf *b, const struct record *r)
{
    int rc = record_sql_insert(b, r);

    rc = rc != 0 ? rc : buf_add_str(b, " ON CONFLICT (");
    rc = rc != 0 ? rc : add_names(b, r, r->keys);
    rc = rc != 0 ? rc : buf_add_str(b, ") DO UPDATE SET ");
    return rc != 0 ? rc : add_assignments(b, r, false);
}

int record_sql_move(struct buf *b, const struct record *r)
{
    int rc = buf_printf(b, "UPDATE %s SET ", r->table);

    rc = rc != 0 ? rc : add_assignments(b, r, true);
    return rc != 0 ? rc : buf_printf(b, " WHERE id = ?1 AND status = ?%zu", r->n + 1);
}

int record_sql_select(struct buf *b, const struct record *r, const char *behind)
{
    int rc = buf_add_str(b, "SELECT ");

    rc = rc != 0 ? rc : add_names(b, r, r->n);
    rc = rc != 0 || behind == NULL ? rc : buf_printf(b, ", %s", behind);
    return rc != 0 ? rc : buf_printf(b, " FROM %s", r->table);
}

int record_sql_where_key(struct buf *b, const struct record *r)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < r->keys; i++) {
        rc = buf_printf(b, " %s %s = ?%zu", i > 0 ? "AND" : "WHERE", r->columns[i].name, i + 1);
    }
    return rc;
}
