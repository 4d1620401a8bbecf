/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notebooks: one box, many cells, contexts that can be branched and gone back to; see core.h.
 *
 * Contexts and checkpoints share one table, so a number means the same everywhere.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/units.h"
#include "core/box_files.h"
#include "core/notebook_impl.h"

#define START_PATIENCE_MS 30000

bool notebook_has_context(const struct notebook *nb, uint32_t id)
{
    return id < CONTEXTS_MAX && nb->contexts[id].used;
}

bool notebook_is_command(const struct notebook *nb, uint32_t id)
{
    return notebook_has_context(nb, id) && nb->contexts[id].is_own;
}

enum husk_language notebook_language(const struct notebook *nb, uint32_t id)
{
    return notebook_has_context(nb, id) ? nb->contexts[id].language : HUSK_PYTHON;
}

bool notebook_find_language(const struct notebook *nb, enum husk_language language, uint32_t *ret)
{
    for (uint32_t i = 0; i < CONTEXTS_MAX; i++) {
        const struct context *c = &nb->contexts[i];
        if (c->used && !c->is_checkpoint && !c->is_own && c->language == language) {
            *ret = i;
            return true;
        }
    }
    return false;
}

bool notebook_is_checkpoint(const struct notebook *nb, uint32_t id)
{
    return notebook_has_context(nb, id) && nb->contexts[id].is_checkpoint;
}

struct context *notebook_context(struct notebook *nb, uint32_t id, bool checkpoint, struct err *e)
{
    if (!notebook_has_context(nb, id) || notebook_is_checkpoint(nb, id) != checkpoint) {
        err_set(e, ERR_NOT_FOUND, "the session has no %s %u", checkpoint ? "checkpoint" : "context",
                id);
        return NULL;
    }
    return &nb->contexts[id];
}

int notebook_check_context(const struct notebook *nb, uint32_t id, bool checkpoint, struct err *e)
{
    if (notebook_is_command(nb, id)) {
        return err_set(e, ERR_NOT_FOUND, "the session has no context %u", id);
    }
    return notebook_context(drop_const(nb), id, checkpoint, e) != NULL ? 0 : -1;
}

static struct context *context_free_slot(struct notebook *nb, uint32_t *id, struct err *e)
{
    for (uint32_t i = 1; i < CONTEXTS_MAX; i++) { /* 0 is always the first context's */
        if (!nb->contexts[i].used && !nb->contexts[i].is_awaited) {
            *id = i;
            return &nb->contexts[i];
        }
    }
    err_set(e, ERR_LIMIT, "a session has at most %d contexts and checkpoints", CONTEXTS_MAX);
    return NULL;
}

static int await_ready(struct guest *g, struct err *e)
{
    uint64_t until = clock_ms() + START_PATIENCE_MS;

    while (g->state == GUEST_STARTING && !g->exited) {
        uint64_t now = clock_ms();
        if (now >= until) {
            return err_set(e, ERR_TIMEOUT, "the box was not ready within %d s",
                           START_PATIENCE_MS / 1000);
        }
        if (engine_poll(g->engine, g, NULL, 0, (int64_t)(until - now), e) < 0) {
            return -1;
        }
    }
    return g->state == GUEST_READY ? 0 : err_set(e, ERR_ISOLATION, "%s", g->failure);
}

/* No code of a user has run in it yet. */
static int use_guest(void *user, struct guest *g, struct err *e)
{
    struct notebook *nb = user;
    struct err ignored;

    nb->guest = g;
    int r = await_ready(g, e);
    if (r == 0) {
        r = guest_listen(nb->engine, g, e);
    }
    if (r == 0 && nb->is_freezable) { /* before there is more than its first process */
        r = notebook_make_freezable(nb, e);
    }
    if (r == 0) {
        r = context_start(nb->engine, g, &nb->contexts[0], e);
    }
    if (r < 0 && g->is_silent && !g->exited) {
        (void)guest_await_exit(nb->engine, g, &ignored); /* to know why */
    }
    if (r < 0 && guest_is_unborn(g)) {
        nb->guest = NULL;
        return GUEST_UNBORN;
    }
    return r;
}

/* Only a Python template has an interpreter of Python; the others are programs of every root. */
static int choose_language(const struct template_def *def, int asked, struct notebook *nb,
                           struct err *e)
{
    nb->contexts[0].language = asked < 0 ? def->info.language : (enum husk_language)asked;
    return nb->contexts[0].language != HUSK_PYTHON || def->info.language == HUSK_PYTHON
               ? 0
               : err_set(e, ERR_INVALID, "python needs a python template, %s is none",
                         def->info.name);
}

static int start_box(struct engine *engine, const struct husk_spec *spec, int language,
                     struct notebook *nb, struct err *e)
{
    const char *name = spec->template_name != NULL ? spec->template_name : "python";
    struct guest_options options = {.mode = LAUNCHER_SESSION};
    struct guest_use use = {.fn = use_guest, .user = nb};

    struct live_template *live = live_get(engine, name, !spec->no_pool, e);
    if (live == NULL) {
        return -1;
    }
    if (choose_language(&live->def, language, nb, e) < 0 ||
        engine_limits(&spec->limits, &live->def.info.limits, &nb->limits, e) < 0) {
        return -1;
    }
    options.limits = nb->limits;
    nb->engine = engine;
    use.parked = pool_take(engine, live, LAUNCHER_SESSION, &nb->limits);
    if (use.parked != NULL) {
        pool_taken(engine, live);
    }
    live->users++;
    int r = guest_with(engine, live, &options, &use, e);
    live->users--;
    return r;
}

int notebook_open(struct engine *engine, const struct husk_spec *spec,
                  const struct notebook_options *options, struct notebook **ret, struct err *e)
{
    struct notebook *nb = calloc(1, sizeof(*nb));

    if (nb == NULL) {
        return err_sys(e, ENOMEM, "session");
    }
    nb->is_freezable = options->is_freezable;
    if (start_box(engine, spec, options->language, nb, e) < 0) {
        notebook_close(nb);
        return -1;
    }
    fd_close(&nb->guest->in); /* each cell has its own */
    *ret = nb;
    return 0;
}

void notebook_close(struct notebook *nb)
{
    if (nb == NULL) {
        return;
    }
    for (size_t i = 0; i < CONTEXTS_MAX; i++) {
        if (nb->contexts[i].used) {
            channel_release(&nb->contexts[i].channel);
        }
    }
    if (nb->guest != NULL && nb->kept) { /* an ended one too: the launcher remembers it for us */
        struct err ignored;
        (void)backend_release(nb->engine->backend, nb->guest->box_id, &ignored);
        guest_forget(nb->engine, nb->guest);
        FAULT_POINT("box.released");
    }
    if (nb->guest != NULL) {
        guest_free(nb->engine, nb->guest);
    }
    free(nb);
}

int notebook_replace_context(struct notebook *nb, struct context *c, struct err *e)
{
    struct context gone = *c;

    int r = context_start(nb->engine, nb->guest, c, e);
    if (r < 0 && e->code == ERR_LIMIT && !nb->guest->exited) {
        c->is_awaited = true;
        (void)context_sweep(nb->guest, nb->contexts, ARRAY_LEN(nb->contexts), &gone, 0);
        r = context_start(nb->engine, nb->guest, c, e);
    }
    if (r == 0) {
        notebook_keep_context(nb, c);
    }
    return r;
}

int notebook_mend_context(struct notebook *nb, uint32_t id, struct err *e)
{
    struct context *c = notebook_context(nb, id, false, e);

    if (c == NULL) {
        return -1;
    }
    if (!c->has_part) {
        return 0;
    }
    context_end(nb->guest, c);
    return notebook_replace_context(nb, c, e);
}

int notebook_reset(struct notebook *nb, uint32_t id, struct err *e)
{
    struct context *c = notebook_context(nb, id, false, e);

    if (c == NULL) {
        return -1;
    }
    context_end(nb->guest, c);
    return notebook_replace_context(nb, c, e);
}

/* Copies a context into a new slot. */
static int copy_context(struct notebook *nb, uint32_t from, bool checkpoint, uint32_t *ret,
                        struct err *e)
{
    uint32_t id;

    if (notebook_mend_context(nb, from, e) < 0) {
        return -1;
    }
    context_await_sweeps(nb->guest);
    struct context *c = notebook_context(nb, from, false, e);
    struct context *to = c != NULL ? context_free_slot(nb, &id, e) : NULL;
    if (to == NULL || context_branch(nb->engine, nb->guest, to, c, e) < 0) {
        return -1;
    }
    to->is_checkpoint = checkpoint;
    notebook_keep_context(nb, to);
    *ret = id;
    return 0;
}

int notebook_checkpoint(struct notebook *nb, uint32_t id, uint32_t *ret, struct err *e)
{
    return copy_context(nb, id, true, ret, e);
}

int notebook_branch(struct notebook *nb, uint32_t id, uint32_t *ret, struct err *e)
{
    return copy_context(nb, id, false, ret, e);
}

int notebook_restore(struct notebook *nb, uint32_t id, uint32_t checkpoint, struct err *e)
{
    struct context copy = {0};

    context_await_sweeps(nb->guest);
    struct context *c = notebook_context(nb, id, false, e);
    struct context *from = c != NULL ? notebook_context(nb, checkpoint, true, e) : NULL;
    if (from == NULL || context_branch(nb->engine, nb->guest, &copy, from, e) < 0) {
        return -1;
    }
    context_end(nb->guest, c);
    *c = copy;
    notebook_keep_context(nb, c);
    return 0;
}

static int fresh_context(struct notebook *nb, enum husk_language language, bool is_own,
                         uint32_t *ret, struct err *e)
{
    struct context *c = context_free_slot(nb, ret, e);

    if (c == NULL) {
        return -1;
    }
    c->language = language;
    c->is_own = is_own;
    return context_start(nb->engine, nb->guest, c, e);
}

int notebook_command_context(struct notebook *nb, uint32_t *ret, struct err *e)
{
    /* Kept with its cell: a context without one would never end. */
    return fresh_context(nb, HUSK_SHELL, true, ret, e);
}

int notebook_new_context(struct notebook *nb, enum husk_language language, uint32_t *ret,
                         struct err *e)
{
    if (fresh_context(nb, language, false, ret, e) < 0) {
        return -1;
    }
    notebook_keep_context(nb, &nb->contexts[*ret]);
    return 0;
}

void notebook_end_context(struct notebook *nb, uint32_t id)
{
    notebook_drop_context(nb, &nb->contexts[id]);
    context_end(nb->guest, &nb->contexts[id]);
}

bool notebook_end_overdue(struct notebook *nb)
{
    bool is_overdue = channel_is_overdue(&nb->guest->control);

    for (size_t i = 0; i < CONTEXTS_MAX; i++) {
        const struct context *c = &nb->contexts[i];
        bool is_idle = memcmp(c->cell, (uint8_t[FRAME_TOKEN_SIZE]){0}, sizeof(c->cell)) == 0;
        is_overdue = is_overdue || (c->used && is_idle && channel_is_overdue(&c->channel));
    }
    if (is_overdue && !nb->guest->exited) {
        guest_kill(nb->engine, nb->guest);
    }
    return is_overdue && !nb->guest->exited;
}

void notebook_interrupt_idly(struct notebook *nb, uint32_t id)
{
    if (notebook_has_context(nb, id)) {
        context_interrupt_idly(nb->guest, &nb->contexts[id]);
    }
}

int notebook_interrupt(struct notebook *nb, uint32_t id, bool *ret_hit, struct err *e)
{
    const struct context *c = notebook_context(nb, id, false, e);

    return c == NULL ? -1 : context_interrupt(nb->guest, c, ret_hit, e);
}

bool notebook_has_ended(const struct notebook *nb)
{
    return nb->guest->exited;
}

bool notebook_is_dead(const struct notebook *nb)
{
    return nb->guest->exited || !nb->contexts[0].used;
}

void notebook_kill(struct notebook *nb)
{
    guest_kill(nb->engine, nb->guest);
}

static bool has_hung_up(const struct notebook *nb)
{
    struct pollfd p = {.fd = nb->guest->control.fd};

    return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP) != 0;
}

int notebook_await_end(struct notebook *nb, int64_t timeout_ms, struct err *e)
{
    uint64_t until = clock_ms() + (uint64_t)timeout_ms;

    while (!nb->guest->exited && has_hung_up(nb) && clock_ms() < until) {
        if (engine_poll(nb->engine, nb->guest, NULL, 0, (int64_t)(until - clock_ms()), e) < 0) {
            return -1;
        }
    }
    return nb->guest->exited || has_hung_up(nb) ? 0 : -1;
}

int notebook_make_freezable(struct notebook *nb, struct err *e)
{
    struct guest *g = nb->guest;
    int r = backend_freeze(nb->engine->backend, g->box_id, LAUNCHER_PREPARE, e);

    g->facts.can_freeze = r == 0;
    return r;
}

int notebook_freeze(struct notebook *nb, bool on, struct err *e)
{
    struct guest *g = nb->guest;

    if (g->exited) {
        return err_set(e, ERR_NOT_FOUND, "the session's box has ended");
    }
    int r =
        backend_freeze(nb->engine->backend, g->box_id, on ? LAUNCHER_FROZEN : LAUNCHER_THAWED, e);
    g->facts.is_frozen = r == 0 ? on : g->facts.is_frozen;
    return r;
}

bool notebook_is_frozen(const struct notebook *nb)
{
    return nb->guest->facts.is_frozen != 0;
}

bool notebook_is_freezable(const struct notebook *nb)
{
    return nb->guest->facts.can_freeze != 0;
}

uint32_t notebook_guest_id(const struct notebook *nb)
{
    return nb->guest->box_id;
}

uint64_t notebook_box_id(const struct notebook *nb)
{
    return guest_name(nb->guest);
}

const struct limits *notebook_limits(const struct notebook *nb)
{
    return &nb->limits;
}

void notebook_receipt(const struct notebook *nb, struct husk_receipt *ret)
{
    run_receipt(nb->guest, &nb->limits, true, ret);
}

bool notebook_cpu_ns(const struct notebook *nb, uint64_t *ret)
{
    return !notebook_has_ended(nb) && guest_cpu_ns(nb->guest, ret);
}

int notebook_usage(struct notebook *nb, struct box_usage *ret, struct err *e)
{
    struct launcher_usage now = {.disk_free = UINT64_MAX};
    uint64_t disk = nb->limits.disk_bytes;

    *ret = (struct box_usage){.box_id = nb->guest->box_id, .disk_used_bytes = UINT64_MAX};
    if (guest_usage(nb->engine, nb->guest, true, &now, e) < 0) {
        return -1;
    }
    ret->cpu_time_ms = (double)now.cpu_ns / NS_PER_MS;
    ret->memory_mb = (double)now.memory_now / MIB;
    ret->peak_memory_mb = (double)MAX(now.memory_peak, nb->guest->peak_before) / MIB;
    ret->io_read_bytes = now.io_read;
    ret->io_write_bytes = now.io_write;
    ret->processes = (uint32_t)now.processes;
    if (now.disk_free != UINT64_MAX) {
        ret->disk_used_bytes = disk - MIN(disk, now.disk_free);
    }
    return 0;
}
