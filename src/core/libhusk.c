/* SPDX-License-Identifier: Apache-2.0 */
/* The public library: each function of include/husk/husk.h in terms of core.h. */
#include "husk/husk.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/units.h"
#include "core/core.h"
#include "core/husk_impl.h"

/* The public form of an error. Returns -1. */
static int fail(const struct err *e, struct husk_error *ret)
{
    ret->type = err_type(e->code);
    ret->http = err_http(e->code);
    (void)str_format(ret->message, sizeof(ret->message), "%s", e->msg);
    return -1;
}

/* ---- engine ---- */

int husk_open(const struct husk_options *options, struct husk_engine **ret,
              struct husk_error *error)
{
    static const struct husk_options defaults;
    const struct husk_options *o = options != NULL ? options : &defaults;
    const struct engine_options inner = {.launcher = o->launcher,
                                         .template_dir = o->template_dir,
                                         .min_isolation = o->min_isolation};
    struct err e = {0};

    struct husk_engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        err_sys(&e, ENOMEM, "open the engine");
        return fail(&e, error);
    }
    if (engine_open(&inner, &engine->inner, &e) < 0) {
        free(engine);
        return fail(&e, error);
    }
    *ret = engine;
    return 0;
}

void husk_close(struct husk_engine *engine)
{
    if (engine != NULL) {
        engine_close(engine->inner);
        free(engine);
    }
}

const char *husk_version(void)
{
    return HUSK_VERSION;
}

/* ---- runs and pools ---- */

int husk_run(struct husk_engine *engine, const struct husk_spec *spec, struct husk_result **ret,
             struct husk_error *error)
{
    struct err e = {0};

    return engine_run(engine->inner, spec, NULL, ret, &e) < 0 ? fail(&e, error) : 0;
}

int husk_pool_set(struct husk_engine *engine, const char *template_name,
                  const struct husk_limits *limits, uint32_t min, uint32_t max,
                  struct husk_error *error)
{
    struct err e = {0};

    return engine_pool_set(engine->inner, template_name, limits, min, max, &e) < 0 ? fail(&e, error)
                                                                                   : 0;
}

int husk_pool_wait(struct husk_engine *engine, const char *template_name, uint32_t parked,
                   struct husk_error *error)
{
    struct err e = {0};

    return engine_pool_wait(engine->inner, template_name, parked, &e) < 0 ? fail(&e, error) : 0;
}

int husk_pool_stats(struct husk_engine *engine, const char *template_name,
                    struct husk_pool_stats *ret, struct husk_error *error)
{
    struct err e = {0};

    return engine_pool_stats(engine->inner, template_name, ret, &e) < 0 ? fail(&e, error) : 0;
}

/* ---- sessions ---- */

int husk_session_open(struct husk_engine *engine, const struct husk_spec *spec,
                      struct husk_session **ret, struct husk_error *error)
{
    struct err e = {0};

    struct husk_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        err_sys(&e, ENOMEM, "session");
        return fail(&e, error);
    }
    const struct notebook_options options = {.language = -1};
    if (notebook_open(engine->inner, spec, &options, &session->inner, &e) < 0) {
        free(session);
        return fail(&e, error);
    }
    *ret = session;
    return 0;
}

void husk_session_close(struct husk_session *session)
{
    if (session != NULL) {
        notebook_close(session->inner);
        free(session);
    }
}

int husk_session_run(struct husk_session *session, uint32_t context, const struct husk_spec *spec,
                     struct husk_result **ret, struct husk_error *error)
{
    struct err e = {0};

    return notebook_run(session->inner, context, spec, NULL, ret, &e) < 0 ? fail(&e, error) : 0;
}

int husk_session_reset(struct husk_session *session, uint32_t context, struct husk_error *error)
{
    struct err e = {0};

    return notebook_reset(session->inner, context, &e) < 0 ? fail(&e, error) : 0;
}

int husk_session_checkpoint(struct husk_session *session, uint32_t context, uint32_t *ret,
                            struct husk_error *error)
{
    struct err e = {0};

    return notebook_checkpoint(session->inner, context, ret, &e) < 0 ? fail(&e, error) : 0;
}

int husk_session_restore(struct husk_session *session, uint32_t context, uint32_t checkpoint,
                         struct husk_error *error)
{
    struct err e = {0};

    return notebook_restore(session->inner, context, checkpoint, &e) < 0 ? fail(&e, error) : 0;
}

int husk_session_branch(struct husk_session *session, uint32_t context, uint32_t *ret,
                        struct husk_error *error)
{
    struct err e = {0};

    return notebook_branch(session->inner, context, ret, &e) < 0 ? fail(&e, error) : 0;
}

/* ---- templates ---- */

int husk_template_list(const char *dir, struct husk_template_info **ret, size_t *n,
                       struct husk_error *error)
{
    char fallback[TEMPLATE_PATH_MAX];
    struct template_dirs dirs = {.operators = dir != NULL ? dir : fallback};
    struct err e = {0};

    if ((dir == NULL && template_default_dir(fallback, sizeof(fallback), &e) < 0) ||
        template_list(&dirs, ret, n, &e) < 0) {
        return fail(&e, error);
    }
    return 0;
}

int husk_template_start(struct husk_engine *husk, const char *name, struct husk_template_start *ret,
                        struct husk_error *error)
{
    uint64_t began = clock_ns();
    struct err e = {0};

    if (engine_start_template(husk->inner, name, &e) < 0) {
        return fail(&e, error);
    }
    ret->ms = (double)(clock_ns() - began) / NS_PER_MS;
    (void)str_copy(ret->note, sizeof(ret->note), engine_note(husk->inner, name));
    return 0;
}

int husk_template_compile(struct husk_engine *husk, const char *name, uint32_t *ret_modules,
                          struct husk_error *error)
{
    struct err e = {0};

    return template_compile(husk->inner, name, ret_modules, &e) < 0 ? fail(&e, error) : 0;
}

int husk_template_add(const char *name, const char *python, const char *const *preload,
                      char *ret_path, size_t path_size, struct husk_error *error)
{
    struct err e = {0};

    return template_add(name, python, preload, ret_path, path_size, &e) < 0 ? fail(&e, error) : 0;
}
