/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An execution as a cell of its session's box: sent, or taken over from an earlier daemon, and what
 * it says while it runs. See execution_run.c for what comes before and after.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/str.h"
#include "service/service_impl.h"

static ssize_t read_output(void *user, enum husk_stream stream, int pipe, char *buf, size_t size)
{
    return spool_take(user, stream, pipe, buf, size);
}

void execution_take_output(void *user, enum husk_stream stream, const char *data, size_t n)
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

/* Recorded with its end: until then the session itself knows. */
static void on_box(void *user, uint64_t box_id)
{
    struct session *s = ((struct execution *)user)->session;

    s->once = box_id;
    s->record.box = (int64_t)box_id;
}

struct run_hooks execution_hooks(struct execution *x)
{
    return (struct run_hooks){
        .cancel = &x->cancel,
        .read_output = read_output,
        .on_display = on_display,
        .begun = &x->begun,
        .tag = x->session->id,
        .on_box = on_box,
        .user = x,
        .guest = &x->guest,
    };
}

bool execution_is_command(const struct execution *x)
{
    return x->kind == EXECUTE_COMMAND;
}

static int finish_cell(struct execution *x, struct cell *cell, struct err *e)
{
    int r = cell_finish(cell, &x->result, e);

    FAULT_POINT("execution.cell.finished");
    cell_release(cell);
    return r;
}

/* The cell that an earlier daemon left. 1: it was never sent. */
static int resume_cell(struct execution *x, const struct husk_spec *spec, struct err *e)
{
    const struct run_hooks hooks = execution_hooks(x);

    struct cell *cell = cell_adopt(x->box, x->kept, spec, &hooks, e);
    cell_phase_step(&x->cell, cell != NULL ? CELL_KEPT : CELL_SENT);
    if (cell == NULL) {
        return -1;
    }
    int r = finish_cell(x, cell, e);
    if (r < 0 || x->result != NULL) {
        return r;
    }
    cell_phase_step(&x->cell, CELL_AHEAD);
    x->begun = false;
    execution_forget_kept(x);
    return 1;
}

/* One cell in a context of the session's box. */
int execution_run_cell(struct execution *x, uint32_t context, const struct husk_spec *spec,
                       struct err *e)
{
    const struct run_hooks hooks = execution_hooks(x);
    const struct cell_keeping keep = {.tag = x->id, .has_own_context = x->has_context};
    bool is_kept = x->row != ROW_NEVER;

    int resumed = x->kept != NULL ? resume_cell(x, spec, e) : 1;
    if (resumed <= 0) {
        return resumed;
    }
    if (x->is_unknown) {
        notebook_drop_cell(x->box, context);
        return err_set(e, ERR_NOT_FOUND, "it was never sent, and what it was is not known");
    }
    FAULT_POINT("execution.cell.before");
    struct cell *cell = cell_start(x->box, context, spec, &hooks, is_kept ? &keep : NULL, e);
    bool interrupted = x->cell == CELL_INTERRUPTED;
    cell_phase_step(&x->cell, cell != NULL && is_kept ? CELL_KEPT : CELL_SENT);
    x->begun = x->begun || cell != NULL;
    if (cell == NULL) {
        return -1;
    }
    if (interrupted) {
        cell_interrupt(cell);
    }
    return finish_cell(x, cell, e);
}

/* A command gets a context of its own: it must not see the interpreter's variables. */
int execution_run_command(struct execution *x, const struct husk_spec *base, struct err *e)
{
    struct husk_spec spec = *base;

    /* One that was adopted runs there already. */
    if (x->kept == NULL && notebook_command_context(x->box, &x->context, e) < 0) {
        if (e->code == ERR_LIMIT && e->sys_errno == 0) {
            e->code = ERR_CONFLICT; /* the session's own limit, not the server's */
        }
        return -1;
    }
    FAULT_POINT("execution.command.context_made");
    x->has_context = true;
    spec.kind = HUSK_SCRIPT;
    spec.rich = false;
    spec.variables = NULL;
    return execution_run_cell(x, x->context, &spec, e);
}
