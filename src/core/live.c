/* SPDX-License-Identifier: Apache-2.0 */
/* Templates in use: opened, their zygotes started when a box is asked for, stopped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "core/engine_impl.h"
#include "core/template_fill.h"

#define BOXES_WITHOUT_POOL 63 /* one ward of host ids */
/* A try may take as long as its imports: until then its failure is the answer. */
#define RETRY_MS 10000

uint32_t live_boxes(const struct live_template *live)
{
    /* Boxes that run and boxes parked behind them. */
    return live->one_off ? 1
                         : MIN(LAUNCHER_BOXES_MAX,
                               MAX(BOXES_WITHOUT_POOL, live->boxes_asked) + pool_most(live));
}

uint64_t live_definition(const struct live_template *live)
{
    return live->def.fingerprint ^ (live->preload ? 0 : 1u) ^ (live->one_off ? 2u : 0);
}

/* A template as its back end asks for it: with a launcher of our own we are the operator. */
struct describing {
    const struct live_template *live;
    const struct husk_mount *mounts;
    size_t n_mounts;
};

static int describe(void *user, backend_put *put, void *to, struct err *e)
{
    const struct describing *d = user;
    const struct template_sink sink = {.put = put, .user = to};
    const struct template_choice choice = {.preload = d->live->preload,
                                           .modules = d->live->def.modules,
                                           .mounts = d->mounts,
                                           .n_mounts = d->n_mounts};

    int r = template_fill(&d->live->def, &choice, &sink, e);
    return r < 0 && !str_starts(e->msg, "template ") ? err_wrap(e, "template %s", d->live->name)
                                                     : r;
}

static int start_zygote(struct engine *engine, struct live_template *live,
                        const struct husk_mount *mounts, size_t n, struct err *e)
{
    const struct template_def *def = &live->def;
    struct describing d = {.live = live, .mounts = mounts, .n_mounts = n};
    uint32_t least = MIN(live_boxes(live), BOXES_WITHOUT_POOL + pool_most(live));
    struct backend_template t = {
        .name = live->name,
        .base = def->base[0] != '\0' ? def->base : live->name,
        .modules = def->modules,
        .definition = live_definition(live),
        .boxes = live_boxes(live),
        .preload = live->preload,
        .describe = engine->attached ? NULL : describe,
        .user = &d,
    };

    if (n > 0 && engine->attached) {
        return err_set(e, ERR_INVALID, "boxes of a server have the mounts of their template only");
    }
    struct backend_opened opened;
    int r = backend_open_template(engine->backend, &t, &opened, e);
    while (r < 0 && e->code == ERR_LIMIT && t.boxes > least) {
        t.boxes = MAX(t.boxes / 2, least); /* ids of the host are short: for fewer boxes then */
        r = backend_open_template(engine->backend, &t, &opened, e);
    }
    if (r < 0) {
        return -1;
    }
    live->id = opened.id;
    (void)str_copy(live->note, sizeof(live->note), opened.note);
    live->boxes_most = t.boxes;
    return 0;
}

int live_refresh(struct engine *engine, struct live_template *live, struct err *e)
{
    AUTO_FREE struct template_def *def = malloc(sizeof(*def)); /* large, for a fiber's stack */

    if (def == NULL) {
        return err_sys(e, ENOMEM, "template %s", live->name);
    }
    if (template_find(&engine->dirs, live->name, def, e) < 0) {
        return -1;
    }
    if (def->fingerprint != live->def.fingerprint) {
        live->def = *def;
        live->condemned.code = ERR_NONE;
        live->failed.code = ERR_NONE;
    }
    return 0;
}

int live_start(struct engine *engine, struct live_template *live, const struct husk_mount *mounts,
               size_t n, struct err *e)
{
    while (live->starting_up) { /* another fiber does it; it may fail, then we try */
        (void)fiber_queue_wait(&live->start_queue, -1);
    }
    if (live->open) {
        return 0;
    }
    if (live_refresh(engine, live, e) < 0) {
        return -1;
    }
    if (live->condemned.code != ERR_NONE) {
        *e = live->condemned;
        return -1;
    }
    if (live->failed.code != ERR_NONE && clock_ms() - live->failed_ms < RETRY_MS) {
        *e = live->failed;
        return -1;
    }
    live->starting_up = true;
    int r = start_zygote(engine, live, mounts, n, e);
    live->failed = r < 0 && e->code == ERR_TEMPLATE ? *e : (struct err){0};
    live->failed_ms = clock_ms();
    live->open = r == 0;
    live->opened_ms = clock_ms();
    live->made = 0;
    live->starting_up = false;
    fiber_queue_wake_all(&live->start_queue);
    return r;
}

static struct live_template *add_live(struct engine *engine, const char *name, bool preload,
                                      struct err *e)
{
    struct live_template *live = calloc(1, sizeof(*live));

    if (live == NULL) {
        err_sys(e, ENOMEM, "template %s", name);
        return NULL;
    }
    if (template_find(&engine->dirs, name, &live->def, e) < 0) {
        free(live);
        return NULL;
    }
    (void)str_copy(live->name, sizeof(live->name), name);
    live->preload = preload;
    live->boxes_asked = engine->boxes;
    live->next = engine->templates;
    engine->templates = live;
    return live;
}

struct live_template *live_retired(struct engine *engine, const char *name)
{
    struct live_template *live = calloc(1, sizeof(*live));
    struct err ignored;

    if (live != NULL) {
        (void)template_find(&engine->dirs, name, &live->def, &ignored); /* the next best */
        (void)str_copy(live->name, sizeof(live->name), name);
        live->retired = true;
        live->next = engine->templates;
        engine->templates = live;
    }
    return live;
}

struct live_template *live_get(struct engine *engine, const char *name, bool preload, struct err *e)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        if (!t->one_off && !t->retired && !t->apart && t->preload == preload &&
            str_eq(t->name, name)) {
            return t;
        }
    }
    return add_live(engine, name, preload, e);
}

struct live_template *live_successor(struct engine *engine, const struct live_template *live,
                                     struct err *e)
{
    struct live_template *fresh = add_live(engine, live->name, live->preload, e);

    if (fresh != NULL) {
        fresh->apart = true;
        fresh->boxes_asked = live->boxes_asked;
    }
    return fresh;
}

struct live_template *live_one_off(struct engine *engine, const char *name, bool preload,
                                   const struct husk_mount *mounts, size_t n, struct err *e)
{
    struct live_template *live = add_live(engine, name, preload, e);

    if (live == NULL) {
        return NULL;
    }
    live->one_off = true;
    if (live_start(engine, live, mounts, n, e) < 0) {
        live_close(engine, live);
        return NULL;
    }
    return live;
}

int live_stop(struct engine *engine, struct live_template *live, struct err *e)
{
    if (!live->open) {
        return 0;
    }
    live->open = false;
    if (backend_close_template(engine->backend, live->id, e) < 0 && e->code != ERR_NOT_FOUND) {
        return -1;
    }
    e->code = ERR_NONE; /* one that died by itself is stopped as well */
    return 0;
}

void live_close(struct engine *engine, struct live_template *live)
{
    struct err ignored;

    while (live->pools != NULL) {
        pool_remove(engine, live, live->pools);
    }
    (void)live_stop(engine, live, &ignored); /* a launcher that is gone has stopped it */
    for (struct live_template **p = &engine->templates; *p != NULL; p = &(*p)->next) {
        if (*p == live) {
            *p = live->next;
            break;
        }
    }
    free(live);
}
