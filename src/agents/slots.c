/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: which requests a worker has; see agents_impl.h.
 *
 * A request keeps its slot from its first frame to the worker's last one, even if it is cancelled
 * in between. So any frame with another id breaks the protocol.
 */
#include "base/clock.h"

#include "agents/agents_impl.h"

#define SLOT_SPAN 16384U                   /* more than a worker has slots */
#define SLOT_USES (UINT32_MAX / SLOT_SPAN) /* then ids begin again */

struct slot *worker_find_slot(struct worker *w, uint32_t id)
{
    uint32_t at = (id - 1) % SLOT_SPAN;
    struct slot *slot = at < w->n_slots ? &w->slots[at] : NULL;

    return slot != NULL && slot->is_used && slot->uses == (id - 1) / SLOT_SPAN ? slot : NULL;
}

bool worker_has_room(const struct worker *w)
{
    return w->state == WORKER_WORKING && w->first_free < w->n_slots &&
           w->out.len - w->out_at < OUT_HIGH;
}

uint32_t worker_take_slot(struct worker *w, struct agent_call *call)
{
    uint32_t at = w->first_free;
    struct slot *slot = &w->slots[at];

    w->first_free = slot->next_free;
    w->in_flight++;
    slot->call = call;
    slot->is_used = true;
    slot->is_alone = call->is_alone;
    w->is_reserved = w->is_reserved || call->is_alone;
    return slot->uses * SLOT_SPAN + at + 1;
}

/* The call gets nothing more from the worker. */
static void detach(struct worker *w, struct slot *slot)
{
    worker_set_full(w, slot->call, false);
    slot->call->worker = NULL;
    slot->call = NULL;
}

void worker_free_slot(struct worker *w, struct slot *slot)
{
    if (slot->call == NULL) {
        w->cancelled--;
        w->cancelled_due = clock_ms() + CANCELLED_MS;
    } else {
        detach(w, slot);
    }
    if (slot->is_alone) {
        w->is_reserved = false;
    }
    slot->is_used = false;
    slot->is_alone = false;
    slot->uses = (slot->uses + 1) % SLOT_USES;
    slot->next_free = w->first_free;
    w->first_free = (uint32_t)(slot - w->slots);
    w->in_flight--;
    if (w->in_flight == 0 && w->pong_due != 0 && !w->must_pong) {
        w->pong_due = clock_ms() + PONG_MS; /* it is idle only from now on */
        worker_arm(w);
    }
}

void worker_cancel(struct worker *w, uint32_t id)
{
    const struct agent_frame cancel = {.type = AGENT_CANCEL, .id = id};
    struct slot *slot = worker_find_slot(w, id);

    if (slot == NULL || slot->call == NULL) {
        return;
    }
    detach(w, slot);
    if (w->cancelled++ == 0) {
        w->cancelled_due = clock_ms() + CANCELLED_MS;
    }
    if (w->link != NULL) {
        (void)worker_send(w, &cancel, NULL);
        worker_arm(w);
    }
}

void worker_set_full(struct worker *w, struct agent_call *call, bool is_full)
{
    if (call->is_full == is_full) {
        return;
    }
    call->is_full = is_full;
    w->n_full = is_full ? w->n_full + 1 : w->n_full - 1;
    if (w->link != NULL && w->n_full == (is_full ? 1 : 0)) { /* the first, or none is left */
        w->full_ms = clock_ms();
        worker_pause(w, is_full);
        worker_arm(w);
    }
}

void worker_fail_slow(struct worker *w)
{
    struct err e;

    err_set(&e, ERR_WORKER, "the client takes the answer too slowly");
    for (uint32_t i = 0; i < w->n_slots; i++) {
        struct agent_call *call = w->slots[i].call;
        if (call != NULL && call->is_full) {
            worker_cancel(w, call->id);
            agent_call_fail(call, &e);
        }
    }
}

void worker_suspect_calls(struct worker *w)
{
    for (uint32_t i = 0; i < w->n_slots; i++) {
        if (w->slots[i].call != NULL) {
            agent_call_begun(w->slots[i].call);
        }
    }
}

void worker_fail_calls(struct worker *w, const struct err *why)
{
    for (uint32_t i = 0; i < w->n_slots && w->in_flight > 0; i++) {
        struct slot *slot = &w->slots[i];
        struct agent_call *call = slot->call;
        if (slot->is_used) {
            worker_free_slot(w, slot);
        }
        if (call != NULL && !agent_call_move(call)) {
            agent_call_fail(call, why);
        }
    }
}
