/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that outlive the process that made them; see notebook_impl.h.
 *
 * A supervised launcher holds copies of a session's sockets and pipes, each with a note that says
 * what it is. When this process is killed, the next one gets them back and puts the session
 * together again: the interpreters never noticed. The notes come back from the launcher as we
 * wrote them, so they are trusted, but what they name may be gone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/units.h"
#include "core/notebook_impl.h"

struct box_note {
    struct limits limits; /* its template may say others by the time they are asked for */
    char tag[KEEP_TAG_MAX];
};

struct context_note {
    uint32_t pid;
    uint32_t is_checkpoint;
    uint32_t has_part;
};

struct cell_note {
    uint8_t token[FRAME_TOKEN_SIZE];
    uint64_t started_ms;
    uint32_t timeout_ms;
    char tag[33];
    uint8_t has_own_context;
};

_Static_assert(sizeof(struct box_note) <= LAUNCHER_NOTE_MAX, "a box's note must fit");
_Static_assert(sizeof(struct cell_note) <= LAUNCHER_NOTE_MAX, "a cell's note must fit");

/* No answer is waited for: should the launcher be gone, there is nothing to outlive. */
static void put(const struct husk_session *s, uint32_t slot, const void *note, size_t len,
                const int *fds, size_t n)
{
    struct launcher_req req = {
        .op = n > 0 ? LAUNCHER_KEEP : LAUNCHER_DROP,
        .box_id = s->guest->box_id,
        .keep.slot = slot,
    };
    struct err ignored;

    if (len > 0) {
        memcpy(req.keep.note, note, len);
    }
    (void)native_send(s->engine->native, &req, fds, n, &ignored);
}

static uint32_t index_of(const struct husk_session *s, const struct context *c)
{
    return (uint32_t)(c - s->contexts);
}

void notebook_keep(struct husk_session *s, const char *tag)
{
    const struct guest *g = s->guest;
    const int fds[] = {g->control.fd, g->in, g->out, g->err};
    struct box_note note = {.limits = s->limits};

    (void)str_copy(note.tag, sizeof(note.tag), tag);
    s->kept = true;
    /* Its stdin may be closed; the others stay open as long as we hold the box. */
    put(s, KEEP_BOX, &note, sizeof(note), g->in >= 0 ? fds : (const int[]){fds[0], fds[2], fds[3]},
        g->in >= 0 ? 4 : 3);
    FAULT_POINT("box.kept_without_contexts");
    for (size_t i = 0; i < CONTEXTS_MAX; i++) {
        notebook_keep_context(s, &s->contexts[i]);
    }
}

void notebook_keep_context(struct husk_session *s, const struct context *c)
{
    struct context_note note = {
        .pid = c->pid, .is_checkpoint = c->is_checkpoint, .has_part = c->has_part};

    if (s->kept && c->used) {
        put(s, KEEP_CONTEXTS + index_of(s, c), &note, sizeof(note), &c->channel.fd, 1);
        s->contexts[index_of(s, c)].channel.leave_unread = true;
    }
}

void notebook_drop_context(struct husk_session *s, const struct context *c)
{
    if (s->kept) {
        put(s, KEEP_CONTEXTS + index_of(s, c), NULL, 0, NULL, 0);
    }
}

void notebook_keep_part(const struct cell *c, bool has_part)
{
    c->context->has_part = has_part;
    if (c->context->channel.leave_unread) { /* else it is a command's own, and ends with us */
        notebook_keep_context(c->session, c->context);
    }
}

void notebook_keep_cell(struct cell *c, const char *tag, bool has_own_context)
{
    const int fds[] = {c->pipes[1], c->pipes[2]};
    struct cell_note note = {.started_ms = c->run.started_ns / NS_PER_MS,
                             .timeout_ms = (uint32_t)MIN(c->run.limits.timeout_ms, UINT32_MAX),
                             .has_own_context = has_own_context};

    if (c->run.request.len > 0) {
        (void)str_copy(c->tag, sizeof(c->tag), tag);
        c->has_own_context = has_own_context;
    } else if (c->session->kept && c->pipes[1] >= 0 && c->pipes[2] >= 0) {
        memcpy(note.token, c->run.token, sizeof(note.token));
        (void)str_copy(note.tag, sizeof(note.tag), tag);
        put(c->session, KEEP_CELLS + index_of(c->session, c->context), &note, sizeof(note), fds, 2);
        if (has_own_context) {
            FAULT_POINT("execution.command.context_not_kept");
            notebook_keep_context(c->session, c->context);
        }
    }
}

void notebook_drop_cell(struct husk_session *s, uint32_t context)
{
    if (s->kept) {
        put(s, KEEP_CELLS + context, NULL, 0, NULL, 0);
    }
}

struct husk_session *notebook_adopt(struct husk_engine *engine, struct guest *g)
{
    struct husk_session *s = calloc(1, sizeof(*s));

    if (s != NULL) {
        s->engine = engine;
        s->guest = g;
        s->kept = true;
    }
    return s;
}

static void adopt_box(struct husk_session *s, const uint8_t *bytes, struct fd_set_msg *fds,
                      char *ret_tag)
{
    struct guest *g = s->guest;
    struct box_note note;
    size_t at = 0;

    memcpy(&note, bytes, sizeof(note));
    memcpy(ret_tag, note.tag, sizeof(note.tag));
    ret_tag[KEEP_TAG_MAX - 1] = '\0';
    s->limits = g->limits = note.limits;
    guest_open_share(g);
    channel_init(&g->control, take_fd(&fds->fds[at++]));
    channel_keep_small(&g->control);
    g->in = fds->n == 4 ? take_fd(&fds->fds[at++]) : -1;
    g->out = take_fd(&fds->fds[at++]);
    g->err = take_fd(&fds->fds[at++]);
    g->state = GUEST_READY;
}

static void adopt_context(struct husk_session *s, uint32_t id, const uint8_t *bytes,
                          struct fd_set_msg *fds)
{
    struct context_note note;

    memcpy(&note, bytes, sizeof(note));
    s->contexts[id] = (struct context){.used = true,
                                       .is_checkpoint = note.is_checkpoint != 0,
                                       .has_part = note.has_part != 0,
                                       .pid = note.pid};
    channel_init(&s->contexts[id].channel, take_fd(&fds->fds[0]));
    s->contexts[id].channel.share = &s->guest->share;
    s->contexts[id].channel.leave_unread = true;
    s->contexts[id].channel.adopted = true;
}

bool notebook_adopt_slot(struct husk_session *s, const struct launcher_rep *rep,
                         struct fd_set_msg *fds, char *ret_tag, struct kept_cell *ret_cell)
{
    uint32_t slot = rep->kept.slot;
    struct cell_note note;

    if (slot == KEEP_BOX && fds->n >= 3) {
        adopt_box(s, rep->kept.note, fds, ret_tag);
    } else if (slot >= KEEP_CONTEXTS && slot < KEEP_CONTEXTS + CONTEXTS_MAX && fds->n == 1) {
        adopt_context(s, slot - KEEP_CONTEXTS, rep->kept.note, fds);
    } else if (slot >= KEEP_CELLS && slot < KEEP_CELLS + CONTEXTS_MAX && fds->n == 2) {
        memcpy(&note, rep->kept.note, sizeof(note));
        *ret_cell = (struct kept_cell){.context = slot - KEEP_CELLS,
                                       .started_ms = note.started_ms,
                                       .timeout_ms = note.timeout_ms,
                                       .has_own_context = note.has_own_context != 0,
                                       .out = take_fd(&fds->fds[0]),
                                       .err = take_fd(&fds->fds[1])};
        memcpy(ret_cell->token, note.token, sizeof(note.token));
        memcpy(ret_cell->tag, note.tag, sizeof(note.tag));
        ret_cell->tag[sizeof(ret_cell->tag) - 1] = '\0';
        return true;
    }
    return false;
}
