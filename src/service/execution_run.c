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
#include "command_code.h" /* generated from runtimes/shell/command.py */
#include "service/service_impl.h"

static ssize_t read_output(void *user, enum husk_stream stream, int pipe, char *buf, size_t size)
{
    return spool_take(user, stream, pipe, buf, size);
}

static void on_output(void *user, enum husk_stream stream, const char *data, size_t n)
{
    struct execution *x = user;
    struct buf *to = stream == HUSK_STDOUT ? &x->out : &x->err;

    size_t kept = MIN(n, to->max - to->len);
    (void)buf_add(to, data, kept);
    quota_use_output(x, kept);
    spool_output(x);
    fiber_queue_wake_all(&x->news);
}

static void on_display(void *user, const char *frame, size_t n)
{
    struct execution *x = user;

    spool_add_display(x, frame, n);
    fiber_queue_wake_all(&x->news);
}

/* A move that the store makes in its own time; the order of moves is kept. */
static void note_running(struct execution *x)
{
    int from = x->record.status;
    struct err e = {0};

    x->record.status = EXECUTION_RUNNING;
    if (x->record.started_ms == 0) { /* else an earlier daemon started it */
        x->record.started_ms = clock_wall_ms();
    }
    fiber_queue_wake_all(&x->news);
    if (x->row != ROW_STORED) {
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

/* Recorded with its end: until then the session itself knows. */
static void on_box(void *user, uint64_t box_id)
{
    struct session *s = ((struct execution *)user)->session;

    s->once = box_id;
    s->record.box = (int64_t)box_id;
}

static struct run_hooks hooks_of(struct execution *x)
{
    return (struct run_hooks){
        .cancel = &x->cancel,
        .read_output = read_output,
        .on_display = on_display,
        .begun = &x->begun,
        .tag = x->session->id,
        .on_box = on_box,
        .user = x,
    };
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
        .no_metrics = x->row == ROW_NEVER, /* no client can ask for them, nor for names of files */
        .artifacts = x->row != ROW_NEVER && x->session->persistent,
        .limits = x->session->limits,
        .keep_bytes = x->svc->config->output_keep_bytes,
        .on_output = on_output,
        .user = x,
    };

    spec.limits.timeout_ms = x->timeout_ms;
    return spec;
}

/* A box of its own, used once. */
static int run_alone(struct execution *x, const struct husk_spec *base, struct err *e)
{
    const struct run_hooks hooks = hooks_of(x);
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

static bool is_command(const struct execution *x)
{
    return x->kind == EXECUTE_COMMAND || str_eq(x->record.language, "shell");
}

/* The command and its own arguments. Borrowed texts in an owned list. */
static const char **command_args(const struct execution *x)
{
    size_t n = 0;

    while (x->args != NULL && x->args[n] != NULL) {
        n++;
    }
    const char **args = calloc(n + 2, sizeof(*args));
    if (args != NULL) {
        args[0] = x->code;
        for (size_t i = 0; i < n; i++) {
            args[i + 1] = x->args[i];
        }
    }
    return args;
}

/* One cell in a context of the session's box. */
static int run_cell(struct execution *x, uint32_t context, const struct husk_spec *spec,
                    struct err *e)
{
    struct notebook *box = x->session->box;
    const struct run_hooks hooks = hooks_of(x);
    struct cell *cell;

    if (x->kept != NULL) {
        cell = cell_adopt(box, x->kept, spec, &hooks, e);
    } else {
        FAULT_POINT("execution.cell.before");
        cell = cell_start(box, context, spec, &hooks, e);
        FAULT_POINT("execution.cell.sent");
        if (cell != NULL && x->row != ROW_NEVER) {
            cell_keep(cell, x->id, x->has_context);
            FAULT_POINT("execution.cell.kept");
        }
    }
    bool interrupted = x->cell == CELL_INTERRUPTED;
    cell_phase_step(&x->cell, cell != NULL && x->row != ROW_NEVER ? CELL_KEPT : CELL_SENT);
    x->begun = x->begun || cell != NULL;
    if (cell == NULL) {
        return -1;
    }
    if (interrupted) {
        cell_interrupt(cell);
    }
    int r = cell_finish(cell, &x->result, e);
    FAULT_POINT("execution.cell.finished");
    cell_release(cell);
    return r;
}

/* A command gets a context of its own: it must not see the interpreter's variables. */
static int run_command(struct execution *x, const struct husk_spec *base, struct err *e)
{
    struct notebook *box = x->session->box;
    struct husk_spec spec = *base;

    AUTO_FREE const char **args = command_args(x);
    if (args == NULL) {
        return err_sys(e, ENOMEM, "command");
    }
    /* One that was adopted runs there already. */
    if (x->kept == NULL && notebook_fresh_context(box, &x->context, e) < 0) {
        /* The session's own limit, not the server's: waiting is no use. */
        return e->code == ERR_LIMIT && e->sys_errno == 0
                   ? err_set(e, ERR_CONFLICT,
                             "session %s has reached its limit of processes or "
                             "contexts: end some of them",
                             x->session->id)
                   : -1;
    }
    FAULT_POINT("execution.command.context_made");
    x->has_context = true;
    spec.kind = HUSK_SCRIPT;
    spec.code = command_code;
    spec.code_len = sizeof(command_code) - 1;
    spec.args = args;
    spec.rich = false;
    return run_cell(x, x->context, &spec, e);
}

static int take_box(struct execution *x, struct err *e)
{
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
        r = is_command(x) ? run_command(x, spec, e) : run_cell(x, x->context, spec, e);
        x->session->dirty = true;
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
        note_running(x);
        x->svc->alone++;
        r = run_alone(x, &spec, e);
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

    if (!s->persistent || is_command(x)) {
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

static void live(void *user)
{
    struct execution *x = user;
    struct service *svc = x->svc;
    struct session *s = x->session;
    uint64_t came = clock_ns();
    struct err e = {0};

    x->runner = fiber_self();
    x->begun = x->kept != NULL;
    /* Before a place in the gate: an execution that waits for its turn takes no place. */
    int r = take_turn(x, &e);
    if (r == 0) {
        r = gate_enter(&svc->gate, (int64_t)svc->config->queue_timeout_ms, &x->cancel, &e);
    }
    x->queue_ms = (double)(clock_ns() - came) / NS_PER_MS;
    if (r == 0) {
        r = x->cancel ? err_set(&e, ERR_CONFLICT, "cancelled before it began") : run(x, &e);
        gate_leave(&svc->gate);
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
