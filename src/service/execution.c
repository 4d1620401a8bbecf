/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions: made and recorded. How they run is in execution_run.c, how that is watched in
 * execution_watch.c. See service.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/str.h"
#include "service/service_impl.h"

/*
 * gcc 12's analyzer loses sight of what a record owns once it is stored there; execution_free()
 * frees it.
 */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

static const char *const kind_words[] = {"code", "command", "handler"};

bool execution_is_durable(const struct execution *x)
{
    return x->end == END_DURABLE;
}

const struct husk_result *execution_result(const struct execution *x)
{
    return x->result;
}

size_t execution_queue_position(const struct execution *x)
{
    if (x->runner == NULL) {
        return 0;
    }
    size_t place = places_position(&x->svc->places, x->runner);
    return place == 0 && x->session->persistent
               ? gate_position(&x->session->turns[x->context].gate, x->runner)
               : place;
}

void execution_forget_kept(struct execution *x)
{
    if (x->kept != NULL) {
        buf_release(&x->kept->displays);
    }
    free(x->kept);
    x->kept = NULL;
}

static void execution_free(struct execution *x)
{
    quota_drop_execution(x);
    free(x->texts);
    json_decref(x->request);
    json_decref(x->outcome);
    free(x->code);
    text_list_free(x->args);
    text_list_free(x->env);
    free(x->stdin_data);
    free(x->event);
    free(x->context_json);
    text_list_free(x->variables);
    execution_forget_kept(x);
    husk_result_free(x->result);
    buf_release(&x->out);
    buf_release(&x->err);
    session_release(x->session);
    free(x);
}

void execution_release(struct execution *x)
{
    if (x != NULL && --x->refs == 0) {
        table_remove_execution(x->svc, x);
        execution_free(x);
    }
}

struct execution *execution_hold(struct service *svc, const char *id)
{
    struct execution *x = table_execution(svc, id, strlen(id));

    if (x != NULL) {
        x->refs++;
    }
    return x;
}

struct execution *execution_new(struct session *s, const struct store_execution *record)
{
    struct execution *x = calloc(1, sizeof(*x));

    if (x == NULL || (x->texts = store_copy_execution(record)) == NULL) {
        free(x);
        return NULL;
    }
    x->svc = s->svc;
    x->refs = 1;
    x->session = s;
    session_ref(s);
    x->record = *x->texts;
    (void)str_copy(x->id, sizeof(x->id), record->id);
    x->out = BUF_INIT(s->svc->config->output_keep_bytes);
    x->err = BUF_INIT(s->svc->config->output_keep_bytes);
    table_add_execution(s->svc, x);
    return x;
}

/* What has to be there until the run is over; the caller's may go away before. */
static bool copy_ask(struct execution *x, const struct execution_ask *ask)
{
    x->kind = ask->kind;
    x->code_len = ask->code_len;
    x->code = malloc(ask->code_len + 1);
    if (x->code == NULL) {
        return false;
    }
    memcpy(x->code, ask->code, ask->code_len);
    x->code[ask->code_len] = '\0';
    x->args = text_list_copy(ask->args);
    x->env = text_list_copy(ask->env);
    x->variables = text_list_copy(ask->variables);
    x->event = ask->event != NULL ? strdup(ask->event) : NULL;
    x->context_json = ask->context_json != NULL ? strdup(ask->context_json) : NULL;
    x->context = ask->context;
    x->client = ask->client;
    x->timeout_ms = ask->timeout_ms != 0 ? ask->timeout_ms : x->svc->config->execution_timeout_ms;
    x->rich = ask->rich;
    if (ask->unrecorded) {
        row_phase_step(&x->row, ROW_NEVER);
    }
    if (ask->stdin_len > 0 && (x->stdin_data = malloc(ask->stdin_len)) != NULL) {
        memcpy(x->stdin_data, ask->stdin_data, ask->stdin_len);
        x->stdin_len = ask->stdin_len;
    }
    return (ask->args == NULL || x->args != NULL) && (ask->env == NULL || x->env != NULL) &&
           (ask->variables == NULL || x->variables != NULL) &&
           (ask->event == NULL || x->event != NULL) &&
           (ask->context_json == NULL || x->context_json != NULL) &&
           (ask->stdin_len == 0 || x->stdin_data != NULL);
}

struct execution *execution_read(struct session *s, const struct store_execution *record)
{
    AUTO(execution_request_release) struct execution_request r = {0};
    json_t *request = json_loads(record->request, JSON_ALLOW_NUL, NULL);
    struct err ignored;

    bool is_read = execution_request_read(s->svc, request, record->language, &r, &ignored) == 0 &&
                   r.ask.code != NULL;
    struct execution *x = is_read ? execution_new(s, record) : NULL;
    if (x != NULL && !copy_ask(x, &r.ask)) {
        execution_release(x);
        x = NULL;
    }
    if (x != NULL) {
        x->record.epoch = s->svc->figures.epoch;
        row_phase_step(&x->row, ROW_STORED);
    }
    json_decref(request);
    return x;
}

static struct execution *build(struct session *s, const struct execution_ask *ask, struct err *e)
{
    char id[ID_SIZE];
    char *request = ask->request != NULL ? json_dumps(ask->request, JSON_COMPACT) : strdup("{}");
    const char *language = ask->language;

    if (language == NULL) {
        const char *own = session_language(s);
        language = ask->kind == EXECUTE_COMMAND ? "shell" : own != NULL ? own : "python";
    }
    id_make(id, sizeof(id), "exec_");
    struct store_execution record = {
        .id = id,
        .session_id = s->id,
        .number = s->record.executions + 1,
        .kind = kind_words[ask->kind],
        .language = language,
        .idempotency = ask->idempotency.key,
        .request = request,
        .created_ms = clock_wall_ms(),
        .epoch = s->svc->figures.epoch,
        .status = EXECUTION_PENDING,
    };
    struct execution *x = request != NULL ? execution_new(s, &record) : NULL;
    free(request);
    if (x != NULL) {
        x->request = json_incref(ask->request);
    }
    if (x == NULL || !copy_ask(x, ask)) {
        execution_release(x);
        err_sys(e, ENOMEM, "execution");
        return NULL;
    }
    if (quota_begin_execution(x, e) < 0) {
        execution_release(x);
        return NULL;
    }
    return x;
}

bool execution_never_began(const struct store_execution *row)
{
    return row->status == EXECUTION_FAILED && row->started_ms == 0;
}

/* As record_new(). `failed`: the holder of the key, which never began; or NULL. */
static int commit_new(struct execution *x, const struct execution_ask *ask, const char *failed,
                      char ret_id[ID_SIZE], struct err *e)
{
    struct store_batch *b =
        keyed_batch(x->svc, &ask->idempotency, failed, x->id, x->record.created_ms);

    if (b == NULL) {
        return err_sys(e, ENOMEM, "execution");
    }
    store_put_session(b, &x->session->record);
    store_put_execution(b, &x->record);
    FAULT_POINT("execution.record.before");
    int r = keyed_commit(x->svc, b, &ask->idempotency, ret_id, e);
    if (r == 0) {
        FAULT_POINT("execution.record.after");
        row_phase_step(&x->row, ROW_STORED);
    }
    return r;
}

static bool has_never_begun(struct service *svc, const char *id)
{
    AUTO_FREE struct store_execution *row = NULL;
    struct err ignored;

    return store_get_execution(svc->store, id, &row, &ignored) == 0 && execution_never_began(row);
}

/*
 * 0: recorded; 1: the key was used before, *ret_id is its execution; -1. A request whose execution
 * never began is repeated to make it begin.
 */
static int record_new(struct execution *x, const struct execution_ask *ask, char ret_id[ID_SIZE],
                      struct err *e)
{
    int r = commit_new(x, ask, NULL, ret_id, e);

    if (r == 1 && has_never_begun(x->svc, ret_id)) {
        char failed[ID_SIZE];
        (void)str_copy(failed, sizeof(failed), ret_id);
        r = commit_new(x, ask, failed, ret_id, e);
    }
    return r;
}

/* An execution that is over: only its record is left, in the same shape. */
static struct execution *revive(struct session *s, const char *id, struct err *e)
{
    struct store_execution *row = NULL;

    struct execution *x = execution_hold(s->svc, id);
    if (x != NULL || store_get_execution(s->svc->store, id, &row, e) < 0) {
        return x;
    }
    x = execution_new(s, row);
    if (x != NULL) {
        row_phase_step(&x->row, ROW_STORED);
        if (row->ended_ms != 0) {
            end_phase_step(&x->end, END_DURABLE);
        }
    } else {
        err_sys(e, ENOMEM, "execution");
    }
    free(row);
    return x;
}

/*
 * An ephemeral session runs what its template is for, and shell, as commands do: a wrong one would
 * only spend it. What a persistent one has is decided by its contexts.
 */
static int check_language(const struct session *s, const char *language, struct err *e)
{
    if (language == NULL || s->persistent || str_eq(language, "shell")) {
        return 0;
    }
    const char *own = engine_language(s->svc->engine, s->record.template);
    return own != NULL && str_eq(language, own)
               ? 0
               : err_set(e, ERR_CONFLICT, "template %s has no %s: use a session of another one",
                         s->record.template, language);
}

/* There is one tenant. */
struct fair_key execution_key(const struct session *s, uint64_t client)
{
    return (struct fair_key){{0, client, (uint64_t)(uintptr_t)s}};
}

static int check_session(struct session *s, const struct execution_ask *ask, struct err *e)
{
    struct service *svc = s->svc;

    if (session_is_ending(s) || session_state_is_final(s->record.status)) {
        return err_set(e, ERR_CONFLICT, "session %s has ended", s->id);
    }
    if (ask->timeout_ms > svc->config->max_execution_timeout_ms) {
        return err_set(e, ERR_INVALID, "timeout must be at most %llu s on this server",
                       (unsigned long long)svc->config->max_execution_timeout_ms / 1000);
    }
    if (session_is_spent(s)) {
        return err_set(e, ERR_CONFLICT, "session %s is ephemeral and has had its execution", s->id);
    }
    if (check_language(s, ask->language, e) < 0) {
        return -1;
    }
    if (ask->kind == EXECUTE_HANDLER && ask->language != NULL && str_eq(ask->language, "shell")) {
        return err_set(e, ERR_CONFLICT, "a shell has no handlers: send code without an event");
    }
    if (s->persistent && ask->context >= CONTEXTS_MAX) {
        return err_set(e, ERR_NOT_FOUND, "session %s has no context %u", s->id, ask->context);
    }
    const struct fair_key key = execution_key(s, ask->client);
    size_t coming = svc->coming + svc->in_turn;
    if (!places_have_room(&svc->places, &key, coming)) {
        return err_set(e, ERR_LIMIT,
                       "%zu executions run and %zu wait (max_executions, queue_length): try again "
                       "later",
                       places_taken(&svc->places), svc->places.waiting + coming);
    }
    return 0;
}

int execution_start(struct session *s, const struct execution_ask *ask, struct execution **ret,
                    bool *ret_existed, struct err *e)
{
    char known[ID_SIZE] = "";
    int r = 0;

    *ret_existed = false;
    /*
     * Also for a key that was used before: the caller then finds what it made in the store.
     */
    if (check_session(s, ask, e) < 0) {
        return -1;
    }
    struct execution *x = build(s, ask, e);
    if (x == NULL) {
        return -1;
    }
    int64_t number = s->record.executions++; /* before anything waits: numbers are unique */
    session_touch(s);
    s->svc->coming++;
    /* A full disk is reported before anything runs, not after. */
    if (!ask->unrecorded &&
        (!ask->record_at_end || ask->idempotency.key != NULL || s->svc->store_fails)) {
        r = record_new(x, ask, known, e);
    }
    s->svc->coming--;
    /* There is none: it must not spend an ephemeral session. */
    if (r != 0 && s->record.executions == number + 1) { /* else another one has the next number */
        s->record.executions--;
    }
    if (r == 1) {
        execution_release(x);
        *ret = revive(s, known, e);
        *ret_existed = *ret != NULL;
        return *ret != NULL ? 0 : -1;
    }
    if (r < 0 || execution_begin(x, e) < 0) {
        execution_release(x);
        return -1;
    }
    *ret = x;
    return 0;
}

int execution_record_now(struct execution *x, struct err *e)
{
    if (x->end != END_AHEAD) { /* that is its record */
        (void)execution_wait(x, -1);
        return x->end == END_DURABLE ? 0
                                     : err_set(e, ERR_STORAGE, "the result could not be written");
    }
    if (x->row == ROW_STORED) {
        return 0;
    }
    struct store_batch *b = store_batch_new(x->svc->store);
    if (b == NULL) {
        return err_sys(e, ENOMEM, "execution");
    }
    store_put_session(b, &x->session->record);
    store_put_execution(b, &x->record);
    if (service_commit(x->svc, b, NULL, e) < 0) {
        return -1;
    }
    row_phase_step(&x->row, ROW_STORED);
    spool_output(x); /* what there is already */
    return 0;
}
