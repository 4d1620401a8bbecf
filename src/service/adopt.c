/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start of a daemon: what the one before it left, in the store and in the launcher, is put
 * together again.
 *
 * A session whose box the launcher kept goes on as if nothing had happened, and so does the cell
 * that runs in it. A session whose box is gone gets a new one when it is next used, with the files
 * that were saved. An execution that was never sent to a box keeps its place in line. One that was
 * sent and whose end cannot be known is `lost`, with the output that was seen of it: nothing is
 * repeated.
 *
 * Whether it was sent is known from the launcher, which is told of each cell before the box is. A
 * launcher knows nothing of what was sent to the boxes of another one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "service/service_impl.h"

#define DISPLAYS_MAX ((size_t)32 << 20) /* more than a run may have */

/* One that goes back into line, with those behind it: rows come newest first. */
struct waiting {
    struct waiting *next;
    struct execution *execution;
};

struct adoption {
    struct service *svc;
    struct kept_notebook *boxes;
    int64_t since_epoch; /* cells of that daemon and later ones are known */
    struct waiting *first;
};

static struct kept_notebook *find_box(const struct adoption *a, const char *id)
{
    for (struct kept_notebook *f = a->boxes; f != NULL; f = f->next) {
        if (str_eq(f->tag, id) && f->notebook != NULL) {
            return f;
        }
    }
    return NULL;
}

static int adopt_session(void *user, const struct store_session *row, struct err *e)
{
    struct adoption *a = user;
    struct service *svc = a->svc;
    struct kept_notebook *f = find_box(a, row->id);
    struct session *s = session_new(svc, row);

    if (s == NULL) {
        return err_set(e, ERR_SYSTEM, "out of memory");
    }
    session_phase_step(&s->phase, row->status == SESSION_CREATING ? PHASE_STALLED : PHASE_LIVE);
    session_spec_read(s);
    s->limits = service_limits(svc, row->template, &s->limits);
    /* Not what it was made with: it may have been extended. */
    s->timeout_ms = (uint64_t)MAX(row->expires_ms - row->active_ms, (int64_t)0);
    s->record.epoch = svc->figures.epoch;
    session_touch(s);
    /* Its age goes on; unsigned numbers make a birth before the machine's start come out right. */
    s->born_ms -= (uint64_t)MAX(clock_wall_ms() - row->created_ms, (int64_t)0);
    if (f != NULL) {
        s->box = TAKE_PTR(f->notebook);
        bool is_frozen = notebook_is_frozen(s->box);
        session_box_step(s, is_frozen ? BOX_FROZEN : BOX_OPEN);
        /* The other daemon may have died before it saved the last change, unless it froze it. */
        s->dirty = s->persistent && !is_frozen;
        svc->figures.readopted++;
    } else {
        s->restarted = true;
        workspace_box_gone(s);
        if (s->persistent && row->status == SESSION_RUNNING) {
            session_note_restart(s, RESTART_BOX_LOST);
        }
    }
    quota_adopt_session(s);
    table_add_session(svc, s);
    FAULT_POINT("adopt.session");
    return 0;
}

/* NULL: the launcher kept no cell of that execution. */
static struct kept_cell *find_cell(const struct adoption *a, const char *session_id,
                                   const char *tag)
{
    for (struct kept_notebook *f = a->boxes; f != NULL; f = f->next) {
        for (size_t i = 0; i < f->n_cells && str_eq(f->tag, session_id); i++) {
            if (str_eq(f->cells[i].tag, tag)) {
                return &f->cells[i];
            }
        }
    }
    return NULL;
}

/* Of one without a record there is only its cell. */
static struct execution *make_unknown(struct session *s, const struct store_execution *row)
{
    struct execution *x = execution_new(s, row);

    if (x != NULL) {
        row_phase_step(&x->row, ROW_STORED);
        x->is_unknown = true;
        x->kind = str_eq(row->kind, "command") ? EXECUTE_COMMAND : EXECUTE_CODE;
        x->code = strdup("");
    }
    return x;
}

/* Goes on where the other daemon stopped. Takes x; NULL is fine. */
static bool resume_cell(struct adoption *a, struct execution *x, struct kept_cell *kept)
{
    struct session *s = x != NULL ? x->session : NULL;
    struct err e = {0};

    if (x == NULL || (x->kept = malloc(sizeof(*kept))) == NULL) {
        execution_release(x);
        return false;
    }
    *x->kept = *kept;
    kept->out = kept->err = -1;
    kept->tag[0] = '\0';
    x->rich = true; /* whatever it was asked for is taken */
    x->kept->displays = BUF_INIT(DISPLAYS_MAX);
    spool_read(a->svc, x->id, &x->out, &x->err, &x->kept->displays);
    x->spool_at[0] = x->out.len;
    x->spool_at[1] = x->err.len;
    quota_adopt_execution(x);
    if (x->variables == NULL) {
        x->variables = calloc(1, sizeof(*x->variables)); /* likewise */
    }
    x->context = x->kept->context;
    x->timeout_ms = x->kept->timeout_ms;
    x->box = session_box_hold(s);
    FAULT_POINT("adopt.cell.before");
    bool ok = execution_begin(x, &e) == 0;
    if (!ok) {
        session_box_give(s);
    }
    execution_release(x);
    FAULT_POINT("adopt.cell.resumed");
    return ok;
}

/* It was not sent: no cell of it was kept, and none could be without us knowing. */
static bool is_unsent(const struct adoption *a, const struct session *s,
                      const struct store_execution *row)
{
    return s->persistent ? row->epoch >= a->since_epoch : row->status == EXECUTION_PENDING;
}

static bool line_up(struct adoption *a, struct session *s, const struct store_execution *row)
{
    struct execution *x = execution_read(s, row);
    struct waiting *w = x != NULL ? malloc(sizeof(*w)) : NULL;

    if (w == NULL) {
        execution_release(x);
        return false;
    }
    quota_adopt_execution(x);
    session_work_begins(s); /* it counts as working before its fiber runs */
    *w = (struct waiting){.next = a->first, .execution = x};
    a->first = w;
    return true;
}

/* Oldest first, and behind those that run. */
static void begin_waiting(struct adoption *a)
{
    struct err e = {0};

    while (a->first != NULL) {
        struct waiting *w = a->first;
        struct execution *x = w->execution;
        a->first = w->next;
        FAULT_POINT("adopt.waiting.before");
        if (execution_begin(x, &e) < 0) {
            log_warn("execution_not_begun", "execution=%s: %s", x->id, e.msg);
        }
        session_work_ends(x->session);
        execution_release(x);
        free(w);
    }
}

/* Output that was seen stays: a client may have read it. */
static char *lost_result(struct service *svc, const char *id)
{
    AUTO_BUF struct buf out = BUF_INIT(svc->config->output_keep_bytes);
    AUTO_BUF struct buf err = BUF_INIT(svc->config->output_keep_bytes);

    spool_read(svc, id, &out, &err, NULL);
    json_t *result = result_lost_json(&out, &err);
    char *text = json_dumps(result, JSON_COMPACT);
    json_decref(result);
    return text;
}

static void on_settled(void *user, const struct store_result *r)
{
    struct service *svc = user;

    if (r->outcome == STORE_DONE) {
        svc->figures.executions_ended[EXECUTION_LOST]++;
        return;
    }
    log_warn("execution_not_settled", "%s", r->err.msg);
    svc->unsettled = svc->unsettled || r->err.code == ERR_STORAGE;
}

static int record_lost(const struct adoption *a, struct session *s,
                       const struct store_execution *row, struct err *e)
{
    struct store_batch *b = store_batch_new(a->svc->store);

    if (b == NULL) {
        return err_set(e, ERR_SYSTEM, "out of memory");
    }
    AUTO_FREE char *result = lost_result(a->svc, row->id);
    struct store_execution next = *row;
    next.status = EXECUTION_LOST;
    next.epoch = a->svc->figures.epoch;
    next.ended_ms = clock_wall_ms();
    next.result = result != NULL ? result : "{}";
    if (s != NULL) { /* in its record with its next change */
        quota_force(s, strlen(next.result));
        s->record.kept_bytes += (int64_t)strlen(next.result);
    }
    store_move_execution(b, row->status, &next);
    FAULT_POINT("adopt.lost.before");
    int r = store_commit(b, on_settled, a->svc, e);
    FAULT_POINT("adopt.lost.handed_over");
    return r;
}

static int settle_execution(void *user, const struct store_execution *row, struct err *e)
{
    struct adoption *a = user;

    if (table_execution(a->svc, row->id, strlen(row->id)) != NULL) {
        return 0; /* goes on already */
    }
    struct session *s = table_session(a->svc, row->session_id);
    struct kept_cell *kept = find_cell(a, row->session_id, row->id);
    if (s != NULL && kept == NULL && is_unsent(a, s, row) && line_up(a, s, row)) {
        return 0;
    }
    if (s != NULL && s->box != NULL && kept != NULL) {
        if (kept->out >= 0 && resume_cell(a, execution_read(s, row), kept)) {
            return 0;
        }
        notebook_interrupt_idly(s->box, kept->context); /* it may run, unwatched */
    }
    return record_lost(a, s, row, e);
}

/* Waits until the store has tried all of it. */
static int settle_executions(struct adoption *a, struct err *e)
{
    struct service *svc = a->svc;
    struct store_filter live = {.live = true, .epoch_before = svc->figures.epoch};
    struct err ignored;

    svc->unsettled = false;
    int r = store_each_execution(svc->store, &live, settle_execution, a, e);
    /* They are written in the order in which they were handed over: an empty one comes last. */
    (void)service_commit(svc, store_batch_new(svc->store), NULL, &ignored);
    if (fiber_self() == NULL) {
        store_dispatch(svc->store);
    }
    return r;
}

void service_settle(struct service *svc)
{
    /* What can go on does so already: of the rest nothing is known. */
    struct adoption a = {.svc = svc, .since_epoch = INT64_MAX};
    struct err e = {0};

    if (!svc->unsettled) {
        return;
    }
    if (settle_executions(&a, &e) < 0) {
        svc->unsettled = true;
    }
    begin_waiting(&a);
    if (!svc->unsettled) {
        spool_sweep(svc);
    }
}

/*
 * A cell whose end was recorded, but the daemon died before it released it. It must not be recorded
 * again.
 */
static bool let_go_of_ended(struct service *svc, struct session *s, const struct kept_cell *cell)
{
    AUTO_FREE struct store_execution *row = NULL;
    struct err e = {0};

    if (store_get_execution(svc->store, cell->tag, &row, &e) < 0 || row->ended_ms == 0) {
        return false;
    }
    if (cell->has_own_context) { /* first, as in let_go(): the next one knows it by its cell */
        notebook_end_context(s->box, cell->context);
    }
    FAULT_POINT("adopt.ended.half");
    notebook_drop_cell(s->box, cell->context);
    return true;
}

/*
 * A cell without a record: its caller waited for the answer, which died with the daemon, and the
 * record was to be made with it. It runs all the same, so its time limit is kept, and its end is
 * recorded.
 */
static void resume_unrecorded(struct adoption *a)
{
    for (struct kept_notebook *f = a->boxes; f != NULL; f = f->next) {
        struct session *s = table_session(a->svc, f->tag);
        for (size_t i = 0; s != NULL && s->box != NULL && i < f->n_cells; i++) {
            struct kept_cell *cell = &f->cells[i];
            int64_t now = clock_wall_ms();
            struct store_execution row = {
                .id = cell->tag,
                .session_id = s->id,
                .number = s->record.executions + 1,
                .kind = cell->has_own_context ? "command" : "code",
                .language = template_language_name(notebook_language(s->box, cell->context)),
                .request = "{}",
                .created_ms = now,
                .started_ms = now,
                .epoch = a->svc->figures.epoch,
                .status = EXECUTION_RUNNING,
            };
            if (cell->out >= 0 && cell->tag[0] != '\0' && !let_go_of_ended(a->svc, s, cell)) {
                s->record.executions++;
                (void)resume_cell(a, make_unknown(s, &row), cell);
            }
        }
    }
}

int service_adopt(struct service *svc, struct err *e)
{
    struct adoption a = {.svc = svc};
    struct engine_heritage left = {0};

    templates_settle(svc); /* before boxes come back: they know their templates by name */
    int r = engine_adopt(svc->engine, svc->figures.epoch, &left, e);
    a.boxes = left.notebooks;
    a.since_epoch = left.since_epoch;
    FAULT_POINT("adopt.boxes_found");
    if (r == 0) {
        r = store_each_session(svc->store, &(struct store_filter){.live = true}, adopt_session, &a,
                               e);
    }
    if (r == 0) {
        r = settle_executions(&a, e);
    }
    if (r == 0) {
        resume_unrecorded(&a);
    }
    begin_waiting(&a);
    FAULT_POINT("adopt.rest.before");
    kept_notebooks_free(a.boxes); /* no record has them: they end */
    FAULT_POINT("adopt.rest.freed");
    if (r == 0) {
        sessions_settle(svc);
        FAULT_POINT("adopt.sessions_settled");
        if (!svc->unsettled) { /* else what was seen of them is not recorded yet */
            spool_sweep(svc);
        }
        workspace_sweep(svc);
        FAULT_POINT("adopt.swept");
        if (table_sessions(svc) > 0) {
            log_info("sessions_found", "sessions=%zu boxes=%llu", table_sessions(svc),
                     (unsigned long long)svc->figures.readopted);
        }
    }
    return r;
}
