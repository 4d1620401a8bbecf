/* SPDX-License-Identifier: Apache-2.0 */
/* Templates as the other layers see them: by name; see core.h. */
#include <stdlib.h>

#include "base/str.h"
#include "core/run.h"

const struct template_def *engine_template(struct engine *engine, const char *name, struct err *e)
{
    struct live_template *live = live_get(engine, name, true, e);

    if (live == NULL || (!live->open && !live->starting_up && live_refresh(engine, live, e) < 0)) {
        return NULL;
    }
    return &live->def;
}

static const struct live_template *find_running(const struct engine *engine, const char *name)
{
    for (const struct live_template *t = engine->templates; t != NULL; t = t->next) {
        if (t->open && t->preload && !t->retired && !t->one_off && str_eq(t->name, name)) {
            return t;
        }
    }
    return NULL;
}

bool engine_runs(const struct engine *engine, const char *name)
{
    return find_running(engine, name) != NULL;
}

const char *engine_note(const struct engine *engine, const char *name)
{
    const struct live_template *t = find_running(engine, name);

    return t != NULL ? t->note : "";
}

const char *engine_language(const struct engine *engine, const char *name)
{
    struct err ignored;

    for (const struct live_template *t = engine->templates; t != NULL; t = t->next) {
        if (!t->retired && str_eq(t->name, name)) {
            return template_language_name(t->def.info.language);
        }
    }
    AUTO_FREE struct template_def *def = malloc(sizeof(*def)); /* too large for a fiber's stack */
    return def != NULL && template_find(&engine->dirs, name, def, &ignored) == 0
               ? template_language_name(def->info.language)
               : NULL;
}

int engine_check_limits(struct engine *engine, const char *template_name,
                        const struct husk_limits *asked, struct err *e)
{
    const struct template_def *def = engine_template(engine, template_name, e);
    struct limits limits;

    if (def == NULL || engine_limits(asked, &def->info.limits, &limits, e) < 0) {
        return -1;
    }
    const struct limits most = engine_limits_import(&def->most);
    return limits_within(&limits, &most, e);
}

void engine_set_boxes(struct engine *engine, uint64_t boxes)
{
    engine->boxes = (uint32_t)MIN(boxes, (uint64_t)LAUNCHER_BOXES_MAX);
}

int engine_start_template(struct engine *engine, const char *name, struct err *e)
{
    struct live_template *live = live_get(engine, name, true, e);

    return live != NULL ? live_start(engine, live, NULL, 0, e) : -1;
}

void engine_retire_template(struct engine *engine, const char *name)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        t->retired = t->retired || str_eq(t->name, name);
    }
}

static bool has_boxes(const struct engine *engine, const struct live_template *live)
{
    for (size_t i = 0; i < ENGINE_BOXES_MAX; i++) {
        const struct guest *g = engine->guests[i];
        if (g != NULL && g->live == live && !g->in_pool) {
            return true;
        }
    }
    return false;
}

static bool is_busy(const struct live_template *live)
{
    bool busy = live->starting_up || live->users > 0;

    for (const struct pool *p = live->pools; p != NULL; p = p->next) {
        busy = busy || p->busy || p->stats.starting > 0;
    }
    return busy;
}

void engine_sweep_templates(struct engine *engine)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        if (t->retired && !is_busy(t) && !has_boxes(engine, t)) {
            live_close(engine, t);
            return; /* that was a wait: the list may be another one now */
        }
    }
}

bool engine_box_receipt(const struct engine *engine, uint64_t id, struct husk_receipt *ret)
{
    const struct guest *g = engine->guests[id % ENGINE_BOXES_MAX];

    if (g == NULL || guest_name(g) != id || g->in_pool) {
        return false;
    }
    run_receipt(g, &g->limits, g->was_pooled || g->has_contexts, ret);
    return true;
}

size_t engine_boxes(const struct engine *engine, struct engine_box *ret, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < ENGINE_BOXES_MAX && n < max; i++) {
        const struct guest *g = engine->guests[i];
        if (g == NULL) {
            continue;
        }
        const char *state = g->in_pool ? "parked" : "running";
        /* A run gets a new box at once, and reads itself that it is ready. */
        bool is_starting = g->state == GUEST_STARTING && g->used_by[0] == '\0';
        ret[n] = (struct engine_box){
            .id = guest_name(g),
            .state = is_starting ? "starting" : state,
            .created_ms = g->created_ms,
            .limits = engine_limits_export(&g->limits),
        };
        (void)str_copy(ret[n].template_name, sizeof(ret[n].template_name), g->live->name);
        (void)str_copy(ret[n].used_by, sizeof(ret[n].used_by), g->used_by);
        n++;
    }
    return n;
}

int engine_totals(struct engine *engine, struct box_totals *ret, struct err *e)
{
    struct launcher_usage u;

    if (backend_usage(engine->backend, LAUNCHER_ALL_BOXES, false, &u, e) < 0) {
        return -1;
    }
    *ret = (struct box_totals){
        .cpu_ns = u.cpu_ns, .memory_bytes = u.memory_now, .processes = u.processes};
    return 0;
}

void engine_count_boxes(const struct engine *engine, struct box_totals *ret)
{
    ret->running = ret->parked = ret->memory_limit_bytes = 0;
    for (size_t i = 0; i < ENGINE_BOXES_MAX; i++) {
        const struct guest *g = engine->guests[i];
        if (g != NULL) {
            ret->parked += g->in_pool;
            ret->running += !g->in_pool;
            ret->memory_limit_bytes += g->limits.memory_bytes;
        }
    }
}
