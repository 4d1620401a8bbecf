/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: opening, closing, launcher events; see core.h and engine_impl.h. */
#include "core/engine_impl.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "backend/native.h"
#include "base/fd.h"
#include "base/fiber.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "core/context.h"
#include "core/paths.h"

/* The two structs have the same fields. */
#define SAME_LIMITS(from)                                                                          \
    {                                                                                              \
        .memory_bytes = (from)->memory_bytes, .disk_bytes = (from)->disk_bytes,                    \
        .timeout_ms = (from)->timeout_ms, .output_bytes = (from)->output_bytes,                    \
        .cpu_milli = (from)->cpu_milli, .pids = (from)->pids, .inodes = (from)->inodes,            \
        .open_files = (from)->open_files, .process_bytes = (from)->process_bytes,                  \
    }

struct limits engine_limits_import(const struct husk_limits *from)
{
    return (struct limits)SAME_LIMITS(from);
}

struct husk_limits engine_limits_export(const struct limits *from)
{
    return (struct husk_limits)SAME_LIMITS(from);
}

int engine_limits(const struct husk_limits *asked, const struct husk_limits *preset,
                  struct limits *ret, struct err *e)
{
#define PICK(field) .field = asked->field != 0 ? asked->field : preset->field
    struct limits l = {
        PICK(memory_bytes), PICK(disk_bytes), PICK(timeout_ms),
        PICK(output_bytes), PICK(cpu_milli),  PICK(pids),
        PICK(inodes),       PICK(open_files), PICK(process_bytes),
    };
#undef PICK

    limits_fill(&l);
    if (limits_check(&l, e) < 0) {
        return -1;
    }
    *ret = l;
    return 0;
}

static void on_exit_of(struct engine *engine, struct guest *g, const struct backend_event *event)
{
    g->exited = true;
    g->wait_status = event->wait_status;
    g->end = event->end;
    g->usage = event->usage;
    guest_forget(engine, g);
    guest_wake(g);
    pool_lost(engine, g);
}

static void on_template_gone(struct engine *engine, const struct backend_event *event)
{
    for (struct live_template *t = engine->templates; t != NULL; t = t->next) {
        if (t->open && t->id == event->id) {
            t->open = false; /* opened again when the next box is asked for, unless */
            t->condemned = event->err;
            fiber_queue_wake_all(&t->start_queue);
        }
    }
}

void engine_on_event(struct engine *engine, const struct backend_event *event)
{
    if (event->kind == BACKEND_TEMPLATE_ENDED) {
        on_template_gone(engine, event);
        return;
    }
    struct guest *g = engine->guests[event->id % ENGINE_BOXES_MAX];
    if (g == NULL || g->box_id != event->id) {
        return; /* given up already */
    }
    if (event->kind == BACKEND_REFUSED) {
        g->refusal = event->err; /* its end follows */
    } else {
        on_exit_of(engine, g, event);
    }
}

int engine_dispatch(struct engine *engine, struct err *e)
{
    struct backend_event event;
    int r;

    while ((r = backend_next(engine->backend, &event, e)) > 0) {
        engine_on_event(engine, &event);
    }
    return r;
}

int engine_wait(struct engine *engine, int timeout_ms, struct err *e)
{
    struct epoll_event events[64];

    if (backend_has_event(engine->backend)) {
        timeout_ms = 0;
    }
    int n = epoll_wait(engine->epoll, events, ARRAY_LEN(events), timeout_ms);
    if (n < 0 && errno != EINTR) {
        return err_sys(e, errno, "wait for boxes");
    }
    for (int i = 0; i < n; i++) {
        struct guest *g = events[i].data.ptr;
        if (g != NULL && g->has_contexts) {
            context_hear(g);
        } else if (g != NULL) {
            guest_serve_start(g);
            if (g->state != GUEST_STARTING) {
                /* Else the end of a parked box would keep us busy. */
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

void engine_set_budget(struct engine *engine, uint64_t bytes)
{
    engine->budget.max = bytes;
}

int engine_lost(struct err *e)
{
    return err_set(e, ERR_LAUNCHER, "husk-launcher is gone, and every box with it");
}

static int poll_in_fiber(struct engine *engine, struct guest *g, struct pollfd *fds, size_t n,
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

int engine_poll(struct engine *engine, struct guest *g, struct pollfd *fds, size_t n,
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
    if (backend_has_event(engine->backend)) {
        timeout_ms = 0;
    }
    int r = fiber_poll(all, n + 1, timeout_ms);
    if (r < 0) {
        return err_sys(e, -r, "wait for a box");
    }
    for (size_t i = 0; i < n; i++) {
        fds[i] = all[i];
    }
    if (all[n].revents != 0 || backend_has_event(engine->backend)) {
        return engine_wait(engine, 0, e);
    }
    return 0;
}

static void wake_all(struct engine *engine)
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
    struct engine *engine = user;
    struct err e;

    engine->pump = fiber_self();
    while (!engine->closing) {
        struct pollfd p = {.fd = engine->epoll, .events = POLLIN};
        (void)fiber_poll_kept(&p, -1);
        if (!engine->closing && engine_wait(engine, 0, &e) < 0) {
            wake_all(engine);
            break;
        }
    }
    fiber_drop_kept();
    engine->pump = NULL;
}

int engine_serve(struct engine *engine, struct err *e)
{
    int r = fiber_start(pump, engine);

    if (r < 0) {
        return err_sys(e, -r, "start a fiber");
    }
    return pool_keep(engine, e) < 0 ? -1 : retire_serve(engine, e);
}

bool engine_is_lost(const struct engine *engine)
{
    return engine->lost;
}

bool engine_can_freeze(const struct engine *engine)
{
    return backend_facts(engine->backend)->can_freeze != 0;
}

const char *engine_missing(const struct engine *engine)
{
    const struct launcher_facts *f = backend_facts(engine->backend);

    return f->isolation == LAUNCHER_FULL ? NULL : f->missing;
}

const struct template_dirs *engine_dirs(const struct engine *engine)
{
    return &engine->dirs;
}

void engine_make_room(void)
{
    cgroup_make_room();
}

/* Starts a launcher of our own. */
static int open_native(struct engine *engine, const struct engine_options *o,
                       enum launcher_isolation least, struct err *e)
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
    return native_open(launcher, least, &engine->backend, e);
}

static int find_dirs(struct engine *engine, const struct engine_options *o, struct err *e)
{
    if (o->template_dir == NULL &&
        template_default_dir(engine->operator_dir, sizeof(engine->operator_dir), e) < 0) {
        return -1;
    }
    if ((o->template_dir != NULL &&
         str_copy(engine->operator_dir, sizeof(engine->operator_dir), o->template_dir) < 0) ||
        (o->client_dir != NULL &&
         str_copy(engine->client_dir, sizeof(engine->client_dir), o->client_dir) < 0)) {
        return err_set(e, ERR_INVALID, "template directory path is too long");
    }
    engine->dirs = (struct template_dirs){
        .operators = engine->operator_dir,
        .clients = o->client_dir != NULL ? engine->client_dir : NULL,
        .others_start = o->socket > 0,
    };
    return 0;
}

static int open_backend(struct engine *engine, const struct engine_options *o, struct err *e)
{
    enum launcher_isolation least =
        o->min_isolation == HUSK_ISOLATION_FULL ? LAUNCHER_FULL : LAUNCHER_USERNS;

    if (o->backend != NULL) {
        engine->backend = o->backend;
        return 0;
    }
    return o->socket > 0 ? native_attach(o->socket, least, &engine->backend, e)
                         : open_native(engine, o, least, e);
}

static int open_parts(struct engine *engine, const struct engine_options *o, struct err *e)
{
    struct epoll_event in = {.events = EPOLLIN};

    if (open_backend(engine, o, e) < 0 || find_dirs(engine, o, e) < 0) {
        return -1;
    }
    engine->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (engine->epoll < 0 ||
        epoll_ctl(engine->epoll, EPOLL_CTL_ADD, backend_fd(engine->backend), &in) < 0) {
        return err_sys(e, errno, "epoll");
    }
    return 0;
}

int engine_open(const struct engine_options *options, struct engine **ret, struct err *e)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL) {
        int socket = options->socket > 0 ? options->socket : -1;
        fd_close(&socket);
        backend_close(options->backend);
        return err_sys(e, ENOMEM, "open the engine");
    }
    engine->epoll = -1;
    engine->attached = options->socket > 0;
    if (open_parts(engine, options, e) < 0) {
        engine_close(engine);
        return -1;
    }
    *ret = engine;
    return 0;
}

/* Has a fiber of the engine end, which may be waiting for the launcher. */
static void end_fiber(struct fiber *const *f)
{
    while (*f != NULL) {
        fiber_wake(*f);
        fiber_run();
        (void)poll(NULL, 0, 1);
    }
}

void engine_close(struct engine *engine)
{
    if (engine == NULL) {
        return;
    }
    engine->closing = true;
    end_fiber(&engine->pool_keeper);
    end_fiber(&engine->releaser);
    end_fiber(&engine->pump); /* last: the others hear the launcher through it */
    /* A supervised launcher keeps what it was asked to keep: it is told to stop nothing. */
    if (engine->backend != NULL && engine->attached) {
        backend_hang_up(engine->backend);
    }
    while (engine->templates != NULL) {
        live_close(engine, engine->templates);
    }
    backend_close(engine->backend);
    fd_close(&engine->epoll);
    free(engine);
}
