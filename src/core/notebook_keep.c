/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notebooks that outlive the process that made them; see core.h.
 *
 * A supervised launcher holds copies of a notebook's sockets and pipes, each with a note that says
 * what it is. When this process is killed, the next one gets them back and puts the notebook
 * together again: its interpreters never notice. The notes come back from the launcher as we wrote
 * them, so they are trusted, but what they name may be gone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/units.h"
#include "core/notebook_impl.h"
#include "core/run_frames.h"

/* Ends of cells and answers that earlier processes left unread: one or two for each of them. */
#define STALE_MAX 256

struct box_note {
    struct limits limits; /* its template may say others by the time they are asked for */
    char tag[KEEP_TAG_MAX];
};

struct context_note {
    uint32_t pid;
    uint32_t is_checkpoint;
    uint32_t has_part;
    uint32_t is_own;
    uint32_t language; /* enum husk_language */
};

struct cell_note {
    uint8_t token[FRAME_TOKEN_SIZE];
    uint64_t started_ms;
    uint32_t timeout_ms;
    uint32_t verdict; /* RUN_GOES_ON, or why its context is replaced */
    uint32_t pid;     /* of that context */
    uint32_t signal;
    uint32_t exit_code;
    char tag[KEEP_CELL_TAG_MAX];
    uint8_t has_own_context;
    uint8_t time_is_up;
};

_Static_assert(KEEP_TOKEN_SIZE == FRAME_TOKEN_SIZE, "a kept cell has the token of its frames");
_Static_assert(sizeof(struct box_note) <= LAUNCHER_NOTE_MAX, "a box's note must fit");
_Static_assert(sizeof(struct cell_note) <= LAUNCHER_NOTE_MAX, "a cell's note must fit");

static void put(const struct notebook *nb, uint32_t slot, const void *note, size_t len,
                const int *fds, size_t n)
{
    struct backend_kept what = {.slot = slot, .fds = fds, .n = n};

    if (len > 0) {
        memcpy(what.note, note, len);
    }
    backend_keep(nb->engine->backend, nb->guest->box_id, &what);
}

static uint32_t index_of(const struct notebook *nb, const struct context *c)
{
    return (uint32_t)(c - nb->contexts);
}

void notebook_keep(struct notebook *nb, const char *tag)
{
    const struct guest *g = nb->guest;
    const int fds[] = {g->control.fd, g->in, g->out, g->err};
    struct box_note note = {.limits = nb->limits};

    (void)str_copy(note.tag, sizeof(note.tag), tag);
    (void)str_copy(nb->guest->used_by, sizeof(nb->guest->used_by), tag);
    nb->kept = true;
    /* Its stdin may be closed; the others stay open as long as we hold the box. */
    put(nb, KEEP_BOX, &note, sizeof(note), g->in >= 0 ? fds : (const int[]){fds[0], fds[2], fds[3]},
        g->in >= 0 ? 4 : 3);
    FAULT_POINT("box.kept_without_contexts");
    for (size_t i = 0; i < CONTEXTS_MAX; i++) {
        notebook_keep_context(nb, &nb->contexts[i]);
    }
}

void notebook_keep_context(struct notebook *nb, const struct context *c)
{
    struct context_note note = {
        .pid = c->pid,
        .is_checkpoint = c->is_checkpoint,
        .has_part = c->has_part,
        .is_own = c->is_own,
        .language = c->language,
    };

    if (nb->kept && c->used) {
        put(nb, KEEP_CONTEXTS + index_of(nb, c), &note, sizeof(note), &c->channel.fd, 1);
        nb->contexts[index_of(nb, c)].channel.leave_unread = true;
    }
}

void notebook_drop_context(struct notebook *nb, const struct context *c)
{
    if (nb->kept) {
        put(nb, KEEP_CONTEXTS + index_of(nb, c), NULL, 0, NULL, 0);
    }
}

void notebook_keep_part(const struct cell *c, bool has_part)
{
    c->context->has_part = has_part;
    if (c->context->channel.leave_unread) { /* else it is a command's own, and ends with us */
        notebook_keep_context(c->notebook, c->context);
    }
}

void cell_keep(const struct cell *c)
{
    const int fds[] = {c->pipes[1], c->pipes[2]};
    struct cell_note note = {.started_ms = c->run.started_ns / NS_PER_MS,
                             .timeout_ms = (uint32_t)MIN(c->run.limits.timeout_ms, UINT32_MAX),
                             .verdict = c->verdict,
                             .pid = c->run.pid,
                             .signal = c->run.signal,
                             .exit_code = c->run.exit_code,
                             .has_own_context = c->has_own_context,
                             .time_is_up = c->time_is_up};

    if (c->tag[0] == '\0' || !c->notebook->kept) {
        return;
    }
    memcpy(note.token, c->run.token, sizeof(note.token));
    memcpy(note.tag, c->tag, sizeof(note.tag));
    put(c->notebook, KEEP_CELLS + index_of(c->notebook, c->context), &note, sizeof(note), fds, 2);
}

void notebook_drop_cell(struct notebook *nb, uint32_t context)
{
    if (nb->kept) {
        put(nb, KEEP_CELLS + context, NULL, 0, NULL, 0);
    }
}

void notebook_end_unused(struct kept_notebook *kept)
{
    struct notebook *nb = kept->notebook;

    for (uint32_t i = 0; nb != NULL && i < CONTEXTS_MAX; i++) {
        bool is_used = !nb->contexts[i].used || !nb->contexts[i].is_own;
        for (size_t j = 0; j < kept->n_cells; j++) {
            is_used = is_used || kept->cells[j].context == i;
        }
        if (!is_used) {
            notebook_end_context(nb, i);
        }
    }
}

struct notebook *notebook_adopt(struct engine *engine, struct guest *g)
{
    struct notebook *nb = calloc(1, sizeof(*nb));

    if (nb != NULL) {
        nb->engine = engine;
        nb->guest = g;
        nb->kept = true;
    }
    return nb;
}

static void adopt_tag(const uint8_t *bytes, char ret[KEEP_TAG_MAX])
{
    struct box_note note;

    memcpy(&note, bytes, sizeof(note));
    memcpy(ret, note.tag, sizeof(note.tag));
    ret[KEEP_TAG_MAX - 1] = '\0';
}

static void adopt_box(struct notebook *nb, const uint8_t *bytes, struct fd_set_msg *fds)
{
    struct guest *g = nb->guest;
    struct box_note note;
    struct err ignored;
    size_t at = 0;

    memcpy(&note, bytes, sizeof(note));
    adopt_tag(bytes, g->used_by);
    nb->limits = g->limits = note.limits;
    guest_open_share(g);
    channel_init(&g->control, take_fd(&fds->fds[at++]));
    g->in = fds->n == 4 ? take_fd(&fds->fds[at++]) : -1;
    g->out = take_fd(&fds->fds[at++]);
    g->err = take_fd(&fds->fds[at++]);
    g->state = GUEST_READY;
    g->is_silent = guest_listen(nb->engine, g, &ignored) < 0;
}

static void adopt_context(struct notebook *nb, uint32_t id, const uint8_t *bytes,
                          struct fd_set_msg *fds)
{
    struct context_note note;

    memcpy(&note, bytes, sizeof(note));
    nb->contexts[id] = (struct context){.used = true,
                                        .is_checkpoint = note.is_checkpoint != 0,
                                        .has_part = note.has_part != 0,
                                        .is_own = note.is_own != 0,
                                        .language = (enum husk_language)note.language,
                                        .pid = note.pid};
    channel_init(&nb->contexts[id].channel, take_fd(&fds->fds[0]));
    nb->contexts[id].channel.share = &nb->guest->share;
    nb->contexts[id].channel.leave_unread = true;
    nb->contexts[id].channel.stale_max = STALE_MAX;
}

/* Without descriptors the launcher had no room for them: that the cell was sent is all we know. */
static void adopt_cell(struct kept_notebook *kept, uint32_t context, const uint8_t *bytes,
                       struct fd_set_msg *fds)
{
    struct cell_note note;
    bool is_whole = fds->n == 2;

    if (kept->n_cells == ARRAY_LEN(kept->cells)) {
        return;
    }
    struct kept_cell *cell = &kept->cells[kept->n_cells++];
    memcpy(&note, bytes, sizeof(note));
    *cell = (struct kept_cell){.context = context,
                               .started_ms = note.started_ms,
                               .timeout_ms = note.timeout_ms,
                               .verdict = note.verdict,
                               .pid = note.pid,
                               .signal = note.signal,
                               .exit_code = note.exit_code,
                               .has_own_context = note.has_own_context != 0,
                               .time_is_up = note.time_is_up != 0,
                               .out = is_whole ? take_fd(&fds->fds[0]) : -1,
                               .err = is_whole ? take_fd(&fds->fds[1]) : -1};
    memcpy(cell->token, note.token, sizeof(note.token));
    memcpy(cell->tag, note.tag, sizeof(note.tag));
    cell->tag[sizeof(cell->tag) - 1] = '\0';
}

void notebook_adopt_slot(struct kept_notebook *kept, uint32_t slot, const uint8_t *note,
                         struct fd_set_msg *fds)
{
    bool has_box = kept->notebook != NULL;

    if (slot == KEEP_BOX) {
        adopt_tag(note, kept->tag);
        if (has_box && fds->n >= 3) {
            adopt_box(kept->notebook, note, fds);
        }
    } else if (slot >= KEEP_CONTEXTS && slot < KEEP_CONTEXTS + CONTEXTS_MAX && fds->n == 1) {
        if (has_box) {
            adopt_context(kept->notebook, slot - KEEP_CONTEXTS, note, fds);
        }
    } else if (slot >= KEEP_CELLS && slot < KEEP_CELLS + CONTEXTS_MAX) {
        adopt_cell(kept, slot - KEEP_CELLS, note, fds);
    }
}

/*
 * What was displayed before: counted from there on. A last one that was written only in part is not
 * there.
 */
static void take_displays(struct run *run, const struct buf *displays)
{
    uint32_t len;

    for (size_t at = 0; at + sizeof(len) <= displays->len; at += sizeof(len) + len) {
        memcpy(&len, displays->data + at, sizeof(len));
        if (len > displays->len - at - sizeof(len) ||
            !run_take_display(run, displays->data + at + sizeof(len), len)) {
            return;
        }
    }
}

/*
 * The earlier process may have died before it sent the cell. The context reads its socket in order:
 * if its answer comes before the end of the cell, the cell was never there.
 */
static void ask_whether_begun(struct cell *c)
{
    struct run *run = &c->run;

    run->request = BUF_INIT(sizeof(struct frame_head));
    if (c->verdict != RUN_GOES_ON || c->notebook->guest->exited) {
        return; /* it is over */
    }
    if (c->context->has_part) { /* it waits for the rest, which is nowhere */
        run->is_unbegun = true;
        return;
    }
    context_ask_fate(run->guest, run->pid);
    if (frame_begin(&run->request, FRAME_PING, run->token) == 0) {
        run_send_request(run, NULL, 0);
    }
}

struct cell *cell_adopt(struct notebook *nb, struct kept_cell *kept, const struct husk_spec *spec,
                        const struct run_hooks *hooks, struct err *e)
{
    struct context *to = notebook_context(nb, kept->context, false, e);
    struct cell *c = to != NULL ? cell_new(nb, to, spec, hooks, e) : NULL;

    if (c == NULL) {
        return NULL;
    }
    memcpy(c->run.token, kept->token, sizeof(kept->token));
    memcpy(to->cell, kept->token, sizeof(kept->token));
    c->run.adopted = true;
    (void)str_copy(c->tag, sizeof(c->tag), kept->tag);
    c->has_own_context = kept->has_own_context;
    c->time_is_up = kept->time_is_up;
    c->verdict = (enum run_verdict)MIN(kept->verdict, (uint32_t)RUN_BY_FACTS);
    c->is_context_lost = c->verdict != RUN_GOES_ON;
    c->pid_before = kept->pid;
    c->run.signal = kept->signal;
    c->run.exit_code = kept->exit_code;
    c->run.out = c->pipes[1] = take_fd(&kept->out);
    c->run.err = c->pipes[2] = take_fd(&kept->err);
    c->run.started_ns = kept->started_ms * NS_PER_MS;
    if (run_init(&c->run, e) < 0) {
        cell_release(c);
        return NULL;
    }
    c->run.replaying = true;
    take_displays(&c->run, &kept->displays);
    c->run.replaying = false;
    ask_whether_begun(c);
    return c;
}
