/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of columns and what is made from them; see record.h. */
#include "store/record.h"

#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/str.h"
#include "store/store.h"

#define AT(member) .name = #member, .offset = offsetof(struct RECORD, member)

#define RECORD store_session
static const struct column session_columns[] = {
    {AT(id), .kind = COLUMN_TEXT, .is_fixed = true, .max = STORE_ID_MAX},
    {AT(mode), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(template), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(agent_id), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(dialect), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(owner), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(min_isolation), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(spec), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(created_ms), .kind = COLUMN_INT64, .is_fixed = true},
    {AT(epoch), .kind = COLUMN_INT64},
    {AT(status), .kind = COLUMN_INT, .is_moved = true},
    {AT(updated_ms), .kind = COLUMN_INT64},
    {AT(active_ms), .kind = COLUMN_INT64},
    {AT(expires_ms), .kind = COLUMN_INT64},
    {AT(ended_ms), .kind = COLUMN_INT64, .is_moved = true},
    {AT(end_reason), .kind = COLUMN_TEXT, .is_moved = true},
    {AT(executions), .kind = COLUMN_INT64},
    {AT(kept_bytes), .kind = COLUMN_INT64, .since = 2},
    {AT(on_idle), .kind = COLUMN_INT, .since = 3},
    {AT(workspace), .kind = COLUMN_INT, .since = 3},
    {AT(saved_ms), .kind = COLUMN_INT64, .since = 3},
    {AT(restart), .kind = COLUMN_INT, .since = 3},
    {AT(box), .kind = COLUMN_INT64, .is_sought = true, .since = 3},
};
#undef RECORD

#define RECORD store_execution
static const struct column execution_columns[] = {
    {AT(id), .kind = COLUMN_TEXT, .is_fixed = true, .max = STORE_ID_MAX},
    {AT(session_id), .kind = COLUMN_LINK, .is_fixed = true, .max = STORE_ID_MAX,
     .constraint = "REFERENCES sessions(id) ON DELETE CASCADE"},
    {AT(number), .kind = COLUMN_INT64, .is_fixed = true},
    {AT(kind), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(language), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(idempotency), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(request), .kind = COLUMN_TEXT, .is_fixed = true},
    {AT(created_ms), .kind = COLUMN_INT64, .is_fixed = true},
    {AT(epoch), .kind = COLUMN_INT64},
    {AT(status), .kind = COLUMN_INT},
    {AT(result), .kind = COLUMN_OPTIONAL},
    {AT(started_ms), .kind = COLUMN_INT64},
    {AT(ended_ms), .kind = COLUMN_INT64},
    {AT(out_bytes), .kind = COLUMN_INT64},
    {AT(err_bytes), .kind = COLUMN_INT64},
};
#undef RECORD

#define RECORD store_template
static const struct column template_columns[] = {
    {AT(name), .kind = COLUMN_TEXT, .is_fixed = true, .max = STORE_ID_MAX},
    {AT(created_ms), .kind = COLUMN_INT64, .is_fixed = true},
    {AT(updated_ms), .kind = COLUMN_INT64},
    {AT(definition), .kind = COLUMN_TEXT},
};
#undef RECORD

#define RECORD store_key
static const struct column key_columns[] = {
    {AT(scope), .kind = COLUMN_TEXT, .is_fixed = true, .max = 256},
    {AT(key), .kind = COLUMN_TEXT, .is_fixed = true, .max = 256},
    {AT(hash), .kind = COLUMN_HASH, .is_fixed = true, .constraint = "CHECK (length(hash) = 32)"},
    {AT(id), .kind = COLUMN_TEXT, .is_fixed = true, .max = STORE_ID_MAX},
    {AT(created_ms), .kind = COLUMN_INT64, .is_fixed = true},
};
#undef RECORD

#define COLUMNS(array) .columns = (array), .n = ARRAY_LEN(array)

/*
 * By when they ended: a restart looks at the live ones, however long the past, and sessions are
 * removed in that order. Executions go with their session.
 */
const struct record records[RECORD_TYPES] = {
    [RECORD_SESSION] =
        {
            .table = "sessions",
            .what = "session",
            .size = sizeof(struct store_session),
            COLUMNS(session_columns),
            .keys = 1,
            .constraint = "UNIQUE (id)",
            .indexes = "CREATE INDEX sessions_status ON sessions(status);"
                       "CREATE INDEX sessions_agent ON sessions(agent_id, ended_ms);"
                       "CREATE INDEX sessions_ended ON sessions(ended_ms);",
        },
    [RECORD_EXECUTION] =
        {
            .table = "executions",
            .what = "execution",
            .size = sizeof(struct store_execution),
            COLUMNS(execution_columns),
            .keys = 1,
            .constraint = "UNIQUE (id), UNIQUE (session_id, number)",
            .indexes = "CREATE INDEX executions_live ON executions(ended_ms) WHERE ended_ms = 0;",
        },
    [RECORD_TEMPLATE] =
        {
            .table = "templates",
            .what = "template",
            .size = sizeof(struct store_template),
            COLUMNS(template_columns),
            .keys = 1,
            .constraint = "UNIQUE (name)",
            .indexes = "",
        },
    [RECORD_KEY] =
        {
            .table = "keys",
            .what = "key",
            .size = sizeof(struct store_key),
            COLUMNS(key_columns),
            .keys = 2,
            .constraint = "UNIQUE (scope, key)",
            .indexes = "CREATE INDEX keys_created ON keys(created_ms);",
        },
};

static bool is_text(const struct column *c)
{
    return c->kind == COLUMN_TEXT || c->kind == COLUMN_OPTIONAL || c->kind == COLUMN_LINK;
}

static const void *member(const struct column *c, const void *rec)
{
    return (const char *)rec + c->offset;
}

static const char *text_of(const struct column *c, const void *rec)
{
    return *(const char *const *)member(c, rec);
}

bool record_has(const struct record *r, const char *column)
{
    for (size_t i = 0; i < r->n; i++) {
        if (str_eq(r->columns[i].name, column)) {
            return true;
        }
    }
    return false;
}

int record_check(const struct record *r, const void *rec, struct err *e)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct column *c = &r->columns[i];
        size_t max = c->max > 0 ? c->max : STORE_TEXT_MAX;

        if (!is_text(c)) {
            continue;
        }
        const char *text = text_of(c, rec);
        if (i < r->keys && (text == NULL || text[0] == '\0')) {
            return err_set(e, ERR_INVALID, "%s without %s", r->what, c->name);
        }
        if (text != NULL && strlen(text) > max) {
            return err_set(e, ERR_INVALID, "%s of a %s has more than %zu bytes", c->name, r->what,
                           max);
        }
    }
    return 0;
}

/* Where the next text of a block goes. */
static void place_text(const struct column *c, void *block, char **end, const char *text, size_t n)
{
    memcpy(*end, text, n);
    (*end)[n] = '\0';
    *(const char **)((char *)block + c->offset) = *end;
    *end += n + 1;
}

void *record_copy(const struct record *r, const void *rec, size_t *ret_size)
{
    size_t size = r->size;

    for (size_t i = 0; i < r->n; i++) {
        if (is_text(&r->columns[i]) && text_of(&r->columns[i], rec) != NULL) {
            size += strlen(text_of(&r->columns[i], rec)) + 1;
        }
    }
    char *block = malloc(size);
    if (block == NULL) {
        return NULL;
    }
    memcpy(block, rec, r->size);

    char *end = block + r->size;
    for (size_t i = 0; i < r->n; i++) {
        const struct column *c = &r->columns[i];

        if (is_text(c) && text_of(c, rec) != NULL) {
            place_text(c, block, &end, text_of(c, rec), strlen(text_of(c, rec)));
        }
    }
    *ret_size = size;
    return block;
}

/* As record_read() gives it: a text is NULL only where the table has a NULL. */
static void *copy_filled(const struct record *r, const void *rec)
{
    size_t size;
    char *block = record_copy(r, rec, &size);

    for (size_t i = 0; block != NULL && i < r->n; i++) {
        const struct column *c = &r->columns[i];
        if (is_text(c) && c->kind != COLUMN_OPTIONAL && text_of(c, block) == NULL) {
            *(const char **)(block + c->offset) = "";
        }
    }
    return block;
}

struct store_session *store_copy_session(const struct store_session *s)
{
    return copy_filled(&records[RECORD_SESSION], s);
}

struct store_execution *store_copy_execution(const struct store_execution *x)
{
    return copy_filled(&records[RECORD_EXECUTION], x);
}

static int bind_text(const struct column *c, sqlite3_stmt *stmt, int at, const char *text)
{
    if (text == NULL && c->kind == COLUMN_TEXT) {
        text = "";
    }
    if (text == NULL || (c->kind == COLUMN_LINK && text[0] == '\0')) {
        return sqlite3_bind_null(stmt, at);
    }
    return sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
}

static int bind_column(const struct column *c, sqlite3_stmt *stmt, int at, const void *rec)
{
    switch (c->kind) {
    case COLUMN_INT:
        return sqlite3_bind_int(stmt, at, *(const int *)member(c, rec));
    case COLUMN_INT64:
        return sqlite3_bind_int64(stmt, at, *(const int64_t *)member(c, rec));
    case COLUMN_HASH:
        return sqlite3_bind_blob(stmt, at, member(c, rec), STORE_HASH_SIZE, SQLITE_STATIC);
    case COLUMN_TEXT:
    case COLUMN_OPTIONAL:
    case COLUMN_LINK:
        break;
    }
    return bind_text(c, stmt, at, text_of(c, rec));
}

int record_bind(const struct record *r, sqlite3_stmt *stmt, const void *rec)
{
    /* An update names no fixed column but the id: what it does not name has no place to bind to. */
    int params = sqlite3_bind_parameter_count(stmt);
    int rc = SQLITE_OK;

    for (size_t i = 0; rc == SQLITE_OK && i < r->n && (int)i < params; i++) {
        rc = bind_column(&r->columns[i], stmt, (int)i + 1, rec);
    }
    return rc;
}

/* -ENOMEM is all that can go wrong: SQLite converts nothing here, but it may have to copy. */
static int read_column(const struct column *c, sqlite3_stmt *stmt, int at, void *rec)
{
    void *to = (char *)rec + c->offset;
    const void *hash;

    switch (c->kind) {
    case COLUMN_INT:
        *(int *)to = sqlite3_column_int(stmt, at);
        break;
    case COLUMN_INT64:
        *(int64_t *)to = sqlite3_column_int64(stmt, at);
        break;
    case COLUMN_HASH:
        hash = sqlite3_column_blob(stmt, at);
        if (hash == NULL) {
            return -ENOMEM;
        }
        memcpy(to, hash, STORE_HASH_SIZE); /* the schema allows no other length */
        break;
    case COLUMN_TEXT:
    case COLUMN_OPTIONAL:
    case COLUMN_LINK:
        break;
    }
    return 0;
}

static int read_text(const struct column *c, sqlite3_stmt *stmt, int at, void *block, char **end)
{
    if (sqlite3_column_type(stmt, at) == SQLITE_NULL) {
        if (c->kind != COLUMN_OPTIONAL) {
            place_text(c, block, end, "", 0);
        }
        return 0;
    }
    const char *text = (const char *)sqlite3_column_text(stmt, at);
    if (text == NULL) {
        return -ENOMEM;
    }
    place_text(c, block, end, text, (size_t)sqlite3_column_bytes(stmt, at));
    return 0;
}

void *record_read(const struct record *r, sqlite3_stmt *stmt)
{
    AUTO_FREE char *block = NULL;
    size_t size = r->size;

    for (size_t i = 0; i < r->n; i++) {
        if (is_text(&r->columns[i])) {
            size += (size_t)sqlite3_column_bytes(stmt, (int)i) + 1;
        }
    }
    block = malloc(size);
    if (block == NULL) {
        return NULL;
    }
    memset(block, 0, r->size);

    char *end = block + r->size;
    for (size_t i = 0; i < r->n; i++) {
        const struct column *c = &r->columns[i];
        int rc = is_text(c) ? read_text(c, stmt, (int)i, block, &end)
                            : read_column(c, stmt, (int)i, block);
        if (rc != 0) {
            return NULL;
        }
    }
    return TAKE_PTR(block);
}
