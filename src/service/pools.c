/* SPDX-License-Identifier: Apache-2.0 */
/* Which templates are started ahead, and which pools of boxes are kept; core/ sizes them. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/str.h"
#include "service/service_impl.h"

struct opening {
    struct service *svc;
    char template_name[64];
    struct husk_limits limits; /* of a pool for one-shot runs */
    uint64_t min;              /* of that pool */
    bool sessions;             /* and one for sessions */
};

static void keep_pool(const struct opening *o, bool persistent, uint64_t min, uint64_t max)
{
    struct pool_plan plan = {
        .template_name = o->template_name,
        .persistent = persistent,
        .limits = service_limits(o->svc, o->template_name, &o->limits),
        .min = (uint32_t)min,
        .max = (uint32_t)max,
    };
    struct err e = {0};

    if (engine_keep_pool(o->svc->engine, &plan, &e) < 0) {
        log_error("pool_failed", "template=%s: %s", o->template_name, e.msg);
    }
}

/* Zygotes start in fibers of their own: the server answers meanwhile, only the first runs wait. */
static void open_template(void *user)
{
    struct opening o = *(struct opening *)user;
    const struct config *c = o.svc->config;
    struct err e = {0};

    free(user);
    if (engine_start_template(o.svc->engine, o.template_name, &e) < 0) {
        log_error("template_broken", "template=%s: %s", o.template_name, e.msg);
        readiness_opened(o.svc, o.template_name, &e);
    } else {
        const char *language = engine_language(o.svc->engine, o.template_name);
        keep_pool(&o, false, o.min, c->pool_max);
        if (o.sessions && language != NULL) {
            keep_pool(&o, true, c->session_pool_min, c->session_pool_max);
        }
        readiness_opened(o.svc, o.template_name, NULL);
    }
}

static int open_in_fiber(struct service *svc, const char *name, const struct husk_limits *limits,
                         uint64_t min, bool sessions, struct err *e)
{
    if (engine_template(svc->engine, name, e) == NULL) {
        return -1;
    }
    struct opening *o = calloc(1, sizeof(*o));
    if (o == NULL) {
        return err_sys(e, ENOMEM, "template %s", name);
    }
    *o = (struct opening){.svc = svc, .min = min, .sessions = sessions};
    (void)str_copy(o->template_name, sizeof(o->template_name), name);
    if (limits != NULL) {
        o->limits = *limits;
    }
    int r = fiber_start(open_template, o);
    if (r < 0) {
        free(o);
        return err_sys(e, -r, "start a fiber");
    }
    svc->readiness.opening++;
    return 0;
}

static int open_preloaded(struct service *svc, struct err *e)
{
    const struct config *c = svc->config;

    /* Any template may be the one that all sessions and runs want. */
    engine_set_boxes(svc->engine, c->max_sessions + c->max_executions);
    engine_set_adaptive(svc->engine, (uint32_t)c->pool_max);
    for (size_t i = 0; i < c->templates_preload.n; i++) {
        if (open_in_fiber(svc, c->templates_preload.items[i], NULL, c->pool_min, true, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int pools_start(struct service *svc, struct err *e)
{
    return open_preloaded(svc, e);
}

void pools_reconfigure(struct service *svc)
{
    struct err e = {0};

    /* Those that are still wanted are asked for again, perhaps in another size. */
    engine_unkeep_pools(svc->engine, (uint32_t)svc->config->pool_max);
    if (open_preloaded(svc, &e) < 0) {
        log_warn("pool_failed", "%s", e.msg);
    }
}

void service_warm(struct service *svc, const char *template_name, const struct husk_limits *limits,
                  uint64_t min)
{
    struct err e = {0};

    if (min > 0 && open_in_fiber(svc, template_name, limits, min, false, &e) < 0) {
        log_warn("pool_failed", "template=%s: %s", template_name, e.msg);
    }
}
