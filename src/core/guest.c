/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our end of a box: made, watched until it is ready, finished, freed; see engine_impl.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "core/engine_impl.h"

#define EXIT_PATIENCE_MS 6000 /* longer than the launcher waits for a zygote */

uint64_t guest_name(const struct guest *g)
{
    return ((uint64_t)g->facts.instance << 32) | g->box_id;
}

void guest_wake(struct guest *g)
{
    for (struct guest_waiter *w = g->waiters; w != NULL; w = w->next) {
        fiber_wake(w->fiber);
    }
}

/* Its runs see that and end it; without a run it is ended here. */
static void on_lost(void *user)
{
    struct guest *g = user;

    if (g->runs == 0) {
        guest_kill(g->engine, g);
    }
    guest_wake(g);
}

void guest_open_share(struct guest *g)
{
    budget_open(&g->engine->budget, &g->share, g->limits.memory_bytes, on_lost, g);
}

static void break_guest(struct guest *g, const char *why)
{
    g->state = GUEST_BROKEN;
    (void)str_copy(g->failure, sizeof(g->failure), why);
}

/* From here on events about this box find the guest. */
static void on_born(void *user, struct backend_birth *birth)
{
    struct guest *g = user;
    struct epoll_event in = {.events = EPOLLIN, .data.ptr = g};

    g->box_id = birth->id;
    g->created_ms = clock_wall_ms();
    g->facts = *birth->facts;
    g->counters = *birth->counters;
    birth->counters->n = 0;
    if (birth->view->n == g->counters.n && cgroup_view_check(birth->view)) {
        g->view = *birth->view;
    }
    channel_init(&g->control, take_fd(&birth->ends[BACKEND_CONTROL]));
    g->control.share = &g->share;
    g->in = take_fd(&birth->ends[BACKEND_STDIN]);
    g->out = take_fd(&birth->ends[BACKEND_STDOUT]);
    g->err = take_fd(&birth->ends[BACKEND_STDERR]);
    g->engine->guests[g->box_id % ENGINE_BOXES_MAX] = g;
    if (g->control.fd >= 0 && epoll_ctl(g->engine->epoll, EPOLL_CTL_ADD, g->control.fd, &in) < 0) {
        break_guest(g, "the box cannot be watched");
    }
}

/* Without ends yet, and known to no back end. NULL: no memory. */
static struct guest *new_guest(struct engine *engine, struct live_template *live)
{
    struct guest *g = calloc(1, sizeof(*g));

    if (g != NULL) {
        g->engine = engine;
        g->live = live;
        g->usage.disk_free = UINT64_MAX; /* not known */
        g->usage.inodes_free = UINT64_MAX;
        g->in = g->out = g->err = -1;
        channel_init(&g->control, -1);
    }
    return g;
}

struct guest *guest_make(struct engine *engine, struct live_template *live,
                         const struct guest_options *options, struct err *e)
{
    const struct backend_guest spec = {.template_id = live->id,
                                       .limits = options->limits,
                                       .mode = options->mode,
                                       .warmth = options->warmth,
                                       .deadline_ms = options->deadline_ms};

    struct guest *g = new_guest(engine, live);
    if (g == NULL) {
        err_sys(e, ENOMEM, "box");
        return NULL;
    }
    g->pool = options->pool;
    g->was_pooled = g->pool != NULL;
    g->cool = options->warmth == LAUNCHER_COOL;
    g->limits = options->limits;
    guest_open_share(g);
    if (backend_make_guest(engine->backend, &spec, on_born, g, e) < 0) {
        guest_free(engine, g);
        return NULL;
    }
    live->made++;
    return g;
}

struct guest *guest_adopt(struct engine *engine, struct live_template *live,
                          struct backend_birth *birth)
{
    struct guest *g = new_guest(engine, live);

    if (g != NULL) {
        on_born(g, birth);
    }
    return g;
}

void guest_kill(struct engine *engine, const struct guest *g)
{
    backend_kill(engine->backend, g->box_id);
}

void guest_free(struct engine *engine, struct guest *g)
{
    if (g == NULL) {
        return;
    }
    if (engine->guests[g->box_id % ENGINE_BOXES_MAX] == g) {
        engine->guests[g->box_id % ENGINE_BOXES_MAX] = NULL;
        guest_kill(engine, g);
    }
    guest_unwatch(engine, g); /* the launcher may hold a copy: closing ours would not do it */
    channel_release(&g->control);
    budget_close(&g->share);
    fd_set_release(&g->counters);
    fd_close(&g->in);
    fd_close(&g->out);
    fd_close(&g->err);
    free(g);
}

void guest_forget(struct engine *engine, const struct guest *g)
{
    if (engine->guests[g->box_id % ENGINE_BOXES_MAX] == g) {
        engine->guests[g->box_id % ENGINE_BOXES_MAX] = NULL;
    }
}

void guest_unwatch(struct engine *engine, struct guest *g)
{
    (void)epoll_ctl(engine->epoll, EPOLL_CTL_DEL, g->control.fd, NULL); /* twice does no harm */
}

int guest_listen(struct engine *engine, struct guest *g, struct err *e)
{
    struct epoll_event in = {.events = EPOLLIN, .data.ptr = g};

    channel_keep_small(&g->control);
    g->has_contexts = true;
    if (epoll_ctl(engine->epoll, EPOLL_CTL_ADD, g->control.fd, &in) < 0 && errno != EEXIST) {
        return err_sys(e, errno, "watch a box");
    }
    return 0;
}

static void note_failure(struct guest *g, const char *body, size_t len)
{
    struct frame_field f;

    break_guest(g, "the box could not be set up");
    for (size_t at = 0; frame_next(body, len, &at, &f) > 0;) {
        if (f.key == KEY_ERROR_MESSAGE) {
            str_printable(g->failure, sizeof(g->failure), f.data, f.len);
        }
    }
}

void guest_serve_start(struct guest *g)
{
    struct frame_head head;
    const char *body;

    if (g->state != GUEST_STARTING) {
        return;
    }
    int r = channel_frame(&g->control, &head, &body);
    if (r == 0) {
        return;
    }
    if (r < 0) {
        break_guest(g, "the box ended before it was ready");
        g->is_silent = true;
        return;
    }
    if (head.type == FRAME_READY) {
        g->state = GUEST_READY;
    } else {
        note_failure(g, body, head.type == FRAME_FAILED ? head.len : 0);
    }
    channel_drop(&g->control, &head);
}

void guest_counters(const struct guest *g, struct launcher_usage *ret)
{
    struct cgroup_usage u;

    cgroup_view_usage(&g->view, g->counters.fds, &u);
    *ret = (struct launcher_usage){
        .cpu_ns = u.cpu_ns,
        .memory_peak = u.memory_peak,
        .io_read = u.io_read,
        .io_write = u.io_write,
        .oom_kills = u.oom_kills,
        .processes = u.pids_now,
        .disk_free = UINT64_MAX,
        .inodes_free = UINT64_MAX,
    };
}

bool guest_cpu_ns(const struct guest *g, uint64_t *ret)
{
    return g->view.n > 0 && cgroup_view_cpu_ns(&g->view, g->counters.fds, ret);
}

/* The counters are open here: no process has to be asked. */
static int finish_by_view(struct engine *engine, struct guest *g, struct err *e)
{
    guest_counters(g, &g->usage);
    guest_forget(engine, g);
    g->release_later = engine->releaser != NULL;
    return g->release_later ? 0 : backend_release(engine->backend, g->box_id, e);
}

int guest_await_exit(struct engine *engine, struct guest *g, struct err *e)
{
    uint64_t until = clock_ms() + EXIT_PATIENCE_MS;

    while (!g->exited && clock_ms() < until) {
        if (engine_poll(engine, g, NULL, 0, EXIT_PATIENCE_MS, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int guest_usage(struct engine *engine, const struct guest *g, bool want_disk,
                struct launcher_usage *ret, struct err *e)
{
    if (g->view.n > 0 && !want_disk) {
        guest_counters(g, ret);
        return 0;
    }
    if (backend_usage(engine->backend, g->box_id, want_disk, ret, e) < 0) {
        return e->code == ERR_NOT_FOUND ? engine_dispatch(engine, e) : -1;
    }
    return 0;
}

/*
 * Without cgroups only a process's own end tells what it used: let it end by itself, which it does
 * when its control socket closes, and take the numbers from its EXIT event.
 */
static int finish_by_exit(struct engine *engine, struct guest *g, bool want_disk, struct err *e)
{
    struct launcher_usage now = {.disk_free = UINT64_MAX, .inodes_free = UINT64_MAX};

    if (want_disk && guest_usage(engine, g, true, &now, e) < 0) {
        return -1;
    }

    channel_release(&g->control);
    if (guest_await_exit(engine, g, e) < 0) {
        return -1;
    }
    g->usage.disk_free = now.disk_free;
    g->usage.inodes_free = now.inodes_free;
    return 0;
}

int guest_finish(struct engine *engine, struct guest *g, bool want_disk, struct err *e)
{
    if (str_eq(g->facts.cgroup, "none")) {
        return finish_by_exit(engine, g, want_disk, e);
    }
    if (g->view.n > 0 && !want_disk) {
        return finish_by_view(engine, g, e);
    }
    if (backend_finish(engine->backend, g->box_id, want_disk, &g->usage, e) == 0) {
        guest_forget(engine, g);
        return 0;
    }
    if (e->code != ERR_NOT_FOUND) {
        return -1;
    }
    /*
     * It is ending by itself, or the launcher has ended it: the EXIT event is here or on its way.
     */
    return guest_await_exit(engine, g, e);
}
