/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an execution runs: one fiber from its turn to its record. See service.h for what is promised.
 *
 * Nothing here runs a program twice: what was handed over once and whose end is not known becomes `lost`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "service/impl.h"

#define RECORD_TRIES 6 /* a disk may be full for a moment */
#define RECORD_PAUSE_MS 400

static void on_output(void *user, enum husk_stream stream, const char *data, size_t n)
{
    struct execution *x = user;
    struct buf *to = stream == HUSK_STDOUT ? &x->out : &x->err;

    (void)buf_add(to, data, MIN(n, to->max - to->len));
    spool_add(x, stream, data, n);
    fiber_queue_wake_all(&x->news);
}

/* A move that the store makes in its own time; the order of moves is kept. */
static void note_running(struct execution *x)
{
    int from = x->record.status;
    struct err e = {0};

    x->record.status = EXECUTION_RUNNING;
    x->record.started_ms = clock_wall_ms();
    fiber_queue_wake_all(&x->news);
    if (!x->stored) {
        return;
    }
    struct store_batch *b = store_batch_new(x->svc->store);
    if (b != NULL) {
        store_move_execution(b, from, &x->record);
        if (store_commit(b, NULL, NULL, &e) < 0) {
            log_warn("execution_not_recorded", "execution=%s: %s", x->id, e.msg);
        }
    }
}

/* Until the disk takes it, or our patience ends. */
static void store_end(struct execution *x, const struct store_execution *next)
{
    struct err e = {0};

    for (int i = 0; i < RECORD_TRIES; i++) {
        struct store_batch *b = store_batch_new(x->svc->store);
        if (b != NULL) {
            store_put_session(b, &x->session->record);
            store_put_execution(b, next);
            if (service_commit(x->svc, b, NULL, &e) == 0) {
                x->stored = true;
                x->durable = true;
                return;
            }
        }
        fiber_sleep(RECORD_PAUSE_MS);
    }
    log_error("result_not_recorded", "execution=%s: %s", x->id, e.msg);
}

/* The end, durable before anybody hears of it. */
static void note_end(struct execution *x, int state, json_t *result)
{
    struct store_execution next = x->record;
    char *text = result != NULL ? json_dumps(result, JSON_COMPACT) : NULL;

    json_decref(result);
    next.status = state;
    next.ended_ms = clock_wall_ms();
    next.result = text != NULL ? text : strdup("{}");
    next.out_bytes = (int64_t)x->out.len;
    next.err_bytes = (int64_t)x->err.len;
    store_end(x, &next);
    x->record = next;
    spool_remove(x);
    x->svc->figures.executions_ended[state]++;
    fiber_queue_wake_all(&x->news);
}

static json_t *failure_json(const struct err *e)
{
    static char nothing[1];
    struct husk_result r = {.exit_code = 125,
                            .out = nothing,
                            .err = nothing,
                            .error = {.type = (char *)(uintptr_t)err_type(e->code),
                                      .message = (char *)(uintptr_t)e->msg},
                            .termination = {.cause = HUSK_CAUSE_INTERNAL}};

    (void)str_copy(r.termination.detail, sizeof(r.termination.detail), err_type(e->code));
    return result_json(&r);
}

static int state_of(enum husk_status status)
{
    static const int states[] = {[HUSK_COMPLETED] = EXECUTION_COMPLETED,
                                 [HUSK_FAILED] = EXECUTION_FAILED,
                                 [HUSK_TIMEOUT] = EXECUTION_TIMEOUT,
                                 [HUSK_MEMORY_EXCEEDED] = EXECUTION_MEMORY_EXCEEDED,
                                 [HUSK_CANCELLED] = EXECUTION_CANCELLED,
                                 [HUSK_CRASHED] = EXECUTION_CRASHED};

    return states[status];
}

/* ---- the two ways to run ---- */

/* NAME=value of the session, then of this execution. Borrowed texts in an owned list. */
static const char **join_env(const struct execution *x)
{
    char **lists[] = {x->session->env, x->env};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        for (size_t j = 0; lists[i] != NULL && lists[i][j] != NULL; j++) {
            n++;
        }
    }
    const char **all = calloc(n + 1, sizeof(*all));
    n = 0;
    for (size_t i = 0; all != NULL && i < ARRAY_LEN(lists); i++) {
        for (size_t j = 0; lists[i] != NULL && lists[i][j] != NULL; j++) {
            all[n++] = lists[i][j];
        }
    }
    return all;
}

static struct husk_spec spec_of(struct execution *x, const char **env)
{
    struct husk_spec spec = {
        .template_name = x->session->record.template,
        .kind = x->kind == EXECUTE_HANDLER ? HUSK_HANDLER : HUSK_CELL,
        .code = x->code,
        .code_len = x->code_len,
        .args = (const char *const *)x->args,
        .env = env,
        .stdin_data = x->stdin_data,
        .stdin_len = x->stdin_len,
        .event = x->event,
        .context = x->context_json,
        .rich = x->rich && x->kind == EXECUTE_CODE,
        .variables = (const char *const *)x->variables,
        .limits = x->session->limits,
        .keep_bytes = x->svc->config->output_keep_bytes,
        .cancel = &x->cancel,
        .on_output = on_output,
        .user = x,
    };

    spec.limits.timeout_ms = x->timeout_ms;
    return spec;
}

/* A box of its own, used once. */
static int run_alone(struct execution *x, const struct husk_spec *base, struct err *e)
{
    struct husk_spec spec = *base;
    struct husk_error h;

    if (str_eq(x->record.language, "shell")) {
        spec.template_name = "shell";
    } else if (str_eq(x->record.language, "javascript")) {
        spec.template_name = "node";
    }
    if (!str_eq(x->record.language, "python")) {
        spec.kind = HUSK_SCRIPT;
        spec.rich = false;
    }
    if (husk_run(x->svc->engine, &spec, &x->result, &h) < 0) {
        return err_set(e, err_find(h.type), "%s", h.message);
    }
    return 0;
}

static bool is_command(const struct execution *x)
{
    return x->kind == EXECUTE_COMMAND || str_eq(x->record.language, "shell");
}

/* The command, as Python code that runs it and ends as it ends. */
static char *command_code(const struct execution *x)
{
    json_t *words = json_array();

    json_array_append_new(words, json_string("/bin/bash"));
    json_array_append_new(words, json_string("-c"));
    json_array_append_new(words, json_stringn(x->code, x->code_len));
    json_array_append_new(words, json_string("bash"));
    for (size_t i = 0; x->args != NULL && x->args[i] != NULL; i++) {
        json_array_append_new(words, json_string(x->args[i]));
    }
    char *text = json_dumps(words, JSON_ENSURE_ASCII);
    json_t *quoted = text != NULL ? json_string(text) : NULL;
    char *literal = quoted != NULL ? json_dumps(quoted, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    char *code = NULL;
    if (literal != NULL &&
        asprintf(&code,
                 "import json, subprocess, sys\n"
                 "status = subprocess.call(json.loads(%s))\n"
                 "sys.exit(status if status >= 0 else 128 - status)\n",
                 literal) < 0) {
        code = NULL;
    }
    json_decref(words);
    json_decref(quoted);
    free(text);
    free(literal);
    return code;
}

/* One cell in a context of the session's box. */
static int run_cell(struct execution *x, uint32_t context, const struct husk_spec *spec,
                    struct err *e)
{
    struct husk_session *box = x->session->box;
    struct cell cell;
    int r;

    if (x->kept != NULL) {
        r = cell_adopt(&cell, box, x->kept, spec, e);
    } else {
        r = cell_start(&cell, box, context, spec, e);
        if (r == 0) {
            session_keep_cell(&cell, x->id);
        }
    }
    if (r == 0) {
        r = cell_finish(&cell, &x->result, e);
    }
    cell_release(&cell);
    return r;
}

/* A command gets a context of its own: the interpreter's variables are none of its business. */
static int run_command(struct execution *x, const struct husk_spec *base, struct err *e)
{
    struct husk_session *box = x->session->box;
    struct husk_spec spec = *base;
    struct husk_error h;
    uint32_t context;

    AUTO_FREE char *code = command_code(x);
    if (code == NULL) {
        return err_sys(e, ENOMEM, "command");
    }
    if (x->kept != NULL) {
        context = x->context; /* it runs there already */
    } else if (session_fresh_context(box, &context, &h) < 0) {
        return err_set(e, err_find(h.type), "%s", h.message);
    }
    spec.kind = HUSK_SCRIPT;
    spec.code = code;
    spec.code_len = strlen(code);
    spec.args = NULL;
    spec.rich = false;
    int r = run_cell(x, context, &spec, e);
    session_end_context(box, context);
    return r;
}

/* One at a time in each context, in the order in which they came. */
static int run_in_context(struct execution *x, const struct husk_spec *spec, struct err *e)
{
    struct session *s = x->session;
    int64_t patience = (int64_t)x->svc->config->queue_timeout_ms;

    if (turn_take(s, x->context, patience, &x->cancel, e) < 0) {
        return -1;
    }
    s->turns[x->context].execution = x;
    int r = session_box(s, e);
    if (r == 0) {
        note_running(x);
        r = run_cell(x, x->context, spec, e);
    }
    x->has_turn = true; /* until its end is recorded: the next one may not push its last word aside */
    return r;
}

static int run_in_session(struct execution *x, const struct husk_spec *spec, struct err *e)
{
    struct session *s = x->session;
    int r;

    if (!is_command(x)) {
        r = run_in_context(x, spec, e);
    } else if ((r = session_box(s, e)) == 0) {
        note_running(x);
        r = run_command(x, spec, e);
    }
    s->dirty = true;
    return r;
}

/* ---- the fiber ---- */

static int run(struct execution *x, struct err *e)
{
    const char **env = join_env(x);
    struct husk_spec spec = spec_of(x, env);
    int r = -1;

    if (env == NULL) {
        err_sys(e, ENOMEM, "environment");
    } else if (x->session->persistent) {
        r = run_in_session(x, &spec, e);
    } else {
        note_running(x);
        r = run_alone(x, &spec, e);
    }
    free(env);
    return r;
}

static void replace(char **text, size_t *len, const struct buf *whole)
{
    char *copy = malloc(whole->len + 1);

    if (copy != NULL) {
        memcpy(copy, whole->data != NULL ? whole->data : "", whole->len);
        copy[whole->len] = '\0';
        free(*text);
        *text = copy;
        *len = whole->len;
    }
}

/* The run saw only the rest of the output; we have what an earlier daemon had read before. */
static void join_output(struct execution *x)
{
    replace(&x->result->out, &x->result->out_len, &x->out);
    replace(&x->result->err, &x->result->err_len, &x->err);
}

static void conclude(struct execution *x, int r, const struct err *e)
{
    if (r == 0) {
        if (x->kept != NULL) {
            join_output(x);
        }
        note_end(x, state_of(x->result->status), result_json(x->result));
    } else if (x->cancel) {
        note_end(x, EXECUTION_CANCELLED, failure_json(e));
    } else if (x->record.status == EXECUTION_RUNNING) {
        note_end(x, e->code == ERR_LAUNCHER || x->kept != NULL ? EXECUTION_LOST : EXECUTION_FAILED,
                 failure_json(e));
    } else {
        note_end(x, EXECUTION_FAILED, failure_json(e));
    }
}

static void end_ephemeral(struct session *s)
{
    struct err e = {0};

    if (!s->persistent && !s->ending) {
        s->working--; /* this one is over */
        (void)session_end(s->svc, s->id, SESSION_COMPLETED, "its execution is over", &e);
        s->working++;
    }
}

static void live(void *user)
{
    struct execution *x = user;
    struct service *svc = x->svc;
    struct session *s = x->session;
    struct err e = {0};

    x->runner = fiber_self();
    int r = gate_enter(&svc->gate, (int64_t)svc->config->queue_timeout_ms, &x->cancel, &e);
    if (r == 0) {
        r = x->cancel ? err_set(&e, ERR_CONFLICT, "cancelled before it began") : run(x, &e);
        gate_leave(&svc->gate);
    }
    x->runner = NULL;
    session_touch(s);
    conclude(x, r, &e);
    if (x->has_turn) {
        if (s->box != NULL) {
            session_drop_cell(s->box, x->context);
        }
        turn_give(s, x->context);
    }
    end_ephemeral(s);
    s->working--;
    svc->fibers--;
    execution_release(x);
}

int execution_begin(struct execution *x, struct err *e)
{
    x->refs++; /* the fiber's */
    x->session->working++;
    x->svc->fibers++;
    x->svc->figures.executions_started++;
    int r = fiber_start(live, x);
    if (r < 0) {
        x->session->working--;
        x->svc->fibers--;
        execution_release(x);
        return err_sys(e, -r, "start a fiber");
    }
    return 0;
}
