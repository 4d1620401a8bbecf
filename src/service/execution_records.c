/* SPDX-License-Identifier: Apache-2.0 */
/* Executions as clients of the service read them; see records.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "service/service_impl.h"

static const struct store_execution *record_of(const struct execution_entry *entry)
{
    return entry->live != NULL ? &entry->live->record : entry->row;
}

int execution_open(struct service *svc, const char *id, struct execution_entry *ret, struct err *e)
{
    struct execution *x = execution_hold(svc, id);
    struct store_execution *row = NULL;

    if (x == NULL && store_get_execution(svc->store, id, &row, e) < 0) {
        return -1;
    }
    *ret = (struct execution_entry){.live = x, .row = row};
    return 0;
}

void execution_close(struct execution_entry *entry)
{
    execution_release(entry->live);
    free(entry->row);
}

struct execution_view execution_view(const struct execution_entry *entry)
{
    const struct store_execution *r = record_of(entry);

    return (struct execution_view){
        .id = r->id,
        .session_id = r->session_id,
        .number = r->number,
        .kind = r->kind,
        .language = r->language,
        .state = (enum execution_state)r->status,
        .created_ms = r->created_ms,
        .started_ms = r->started_ms,
        .ended_ms = r->ended_ms,
    };
}

json_t *execution_request(const struct execution_entry *entry)
{
    const struct execution *x = entry->live;

    return x != NULL && x->request != NULL
               ? json_incref(x->request)
               : json_loads(record_of(entry)->request, JSON_ALLOW_NUL, NULL);
}

json_t *execution_outcome(const struct execution_entry *entry)
{
    const struct execution *x = entry->live;
    const char *text = record_of(entry)->result;

    if (x != NULL && !execution_state_is_final(x->record.status)) {
        return result_so_far_json(&x->out, &x->err, x->result);
    }
    if (x != NULL && x->outcome != NULL) {
        return json_incref(x->outcome);
    }
    return text != NULL ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
}

bool execution_fault(const struct execution_entry *entry, struct run_fault *ret)
{
    const struct store_execution *r = record_of(entry);

    if (!execution_state_is_final(r->status)) {
        return false;
    }
    json_t *outcome = execution_outcome(entry);
    const json_t *error = json_object_get(outcome, "error");
    const char *cause =
        json_string_value(json_object_get(json_object_get(outcome, "termination"), "cause"));
    const char *type = json_string_value(json_object_get(error, "type"));
    const char *message = json_string_value(json_object_get(error, "message"));
    bool is_fault = cause != NULL && type != NULL && strcmp(cause, RESULT_CAUSE_SERVER) == 0;
    if (is_fault) {
        const json_t *metrics = json_object_get(outcome, "metrics");
        bool begun = !execution_never_began(r);
        *ret = (struct run_fault){
            .begun = begun,
            .can_repeat = !begun,
            .queue_ms = json_number_value(json_object_get(metrics, "queue_ms")),
        };
        (void)err_set(&ret->err, r->status == EXECUTION_LOST ? ERR_LOST : err_find(type), "%s",
                      message != NULL ? message : type);
    }
    json_decref(outcome);
    return is_fault;
}

/* Behind the string that begins at p (at its quote); NULL: it has no end. */
static const char *skip_string(const char *p)
{
    for (p++; *p != '\0' && *p != '"'; p++) {
        if (*p == '\\' && p[1] != '\0') {
            p++;
        }
    }
    return *p == '"' ? p + 1 : NULL;
}

/*
 * A whole number that is a member of the object itself (not of one inside it). Looks at no more of
 * the text than it must, for results are long. The text is our own JSON.
 */
static bool member_int(const char *object, const char *name, int64_t *ret)
{
    size_t len = strlen(name);
    unsigned depth = 0;

    for (const char *p = object; p != NULL && *p != '\0';) {
        if (*p == '"') {
            const char *word = p + 1;
            p = skip_string(p);
            if (p == NULL || depth != 1 || *p != ':' || (size_t)(p - 1 - word) != len ||
                memcmp(word, name, len) != 0) {
                continue;
            }
            char *end = NULL;
            *ret = strtoll(p + 1, &end, 10);
            return end != p + 1;
        }
        depth += *p == '{' || *p == '[';
        depth -= *p == '}' || *p == ']';
        p++;
    }
    return false;
}

bool execution_exit_code(const struct execution_entry *entry, int64_t *ret)
{
    const char *text = record_of(entry)->result;

    if (text != NULL) {
        return member_int(text, "exit_code", ret);
    }
    json_t *outcome = execution_outcome(entry);
    const json_t *code = json_object_get(outcome, "exit_code");
    bool is_known = json_is_integer(code);
    *ret = json_integer_value(code);
    json_decref(outcome);
    return is_known;
}

/* ---- lists ---- */

/* What a list shows of a row: results are up to megabytes, and a page has up to 200 of them. */
static void *without_output(void *row)
{
    AUTO_FREE struct store_execution *whole = row;
    struct store_execution brief = *whole;
    char result[64] = "{}";
    int64_t code = 0;

    if (whole->result != NULL && member_int(whole->result, "exit_code", &code)) {
        (void)str_format(result, sizeof(result), "{\"exit_code\":%" PRId64 "}", code);
    }
    brief.request = "{}";
    brief.result = whole->result != NULL ? result : NULL;
    return store_copy_execution(&brief);
}

int execution_list(struct service *svc, const struct execution_filter *f,
                   int (*fn)(void *user, const struct execution_entry *x, struct err *e),
                   void *user, struct list_seen *ret, struct err *e)
{
    AUTO_FREE struct store_session *session = NULL;
    int status = f->state != NULL ? execution_state_find(f->state) : 0;
    struct store_read read = {
        .kind = STORE_EXECUTIONS,
        .filter = {.session_id = f->session_id,
                   .status = f->state != NULL ? &status : NULL,
                   .limit = f->part.limit,
                   .offset = f->part.offset,
                   .before = f->part.before},
        .with_total = true,
        .shrink = f->with_output ? NULL : without_output,
    };

    if (store_get_session(svc->store, f->session_id, &session, e) < 0 ||
        service_read(svc, &read, e) < 0) {
        return -1;
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < read.executions.n; i++) {
        struct store_execution *row = read.executions.rows[i];
        struct execution_entry entry = {
            .live = row->ended_ms == 0 ? execution_hold(svc, row->id) : NULL,
            .row = row,
        };
        r = fn(user, &entry, e);
        execution_release(entry.live);
    }
    *ret = (struct list_seen){.total = read.executions.total, .next = read.executions.next};
    store_execution_list_release(&read.executions);
    return r != 0 ? -1 : 0;
}

int execution_each_unrecorded(struct service *svc, const char *session_id,
                              int (*fn)(void *user, const struct execution_entry *x, struct err *e),
                              void *user, struct err *e)
{
    int r = 0;

    for (struct execution *x = svc->executions; x != NULL && r == 0; x = execution_next(x)) {
        const struct execution_entry entry = {.live = x};
        if (x->row != ROW_STORED && str_eq(x->session->id, session_id)) {
            r = fn(user, &entry, e);
        }
    }
    return r;
}

static int copy_id(void *user, const struct store_execution *row, struct err *e)
{
    (void)e;
    return str_copy(user, SERVICE_ID_SIZE, row->id);
}

/* Read at once, on this thread: an index leads to the one row. */
int execution_latest(struct service *svc, const char *session_id, char ret[static SERVICE_ID_SIZE],
                     struct err *e)
{
    const struct store_filter latest = {.session_id = session_id, .limit = 1};

    ret[0] = '\0';
    if (store_each_execution(svc->store, &latest, copy_id, ret, e) < 0) {
        return -1;
    }
    return ret[0] != '\0'
               ? 0
               : err_set(e, ERR_NOT_FOUND, "no execution in a session \"%s\"", session_id);
}

/* 0: the key is taken by no execution; 1: *ret_id has it; -1. Waits. */
static int take_key(struct service *svc, const struct request_key *key, char ret_id[ID_SIZE],
                    struct err *e)
{
    struct store_batch *b = keyed_batch(svc, key, NULL, "", clock_wall_ms());
    struct store_result result;

    if (service_commit(svc, b, &result, e) == 0) {
        return 0;
    }
    if (b == NULL || result.outcome != STORE_KEY_TAKEN) {
        return -1;
    }
    memcpy(ret_id, result.holder_id, sizeof(result.holder_id));
    return ret_id[0] != '\0'; /* "": it was withdrawn before */
}

int execution_withdraw(struct service *svc, const struct request_key *key, int64_t timeout_ms,
                       struct execution_entry *ret, struct err *e)
{
    char id[ID_SIZE];
    int r = take_key(svc, key, id, e);

    if (r == 1) {
        r = execution_open(svc, id, ret, e);
    }
    return r == 0 && ret->live != NULL ? execution_stop(ret->live, timeout_ms, e) : r;
}
