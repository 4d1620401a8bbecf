/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for what executions say and for their end, and asking for that end. See service.h. */
#include <errno.h>

#include "base/clock.h"
#include "service/service_impl.h"

int execution_wait(struct execution *x, int64_t timeout_ms)
{
    uint64_t until = timeout_ms < 0 ? UINT64_MAX : clock_ms() + (uint64_t)timeout_ms;

    while (!execution_state_is_final(x->record.status) && x->end != END_WAITING) {
        uint64_t now = clock_ms();
        if (now >= until ||
            fiber_queue_wait(&x->news, timeout_ms < 0 ? -1 : (int64_t)(until - now)) < 0) {
            return -ETIMEDOUT;
        }
    }
    return 0;
}

void execution_cancel(struct execution *x)
{
    x->cancel = true;
    fiber_wake(x->runner);
}

int execution_stop(struct execution *x, int64_t timeout_ms, struct err *e)
{
    bool was_running;

    if (x->record.status == EXECUTION_RUNNING && x->has_turn) {
        return session_interrupt(x->session, x->context, &was_running, e);
    }
    execution_cancel(x);
    return execution_wait(x, timeout_ms) < 0
               ? err_set(e, ERR_TIMEOUT, "execution \"%s\" has not ended yet", x->id)
               : 0;
}

bool execution_news(struct execution *x, struct execution_position *at, struct execution_news *ret)
{
    const struct husk_result *r = x->result;
    size_t n = r != NULL ? r->n_displays : 0;

    *ret = (struct execution_news){.state = x->record.status};
    if (at->out < x->out.len) {
        ret->out = x->out.data + at->out;
        ret->out_len = x->out.len - at->out;
    }
    if (at->err < x->err.len) {
        ret->err = x->err.data + at->err;
        ret->err_len = x->err.len - at->err;
    }
    if (at->displays < n) {
        ret->displays = r->displays + at->displays;
        ret->n_displays = n - at->displays;
    }
    bool any = ret->out_len > 0 || ret->err_len > 0 || ret->n_displays > 0 ||
               at->state != x->record.status;
    at->out = MAX(at->out, x->out.len);
    at->err = MAX(at->err, x->err.len);
    at->displays = MAX(at->displays, (uint32_t)n);
    at->state = x->record.status;
    return any;
}

int execution_wait_news(struct execution *x, const struct execution_position *at,
                        int64_t timeout_ms)
{
    if (at->out < x->out.len || at->err < x->err.len || at->state != x->record.status ||
        (x->result != NULL && at->displays < x->result->n_displays)) {
        return 0;
    }
    return fiber_queue_wait(&x->news, timeout_ms);
}
