/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: opening, closing, launcher events; see engine.h. */
#include "core/engine.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "core/paths.h"

void engine_error_export(const struct err *e, struct husk_error *ret)
{
    ret->type = err_type(e->code);
    ret->http = err_http(e->code);
    (void)str_format(ret->message, sizeof(ret->message), "%s", e->msg);
}

int engine_limits(const struct husk_limits *asked, const struct husk_limits *preset,
                  struct limits *ret, struct err *e)
{
#define PICK(field) .field = asked->field != 0 ? asked->field : preset->field
    struct limits l = {
        PICK(memory_bytes), PICK(disk_bytes), PICK(timeout_ms), PICK(output_bytes),
        PICK(cpu_milli),    PICK(pids),       PICK(inodes),     PICK(open_files),
    };
#undef PICK

    limits_fill(&l);
    if (limits_check(&l, e) < 0) {
        return -1;
    }
    *ret = l;
    return 0;
}

static void on_exit_event(struct husk_engine *engine, const struct launcher_rep *rep)
{
    struct guest *g = engine->guests[rep->box_id % ENGINE_BOXES_MAX];

    if (g == NULL || g->box_id != rep->box_id) {
        return; /* given up already */
    }
    g->exited = true;
    g->wait_status = rep->box.wait_status;
    g->end = (enum launcher_end)rep->box.end;
    g->usage = rep->box.usage;
    engine->guests[rep->box_id % ENGINE_BOXES_MAX] = NULL;
    pool_lost(engine, g);
}

static void on_template_gone(struct husk_engine *engine, uint32_t id)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        if (t->open && t->id == id) {
            t->open = false; /* opened again when the next box is asked for */
        }
    }
}

int engine_dispatch(struct husk_engine *engine, struct err *e)
{
    struct launcher_rep rep;
    int r;

    while ((r = native_next(engine->native, &rep, e)) > 0) {
        switch (rep.event) {
        case LAUNCHER_EV_EXIT:
            on_exit_event(engine, &rep);
            break;
        case LAUNCHER_EV_GONE:
            on_template_gone(engine, rep.template_id);
            break;
        case LAUNCHER_EV_ERROR:
            engine->refusal = rep.err;
            break;
        default:
            break;
        }
    }
    return r;
}

int engine_wait(struct husk_engine *engine, int timeout_ms, struct err *e)
{
    struct epoll_event events[64];

    if (native_has_event(engine->native)) {
        timeout_ms = 0;
    }
    int n = epoll_wait(engine->epoll, events, ARRAY_LEN(events), timeout_ms);
    if (n < 0 && errno != EINTR) {
        return err_sys(e, errno, "wait for boxes");
    }
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr != NULL) {
            guest_serve_start(events[i].data.ptr);
        }
    }
    if (engine_dispatch(engine, e) < 0) {
        return -1;
    }
    pool_serve(engine);
    return 0;
}

static int open_engine(const struct husk_options *o, struct husk_engine *engine, struct err *e)
{
    char launcher[PATH_MAX];
    struct epoll_event in = {.events = EPOLLIN};
    int r;

    if (o->launcher != NULL) {
        r = str_copy(launcher, sizeof(launcher), o->launcher) < 0
                ? err_set(e, ERR_INVALID, "launcher path is too long")
                : 0;
    } else {
        r = paths_launcher(launcher, sizeof(launcher), e);
    }
    if (r < 0) {
        return -1;
    }
    if (o->template_dir == NULL) {
        r = template_default_dir(engine->template_dir, sizeof(engine->template_dir), e);
    } else if (str_copy(engine->template_dir, sizeof(engine->template_dir), o->template_dir) < 0) {
        r = err_set(e, ERR_INVALID, "template directory path is too long");
    }
    if (r < 0) {
        return -1;
    }
    engine->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (engine->epoll < 0) {
        return err_sys(e, errno, "epoll");
    }
    enum launcher_isolation least =
        o->min_isolation == HUSK_ISOLATION_FULL ? LAUNCHER_FULL : LAUNCHER_USERNS;
    if (native_open(launcher, least, &engine->native, e) < 0) {
        return -1;
    }
    if (epoll_ctl(engine->epoll, EPOLL_CTL_ADD, native_fd(engine->native), &in) < 0) {
        return err_sys(e, errno, "epoll");
    }
    return 0;
}

int husk_open(const struct husk_options *options, struct husk_engine **ret,
              struct husk_error *error)
{
    static const struct husk_options defaults;
    struct err e = {0};

    struct husk_engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        err_sys(&e, ENOMEM, "open the engine");
        engine_error_export(&e, error);
        return -1;
    }
    engine->epoll = -1;
    if (open_engine(options != NULL ? options : &defaults, engine, &e) < 0) {
        husk_close(engine);
        engine_error_export(&e, error);
        return -1;
    }
    *ret = engine;
    return 0;
}

void husk_close(struct husk_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    while (engine->templates != NULL) {
        live_close(engine, engine->templates);
    }
    native_close(engine->native);
    fd_close(&engine->epoll);
    free(engine);
}

const char *husk_version(void)
{
    return HUSK_VERSION;
}
