/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an execution ends: its result is put together and recorded. See service.h for what is
 * promised.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "service/service_impl.h"

/*
 * gcc 12's analyzer loses sight of what a record owns once it is stored there; execution_release()
 * frees it.
 */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#define RECORD_TRIES 6 /* a disk may be full for a moment */
#define RECORD_PAUSE_MS 400
#define ERROR_KEPT 1000    /* bytes of an error's text in a record that must be short */
#define EXIT_CANCELLED 130 /* as of one that was cancelled while it ran */

/* Until the disk takes it, so many times. False: it has not. */
static bool store_end(struct execution *x, const struct store_execution *next, unsigned tries)
{
    struct err e = {0};

    if (x->row == ROW_NEVER) {
        return true; /* as durable as it was asked to be */
    }
    for (unsigned i = 0; i < tries && !x->svc->closing; i++) {
        if (i > 0) {
            (void)fiber_queue_wait(&x->svc->store_works, RECORD_PAUSE_MS);
        }
        struct store_batch *b = store_batch_new(x->svc->store);
        if (b == NULL) {
            continue;
        }
        store_put_session(b, &x->session->record);
        store_put_execution(b, next);
        FAULT_POINT("execution.end.before");
        if (service_commit(x->svc, b, NULL, &e) == 0) {
            FAULT_POINT("execution.end.recorded");
            row_phase_step(&x->row, ROW_STORED);
            return true;
        }
        if (e.code != ERR_STORAGE && e.code != ERR_LIMIT) {
            break; /* time does not help */
        }
    }
    log_error("result_not_recorded", "execution=%s: %s", x->id, e.msg);
    return false;
}

/* The first part of an error's text. */
static json_t *cut_text(const json_t *text)
{
    const char *s = json_string_value(text);
    size_t n = s != NULL ? MIN(strlen(s), (size_t)ERROR_KEPT) : 0;

    while (s != NULL && n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80) {
        n--; /* not within a character */
    }
    return s != NULL ? json_stringn(s, n) : json_null();
}

/* Drops what has no bound of its own and marks that. Output of the streams stays. */
static void cut_result(json_t *result)
{
    const json_t *error = json_object_get(result, "error");

    if (json_is_object(error)) {
        json_t *less =
            json_pack("{s:o, s:o, s:n}", "type", cut_text(json_object_get(error, "type")),
                      "message", cut_text(json_object_get(error, "message")), "traceback");
        json_object_set_new(result, "error", less);
    }
    json_object_set_new(result, "outputs", json_array());
    json_object_set_new(result, "outputs_dropped", json_true());
    json_object_set_new(result, "value", json_null());
    json_object_set_new(result, "return_value", json_null());
    (void)json_object_del(result, "variables");
    (void)json_object_del(result, "artifacts");
}

/* As text for the record, as much of it as the quota has room for. */
static char *fit_result(struct execution *x, json_t *result)
{
    char *text = json_dumps(result, JSON_COMPACT);

    if (text == NULL || quota_end_execution(x, strlen(text), false)) {
        return text;
    }
    free(text);
    log_info("result_cut", "execution=%s: its session's quota has no room for all of it", x->id);
    cut_result(result);
    text = json_dumps(result, JSON_COMPACT);
    (void)quota_end_execution(x, text != NULL ? strlen(text) : 0, true);
    return text;
}

/*
 * The end is durable before it is visible: what a reader has seen must not be different after a
 * crash. Callers of execution_wait() learn that the disk does not take it; the record follows when
 * it does.
 */
static void note_end(struct execution *x, int state, json_t *result)
{
    struct store_execution next = x->record;
    AUTO_FREE char *text = result != NULL ? fit_result(x, result) : NULL;

    x->outcome = result;
    end_phase_step(&x->end, END_WRITING);
    next.status = state;
    next.ended_ms = clock_wall_ms();
    next.result = text != NULL ? text : "{}";
    next.out_bytes = (int64_t)x->out.len;
    next.err_bytes = (int64_t)x->err.len;
    bool durable = store_end(x, &next, RECORD_TRIES);
    if (!durable) {
        end_phase_step(&x->end, END_WAITING);
        fiber_queue_wake_all(&x->news);
        fiber_queue_wake_all(&x->session->idle); /* a session that ends waits for it no longer */
        durable = store_end(x, &next, UINT_MAX);
    }
    end_phase_step(&x->end, durable ? END_DURABLE : END_GIVEN_UP);
    next.result = NULL; /* x->outcome is the same */
    x->record = next;
    x->svc->figures.executions_ended[state]++;
    fiber_queue_wake_all(&x->news);
    spool_remove(x);
    FAULT_POINT("execution.spool_removed");
}

/* Output that was seen stays: a client may have read it. */
static struct husk_result so_far(const struct execution *x)
{
    return (struct husk_result){
        .exit_code = EXIT_NO_RESULT,
        .out = x->out.data,
        .out_len = x->out.len,
        .err = x->err.data,
        .err_len = x->err.len,
        .metrics = {.queue_ms = x->queue_ms},
    };
}

/* The end of one that was cancelled and has no result of its own. */
static json_t *cancelled_json(const struct execution *x)
{
    struct husk_result r = so_far(x);

    r.exit_code = EXIT_CANCELLED;
    r.termination.cause = HUSK_CAUSE_SIGNAL;
    (void)str_copy(r.termination.detail, sizeof(r.termination.detail),
                   x->record.status == EXECUTION_PENDING ? "cancelled by the caller before it began"
                                                         : "cancelled by the caller");
    return result_json(&r);
}

/* The server failed. What was handed to a box may have run, even if that cannot be known. */
static void conclude_fault(struct execution *x, const struct err *e)
{
    const struct husk_result r = so_far(x);
    char shown[sizeof(e->msg)];

    str_printable(shown, sizeof(shown), e->msg, strlen(e->msg));
    log_warn("execution_fault", "execution=%s begun=%s type=%s message=\"%s\"", x->id,
             x->begun ? "true" : "false", err_type(e->code), shown);
    if (!x->begun) {
        x->record.started_ms = 0;
    }
    note_end(x, x->begun ? EXECUTION_LOST : EXECUTION_FAILED, result_fault_json(&r, e));
}

static int state_of(enum husk_status status)
{
    static const int states[] = {
        [HUSK_COMPLETED] = EXECUTION_COMPLETED, [HUSK_FAILED] = EXECUTION_FAILED,
        [HUSK_TIMEOUT] = EXECUTION_TIMEOUT,     [HUSK_MEMORY_EXCEEDED] = EXECUTION_MEMORY_EXCEEDED,
        [HUSK_CANCELLED] = EXECUTION_CANCELLED, [HUSK_CRASHED] = EXECUTION_CRASHED};

    return states[status];
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

/*
 * A client must learn that the variables of the context are gone, whether they went with this cell
 * or before it. A command has none; it leaves a lost box to the next cell.
 */
static void note_restart(struct execution *x)
{
    struct session *s = x->session;

    if (x->has_context) {
        x->result->restart = NULL;
    } else if (s->persistent && x->context == 0) {
        const char *before = session_take_restart(s);
        bool is_box_lost = x->result->restart != NULL && notebook_has_ended(x->box);
        s->is_loss_told = s->is_loss_told || is_box_lost;
        x->result->restart = x->result->restart != NULL ? x->result->restart : before;
    }
}

void execution_conclude(struct execution *x, int r, const struct err *e)
{
    if (x->is_unknown && x->cell == CELL_AHEAD && x->kept == NULL) {
        end_phase_step(&x->end, END_DURABLE); /* it was never sent, and no client knows its id */
        return;
    }
    if (r == 0) {
        note_restart(x);
        if (x->is_cut) {
            x->result->out_truncated |= x->result->out_len > x->out.len;
            x->result->err_truncated |= x->result->err_len > x->err.len;
        }
        if (x->kept != NULL || x->is_cut) {
            join_output(x);
        }
        x->result->metrics.queue_ms += x->queue_ms; /* the run knows only of its box */
        service_note_run(x->svc, x->result);
        service_audit(&(struct audit_subject){.session = x->session->id,
                                              .execution = x->id,
                                              .template_name = x->session->record.template},
                      x->result);
        /* As text it is for the record. */
        note_end(x, state_of(x->result->status),
                 x->row == ROW_NEVER ? NULL : result_json(x->result));
    } else if (x->cancel) {
        note_end(x, EXECUTION_CANCELLED, cancelled_json(x));
    } else {
        conclude_fault(x, e);
    }
}
