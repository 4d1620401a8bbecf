/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an execution runs: one fiber from its turn to its record. See service.h for what is promised.
 *
 * Nothing here runs a program twice: what was handed over once and whose end is not known becomes
 * `lost`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "base/units.h"
#include "service/service_impl.h"

/* As a batch; NULL: it has no row yet, or there is no memory. */
static struct store_batch *become_running(struct execution *x)
{
    int from = x->record.status;

    x->record.status = EXECUTION_RUNNING;
    if (x->record.started_ms == 0) { /* else an earlier daemon started it */
        x->record.started_ms = clock_wall_ms();
    }
    fiber_queue_wake_all(&x->news);
    struct store_batch *b = x->row == ROW_STORED ? store_batch_new(x->svc->store) : NULL;
    if (b != NULL) {
        store_move_execution(b, from, &x->record);
    }
    return b;
}

/* A move that the store makes in its own time; the order of moves is kept. */
static void note_running(struct execution *x)
{
    struct store_batch *b = become_running(x);
    struct err e = {0};

    if (b != NULL && store_commit(b, NULL, NULL, &e) < 0) {
        log_warn("execution_not_recorded", "execution=%s: %s", x->id, e.msg);
    }
}

/*
 * Durable, for what runs in a box that ends with this process: after that only its row can tell
 * that it may have begun.
 */
static int note_alone(struct execution *x, struct err *e)
{
    bool is_stored = x->row == ROW_STORED;
    struct store_batch *b = become_running(x);

    if (!is_stored) {
        return 0;
    }
    return b != NULL ? service_commit(x->svc, b, NULL, e) : err_sys(e, ENOMEM, "execution");
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

/* A program in JavaScript has none, unlike a context. */
static bool has_rich_results(const struct execution *x)
{
    return str_eq(x->record.language, "python") ||
           (str_eq(x->record.language, "javascript") && x->session->persistent);
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
        .rich = x->rich && x->kind == EXECUTE_CODE && has_rich_results(x),
        .variables = (const char *const *)x->variables,
        .no_metrics = x->row == ROW_NEVER, /* no client can ask for them, nor for names of files */
        .artifacts = x->row != ROW_NEVER && x->session->persistent,
        .limits = x->session->limits,
        .keep_bytes = x->svc->config->output_keep_bytes,
        .on_output = execution_take_output,
        .user = x,
    };

    spec.limits.timeout_ms = x->timeout_ms;
    return spec;
}

/* A box of its own, used once. */
static int run_alone(struct execution *x, const struct husk_spec *base, struct err *e)
{
    const struct run_hooks hooks = execution_hooks(x);
    struct husk_spec spec = *base;

    if (str_eq(x->record.language, "shell")) {
        const char *own = engine_language(x->svc->engine, x->session->record.template);
        spec.kind = HUSK_SCRIPT;
        if (own == NULL || !str_eq(own, "shell")) {
            spec.template_name = "shell";
        }
    }
    FAULT_POINT("execution.alone.before");
    int r = engine_run(x->svc->engine, &spec, &hooks, &x->result, e);
    x->session->once = 0;
    FAULT_POINT("execution.alone.after");
    return r;
}

static int take_box(struct execution *x, struct err *e)
{
    if (x->box != NULL) { /* adopted with its cell, perhaps dead; another one would not do */
        return 0;
    }
    if (session_box(x->session, e) < 0) {
        return -1;
    }
    if (x->cancel && x->kept == NULL) { /* making the box took its time */
        return err_set(e, ERR_CONFLICT, "cancelled before it began");
    }
    x->box = session_box_hold(x->session);
    return 0;
}

/*
 * Only when its end is recorded: until then a successor of this process finds the cell and its
 * last word where they are, and the next cell may not push them aside.
 */
static void let_go(struct execution *x)
{
    if (x->box != NULL) {
        if (x->has_context) { /* first: its cell tells a successor that only it used it */
            notebook_end_context(x->box, x->context);
            FAULT_POINT("execution.command.context_ended");
        }
        if (x->cell == CELL_KEPT) {
            notebook_drop_cell(x->box, x->context);
            FAULT_POINT("execution.cell.dropped");
        }
        session_box_give(x->session);
        x->box = NULL;
    }
    if (x->has_turn) {
        turn_give(x->session, x->context);
    }
}

static int run_in_session(struct execution *x, const struct husk_spec *spec, struct err *e)
{
    int r = take_box(x, e);

    if (r == 0) {
        note_running(x);
        r = execution_is_command(x) ? execution_run_command(x, spec, e)
                                    : execution_run_cell(x, x->context, spec, e);
        workspace_changed(x->session);
    }
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
        x->svc->alone++;
        r = note_alone(x, e);
        if (r == 0) {
            r = run_alone(x, &spec, e);
        }
        if (--x->svc->alone == 0) {
            fiber_queue_wake_all(&x->svc->alone_ended);
        }
    }
    free(env);
    return r;
}

static void end_ephemeral(struct session *s)
{
    struct err e = {0};

    if (!session_is_spent(s) || session_is_ending(s)) {
        return;
    }
    session_work_ends(s); /* this one is over */
    int r = session_end(s->svc, s->id, SESSION_COMPLETED, "its execution is over", &e);
    if (r < 0 && session_phase_can(s->phase, PHASE_SPENT)) {
        session_phase_step(&s->phase, PHASE_SPENT);
    }
    session_work_begins(s);
}

/*
 * One at a time in each context, in the order in which they came; each is bounded by its own time
 * limit.
 */
static int take_turn(struct execution *x, struct err *e)
{
    struct session *s = x->session;
    int64_t patience = (int64_t)x->svc->config->max_execution_timeout_ms;

    if (!s->persistent || execution_is_command(x)) {
        return 0;
    }
    x->svc->in_turn++;
    int r = turn_take(s, x->context, patience, false, &x->cancel, e);
    x->svc->in_turn--;
    if (r < 0) {
        return -1;
    }
    x->has_turn = true;
    s->turns[x->context].execution = x;
    return 0;
}

/* By its session's box, other cells and commands there included, or by its own. */
static bool used(const void *user, uint64_t *ret_ns)
{
    const struct execution *x = user;

    if (x->guest != NULL) {
        return guest_cpu_ns(x->guest, ret_ns);
    }
    return x->box != NULL && notebook_cpu_ns(x->box, ret_ns);
}

static int take_place(struct execution *x, struct err *e)
{
    const struct fair_key key = execution_key(x->session, x->client);

    x->place.used = used;
    x->place.user = x;
    return places_enter(&x->svc->places, &key, &x->place, (int64_t)x->svc->config->queue_timeout_ms,
                        &x->cancel, e);
}

static void live(void *user)
{
    struct execution *x = user;
    struct service *svc = x->svc;
    struct session *s = x->session;
    uint64_t came = clock_ns();
    struct err e = {0};

    x->runner = fiber_self();
    if (!svc->is_open && x->kept == NULL) { /* it waited in line when an earlier daemon ended */
        (void)fiber_queue_wait(&svc->opened, -1);
    }
    x->begun = x->kept != NULL;
    /* First its turn: an execution that waits for that takes no place. */
    int r = take_turn(x, &e);
    if (r == 0) {
        r = take_place(x, &e);
    }
    x->queue_ms = (double)(clock_ns() - came) / NS_PER_MS;
    if (r == 0) {
        r = x->cancel ? err_set(&e, ERR_CONFLICT, "cancelled before it began") : run(x, &e);
        places_leave(&svc->places, &x->place);
    }
    x->runner = NULL;
    session_touch(s);
    execution_conclude(x, r, &e);
    let_go(x);
    end_ephemeral(s);
    session_work_ends(s);
    svc->fibers--;
    execution_release(x);
}

int execution_begin(struct execution *x, struct err *e)
{
    x->refs++; /* the fiber's */
    session_work_begins(x->session);
    x->svc->fibers++;
    x->svc->figures.executions_started++;
    int r = fiber_start(live, x);
    if (r < 0) {
        session_work_ends(x->session);
        x->svc->fibers--;
        execution_release(x);
        return err_sys(e, -r, "start a fiber");
    }
    return 0;
}
