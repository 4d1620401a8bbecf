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
#include "base/fiber.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "core/paths.h"

void engine_error_export(const struct err *e, struct husk_error *ret)
{
    ret->type = err_type(e->code);
    ret->http = err_http(e->code);
    (void)str_format(ret->message, sizeof(ret->message), "%s", e->msg);
}

struct limits engine_limits_import(const struct husk_limits *from)
{
    return (struct limits){
        .memory_bytes = from->memory_bytes,
        .disk_bytes = from->disk_bytes,
        .timeout_ms = from->timeout_ms,
        .output_bytes = from->output_bytes,
        .cpu_milli = from->cpu_milli,
        .pids = from->pids,
        .inodes = from->inodes,
        .open_files = from->open_files,
    };
}

struct husk_limits engine_limits_export(const struct limits *from)
{
    return (struct husk_limits){
        .memory_bytes = from->memory_bytes,
        .disk_bytes = from->disk_bytes,
        .timeout_ms = from->timeout_ms,
        .output_bytes = from->output_bytes,
        .cpu_milli = from->cpu_milli,
        .pids = from->pids,
        .inodes = from->inodes,
        .open_files = from->open_files,
    };
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

void engine_on_exit(struct husk_engine *engine, const struct launcher_rep *rep)
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
    guest_wake(g);
    pool_lost(engine, g);
}

/* An error that is no answer tells why a box was not born; its EXIT follows. */
static void on_refusal(struct husk_engine *engine, const struct launcher_rep *rep)
{
    struct guest *g = engine->guests[rep->box_id % ENGINE_BOXES_MAX];

    if (g != NULL && g->box_id == rep->box_id) {
        g->refusal = rep->err;
    }
}

static void on_template_gone(struct husk_engine *engine, const struct launcher_rep *rep)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        if (t->open && t->id == rep->template_id) {
            t->open = false; /* opened again when the next box is asked for, unless */
            t->condemned = rep->err;
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
            engine_on_exit(engine, &rep);
            break;
        case LAUNCHER_EV_GONE:
            on_template_gone(engine, &rep);
            break;
        case LAUNCHER_EV_ERROR:
            on_refusal(engine, &rep);
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
        struct guest *g = events[i].data.ptr;
        if (g != NULL) {
            guest_serve_start(g);
            if (g->state != GUEST_STARTING) {
                /* Else the end of a box that nobody has taken yet would keep us busy. */
                guest_unwatch(engine, g);
            }
            guest_wake(g);
        }
    }
    if (engine_dispatch(engine, e) < 0) {
        return -1;
    }
    pool_serve(engine);
    return 0;
}

void engine_set_budget(struct husk_engine *engine, uint64_t bytes)
{
    engine->budget.max = bytes;
}

int engine_lost(struct err *e)
{
    return err_set(e, ERR_LAUNCHER, "husk-launcher is gone, and every box with it");
}

static int poll_in_fiber(struct husk_engine *engine, struct guest *g, struct pollfd *fds, size_t n,
                         int64_t timeout_ms, struct err *e)
{
    struct guest_waiter self = {.next = g->waiters, .fiber = fiber_self()};

    g->waiters = &self;
    int r = engine->lost ? 0 : fiber_poll_soon(fds, n, timeout_ms);
    for (struct guest_waiter **p = &g->waiters; *p != NULL; p = &(*p)->next) {
        if (*p == &self) {
            *p = self.next;
            break;
        }
    }
    if (r < 0) {
        return err_sys(e, -r, "wait for a box");
    }
    return engine->lost ? engine_lost(e) : 0;
}

int engine_poll(struct husk_engine *engine, struct guest *g, struct pollfd *fds, size_t n,
                int64_t timeout_ms, struct err *e)
{
    struct pollfd all[FIBER_POLL_MAX];

    if (fiber_self() != NULL) {
        return poll_in_fiber(engine, g, fds, n, timeout_ms, e);
    }
    for (size_t i = 0; i < n; i++) {
        all[i] = fds[i];
    }
    all[n] = (struct pollfd){.fd = engine->epoll, .events = POLLIN};
    if (native_has_event(engine->native)) {
        timeout_ms = 0;
    }
    int r = fiber_poll(all, n + 1, timeout_ms);
    if (r < 0) {
        return err_sys(e, -r, "wait for a box");
    }
    for (size_t i = 0; i < n; i++) {
        fds[i] = all[i];
    }
    if (all[n].revents != 0 || native_has_event(engine->native)) {
        return engine_wait(engine, 0, e);
    }
    return 0;
}

static void wake_everybody(struct husk_engine *engine)
{
    engine->lost = true;
    for (size_t i = 0; i < ENGINE_BOXES_MAX; i++) {
        if (engine->guests[i] != NULL) {
            guest_wake(engine->guests[i]);
        }
    }
}

static void pump(void *user)
{
    struct husk_engine *engine = user;
    struct err e;

    engine->pump = fiber_self();
    while (!engine->closing) {
        struct pollfd p = {.fd = engine->epoll, .events = POLLIN};
        (void)fiber_poll(&p, 1, -1);
        if (!engine->closing && engine_wait(engine, 0, &e) < 0) {
            wake_everybody(engine);
            break;
        }
    }
    engine->pump = NULL;
}

int engine_serve(struct husk_engine *engine, struct err *e)
{
    int r = fiber_start(pump, engine);

    return r < 0 ? err_sys(e, -r, "start a fiber") : 0;
}

void engine_make_room(void)
{
    cgroup_make_room();
}

/* Starts a launcher of our own. */
static int open_native(const struct husk_options *o, enum launcher_isolation least,
                       struct husk_engine *engine, struct err *e)
{
    char launcher[PATH_MAX];
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
    engine_make_room();
    return native_open(launcher, least, &engine->native, e);
}

/* socket: of a launcher that runs already, taken; or -1. */
static int find_dirs(const struct husk_options *o, const char *client_dir,
                     struct husk_engine *engine, struct err *e)
{
    if (o->template_dir == NULL &&
        template_default_dir(engine->operator_dir, sizeof(engine->operator_dir), e) < 0) {
        return -1;
    }
    if ((o->template_dir != NULL &&
         str_copy(engine->operator_dir, sizeof(engine->operator_dir), o->template_dir) < 0) ||
        (client_dir != NULL &&
         str_copy(engine->client_dir, sizeof(engine->client_dir), client_dir) < 0)) {
        return err_set(e, ERR_INVALID, "template directory path is too long");
    }
    engine->dirs = (struct template_dirs){
        .operators = engine->operator_dir,
        .clients = client_dir != NULL ? engine->client_dir : NULL,
    };
    return 0;
}

static int open_engine(const struct husk_options *o, const char *client_dir, int socket,
                       struct husk_engine *engine, struct err *e)
{
    struct epoll_event in = {.events = EPOLLIN};
    enum launcher_isolation least =
        o->min_isolation == HUSK_ISOLATION_FULL ? LAUNCHER_FULL : LAUNCHER_USERNS;
    int r = socket >= 0 ? native_attach(socket, least, &engine->native, e)
                        : open_native(o, least, engine, e);

    if (r < 0) {
        return -1;
    }
    if (find_dirs(o, client_dir, engine, e) < 0) {
        return -1;
    }
    engine->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (engine->epoll < 0) {
        return err_sys(e, errno, "epoll");
    }
    if (epoll_ctl(engine->epoll, EPOLL_CTL_ADD, native_fd(engine->native), &in) < 0) {
        return err_sys(e, errno, "epoll");
    }
    return 0;
}

int engine_attach(int socket, const struct husk_options *options, const char *client_dir,
                  struct husk_engine **ret, struct err *e)
{
    struct husk_engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL) {
        fd_close(&socket);
        return err_sys(e, ENOMEM, "open the engine");
    }
    engine->epoll = -1;
    engine->attached = socket >= 0;
    if (open_engine(options, client_dir, socket, engine, e) < 0) {
        husk_close(engine);
        return -1;
    }
    *ret = engine;
    return 0;
}

int husk_open(const struct husk_options *options, struct husk_engine **ret,
              struct husk_error *error)
{
    static const struct husk_options defaults;
    struct err e = {0};

    if (engine_attach(-1, options != NULL ? options : &defaults, NULL, ret, &e) < 0) {
        engine_error_export(&e, error);
        return -1;
    }
    return 0;
}

void husk_close(struct husk_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    engine->closing = true;
    while (engine->pool_keeper !=
           NULL) { /* it may be waiting for the launcher, whom the pump hears */
        fiber_wake(engine->pool_keeper);
        fiber_run();
        (void)poll(NULL, 0, 1);
    }
    while (engine->undertaker != NULL) {
        fiber_wake(engine->undertaker);
        fiber_run();
        (void)poll(NULL, 0, 1);
    }
    while (engine->pump != NULL) {
        fiber_wake(engine->pump);
        fiber_run();
    }
    /*
     * A supervised launcher keeps what it was asked to keep: then nobody is told to stop anything.
     */
    if (engine->native != NULL && engine->attached) {
        native_hang_up(engine->native);
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
