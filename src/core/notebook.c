/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: one box, many cells, contexts that can be branched and gone back to; see
 * include/husk/husk.h.
 *
 * Contexts and checkpoints share one table, so a number means the same everywhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/rand.h"
#include "core/box_files.h"
#include "core/notebook_impl.h"

#define START_PATIENCE_MS 30000

struct context *notebook_context(struct husk_session *s, uint32_t id, bool checkpoint,
                                 struct err *e)
{
    if (id >= CONTEXTS_MAX || !s->contexts[id].used ||
        s->contexts[id].is_checkpoint != checkpoint) {
        err_set(e, ERR_NOT_FOUND, "the session has no %s %u", checkpoint ? "checkpoint" : "context",
                id);
        return NULL;
    }
    return &s->contexts[id];
}

static struct context *context_free_slot(struct husk_session *s, uint32_t *id, struct err *e)
{
    for (uint32_t i = 1; i < CONTEXTS_MAX; i++) { /* the first is nobody else's */
        if (!s->contexts[i].used && !s->contexts[i].is_awaited) {
            *id = i;
            return &s->contexts[i];
        }
    }
    err_set(e, ERR_LIMIT, "a session has at most %d contexts and checkpoints", CONTEXTS_MAX);
    return NULL;
}

static int open_session(struct husk_engine *engine, const struct husk_spec *spec,
                        struct husk_session *s, struct err *e)
{
    const char *name = spec->template_name != NULL ? spec->template_name : "python";
    struct guest_options options = {.mode = LAUNCHER_SESSION};

    struct live_template *live = live_get(engine, name, !spec->no_pool, e);
    if (live == NULL) {
        return -1;
    }
    if (live->def.info.language != HUSK_PYTHON) {
        return err_set(e, ERR_INVALID, "sessions need a python template, %s is none", name);
    }
    if (engine_limits(&spec->limits, &live->def.info.limits, &s->limits, e) < 0) {
        return -1;
    }
    options.limits = s->limits;
    s->engine = engine;
    s->guest = pool_take(engine, live, LAUNCHER_SESSION, &s->limits);
    if (s->guest == NULL) {
        live->users++;
        s->guest = guest_start(engine, live, &options, e);
        live->users--;
    } else {
        pool_taken(engine, live);
    }
    if (s->guest == NULL) {
        return -1;
    }
    uint64_t until = clock_ms() + START_PATIENCE_MS;
    while (s->guest->state == GUEST_STARTING && !s->guest->exited) {
        uint64_t now = clock_ms();
        if (now >= until) {
            return err_set(e, ERR_TIMEOUT, "the box was not ready within %d s",
                           START_PATIENCE_MS / 1000);
        }
        if (engine_poll(engine, s->guest, NULL, 0, (int64_t)(until - now), e) < 0) {
            return -1;
        }
    }
    if (s->guest->state != GUEST_READY) {
        return err_set(e, ERR_ISOLATION, "%s", s->guest->failure);
    }
    guest_unwatch(engine, s->guest);
    channel_keep_small(&s->guest->control);
    return context_start(s->engine, s->guest, &s->contexts[0], &s->guest->control, FRAME_CONTEXT,
                         e);
}

int husk_session_open(struct husk_engine *engine, const struct husk_spec *spec,
                      struct husk_session **ret, struct husk_error *error)
{
    struct err e = {0};

    struct husk_session *s = calloc(1, sizeof(*s));
    if (s == NULL || open_session(engine, spec, s, &e) < 0) {
        if (s == NULL) {
            err_sys(&e, ENOMEM, "session");
        }
        husk_session_close(s);
        engine_error_export(&e, error);
        return -1;
    }
    *ret = s;
    return 0;
}

void husk_session_close(struct husk_session *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < CONTEXTS_MAX; i++) {
        if (s->contexts[i].used) {
            channel_release(&s->contexts[i].channel);
        }
    }
    if (s->guest != NULL &&
        s->kept) { /* also one that has ended: the launcher remembers it for us */
        struct launcher_req release = {.op = LAUNCHER_RELEASE, .box_id = s->guest->box_id};
        struct err ignored;
        (void)native_send(s->engine->native, &release, NULL, 0, &ignored);
        guest_forget(s->engine, s->guest);
        FAULT_POINT("box.released");
    }
    if (s->guest != NULL) {
        guest_free(s->engine, s->guest);
    }
    if (s->no_input > 0) {
        fd_close(&s->no_input);
    }
    free(s);
}

int notebook_replace_context(struct husk_session *s, struct context *c, struct err *e)
{
    struct channel *control = &s->guest->control;
    struct context gone = *c;

    int r = context_start(s->engine, s->guest, c, control, FRAME_CONTEXT, e);
    if (r < 0 && e->code == ERR_LIMIT && !s->guest->exited) {
        c->is_awaited = true;
        (void)context_sweep(s->guest, s->contexts, ARRAY_LEN(s->contexts), &gone, 0);
        r = context_start(s->engine, s->guest, c, control, FRAME_CONTEXT, e);
    }
    if (r == 0) {
        notebook_keep_context(s, c);
    }
    return r;
}

int notebook_mend_context(struct husk_session *s, uint32_t id, struct err *e)
{
    struct context *c = notebook_context(s, id, false, e);

    if (c == NULL) {
        return -1;
    }
    if (!c->has_part) {
        return 0;
    }
    context_end(s->guest, c);
    return notebook_replace_context(s, c, e);
}

int husk_session_reset(struct husk_session *s, uint32_t context, struct husk_error *error)
{
    struct err e = {0};

    struct context *c = notebook_context(s, context, false, &e);
    if (c != NULL) {
        context_end(s->guest, c);
    }
    if (c == NULL || notebook_replace_context(s, c, &e) < 0) {
        engine_error_export(&e, error);
        return -1;
    }
    return 0;
}

/* Copies a context into a new slot. */
static int copy_context(struct husk_session *s, uint32_t from, bool checkpoint, uint32_t *ret,
                        struct husk_error *error)
{
    struct err e = {0};
    struct context *to = NULL;
    uint32_t id;

    int r = notebook_mend_context(s, from, &e);
    context_await_sweeps(s->guest);
    struct context *c = r == 0 ? notebook_context(s, from, false, &e) : NULL;
    if (c != NULL) {
        to = context_free_slot(s, &id, &e);
    }
    if (to == NULL || context_branch(s->engine, s->guest, to, &c->channel, &e) < 0) {
        engine_error_export(&e, error);
        return -1;
    }
    to->is_checkpoint = checkpoint;
    notebook_keep_context(s, to);
    *ret = id;
    return 0;
}

int husk_session_checkpoint(struct husk_session *s, uint32_t context, uint32_t *ret,
                            struct husk_error *e)
{
    return copy_context(s, context, true, ret, e);
}

int husk_session_branch(struct husk_session *s, uint32_t context, uint32_t *ret,
                        struct husk_error *e)
{
    return copy_context(s, context, false, ret, e);
}

int husk_session_restore(struct husk_session *s, uint32_t context, uint32_t checkpoint,
                         struct husk_error *error)
{
    struct err e = {0};

    context_await_sweeps(s->guest);
    struct context *c = notebook_context(s, context, false, &e);
    struct context *from = c != NULL ? notebook_context(s, checkpoint, true, &e) : NULL;
    struct context copy;
    if (from == NULL || context_branch(s->engine, s->guest, &copy, &from->channel, &e) < 0) {
        engine_error_export(&e, error);
        return -1;
    }
    context_end(s->guest, c);
    *c = copy;
    notebook_keep_context(s, c);
    return 0;
}

int notebook_fresh_context(struct husk_session *s, uint32_t *ret, struct husk_error *error)
{
    struct err e = {0};

    struct context *c = context_free_slot(s, ret, &e);
    if (c == NULL ||
        context_start(s->engine, s->guest, c, &s->guest->control, FRAME_CONTEXT, &e) < 0) {
        engine_error_export(&e, error);
        return -1;
    }
    return 0; /* kept with its cell: without one nobody would ever end it */
}

void notebook_end_context(struct husk_session *s, uint32_t id)
{
    notebook_drop_context(s, &s->contexts[id]);
    context_end(s->guest, &s->contexts[id]);
}

bool notebook_end_overdue(struct husk_session *s)
{
    bool is_overdue = channel_is_overdue(&s->guest->control);

    for (size_t i = 0; i < CONTEXTS_MAX; i++) {
        const struct context *c = &s->contexts[i];
        bool is_idle = memcmp(c->cell, (uint8_t[FRAME_TOKEN_SIZE]){0}, sizeof(c->cell)) == 0;
        is_overdue = is_overdue || (c->used && is_idle && channel_is_overdue(&c->channel));
    }
    if (is_overdue && !s->guest->exited) {
        guest_kill(s->engine, s->guest);
    }
    return is_overdue && !s->guest->exited;
}

struct channel *notebook_control(struct husk_session *s)
{
    return &s->guest->control;
}
