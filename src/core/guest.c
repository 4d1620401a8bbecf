/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our end of a box: made, watched until it is ready, finished, freed; see engine.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "core/engine_impl.h"

#define EXIT_PATIENCE_MS 6000 /* longer than the launcher waits for a zygote */

struct ends {
    int ours[4]; /* control, stdin, stdout, stderr */
    int theirs[4];
};

static void close_all(int fds[4])
{
    for (int i = 0; i < 4; i++) {
        fd_close(&fds[i]);
    }
}

static int make_ends(struct ends *ends, struct err *e)
{
    int pair[2];

    for (int i = 0; i < 4; i++) {
        ends->ours[i] = ends->theirs[i] = -1;
    }
    int r = fd_pair_for_box(pair);
    if (r < 0) {
        return err_sys(e, -r, "control socket");
    }
    ends->ours[0] = pair[0];
    ends->theirs[0] = pair[1];
    for (int i = 1; i < 4; i++) {
        if (pipe2(pair, O_CLOEXEC) < 0) {
            return err_sys(e, errno, "pipe");
        }
        ends->ours[i] = i == 1 ? pair[1] : pair[0];
        ends->theirs[i] = i == 1 ? pair[0] : pair[1];
        /* Only our side: the flag sits on the pipe end, and programs expect theirs to block. */
        if (fcntl(ends->ours[i], F_SETFL, O_NONBLOCK) < 0) {
            return err_sys(e, errno, "pipe");
        }
    }
    return 0;
}

void guest_wake(struct guest *g)
{
    for (struct guest_waiter *w = g->waiters; w != NULL; w = w->next) {
        fiber_wake(w->fiber);
    }
}

/* Its runs see that and end; without one nobody would. */
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

/* The launcher's answer: from here on its events about this box find the guest. */
static void on_born(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds)
{
    struct guest *g = user;

    g->box_id = rep->box_id;
    g->created_ms = clock_wall_ms();
    g->facts = rep->facts;
    g->counters = *fds;
    fds->n = 0;
    if (rep->view.n == g->counters.n && cgroup_view_check(&rep->view)) {
        g->view = rep->view;
    }
    g->engine->guests[g->box_id % ENGINE_BOXES_MAX] = g;
}

static struct guest *make_guest(struct engine *engine, struct live_template *live,
                                const struct guest_options *options, struct ends *ends,
                                struct err *e)
{
    struct guest *g = calloc(1, sizeof(*g));
    struct epoll_event in = {.events = EPOLLIN, .data.ptr = g};

    if (g == NULL) {
        err_sys(e, ENOMEM, "box");
        return NULL;
    }
    g->engine = engine;
    g->live = live;
    g->pool = options->pool;
    g->cool = options->warmth == LAUNCHER_COOL;
    g->limits = options->limits;
    g->usage.disk_free = UINT64_MAX; /* not known */
    g->usage.inodes_free = UINT64_MAX;
    guest_open_share(g);
    channel_init(&g->control, take_fd(&ends->ours[0]));
    g->control.share = &g->share;
    g->in = take_fd(&ends->ours[1]);
    g->out = take_fd(&ends->ours[2]);
    g->err = take_fd(&ends->ours[3]);
    if (epoll_ctl(engine->epoll, EPOLL_CTL_ADD, g->control.fd, &in) < 0) {
        err_sys(e, errno, "epoll");
        guest_free(engine, g);
        return NULL;
    }
    return g;
}

static struct guest *guest_new(struct engine *engine, struct live_template *live,
                               const struct guest_options *options, struct err *e)
{
    struct launcher_req req = {
        .op = LAUNCHER_BOX,
        .template_id = live->id,
        .box = {.limits = options->limits,
                .deadline_ms = options->deadline_ms,
                .mode = options->mode,
                .warmth = options->warmth},
    };
    struct ends ends;
    struct guest *g = NULL;

    if (make_ends(&ends, e) == 0) {
        g = make_guest(engine, live, options, &ends, e);
    }
    FAULT_POINT("box.asked.before");
    if (g != NULL && native_box(engine->native, &req, ends.theirs, on_born, g, e) < 0) {
        guest_free(engine, g);
        g = NULL;
    }
    live->made += g != NULL;
    FAULT_POINT("box.born");
    close_all(ends.theirs);
    close_all(ends.ours);
    return g;
}

struct guest *guest_adopt(struct engine *engine, struct live_template *live,
                          const struct launcher_rep *rep, struct fd_set_msg *counters)
{
    struct guest *g = calloc(1, sizeof(*g));

    if (g != NULL) {
        g->engine = engine;
        g->live = live;
        g->in = g->out = g->err = -1;
        channel_init(&g->control, -1);
        on_born(g, rep, counters);
    }
    return g;
}

struct guest *guest_start(struct engine *engine, struct live_template *live,
                          const struct guest_options *options, struct err *e)
{
    if (live_start(engine, live, NULL, 0, e) < 0) {
        return NULL;
    }
    struct guest *g = guest_new(engine, live, options, e);
    if (g != NULL || e->code != ERR_NOT_FOUND || live->one_off) {
        return g;
    }
    /* The zygote died so recently that the news was still on its way. */
    e->code = ERR_NONE;
    if (engine_dispatch(engine, e) < 0 || live_start(engine, live, NULL, 0, e) < 0) {
        return NULL;
    }
    g = guest_new(engine, live, options, e);
    if (g == NULL && e->code == ERR_NOT_FOUND) { /* it is no name that the caller got wrong */
        err_set(e, ERR_TEMPLATE, "template %s: its zygotes die as soon as they are ready",
                live->name);
    }
    return g;
}

void guest_kill(struct engine *engine, const struct guest *g)
{
    struct launcher_req kill = {.op = LAUNCHER_KILL, .box_id = g->box_id};
    struct err ignored;

    (void)native_send(engine->native, &kill, NULL, 0, &ignored); /* gone is as good */
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
    channel_release(&g->control); /* leaves the epoll set with it */
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

static void note_failure(struct guest *g, const char *body, size_t len)
{
    struct frame_field f;

    g->state = GUEST_BROKEN;
    (void)str_copy(g->failure, sizeof(g->failure), "the box could not be set up");
    for (size_t at = 0; frame_next(body, len, &at, &f) > 0;) {
        if (f.key == KEY_ERROR_MESSAGE) {
            str_printable(g->failure, sizeof(g->failure), f.data, f.len);
        }
    }
}

void guest_unwatch(struct engine *engine, struct guest *g)
{
    (void)epoll_ctl(engine->epoll, EPOLL_CTL_DEL, g->control.fd, NULL); /* twice does no harm */
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
        g->state = GUEST_BROKEN;
        (void)str_copy(g->failure, sizeof(g->failure), "the box ended before it was ready");
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
        .pids_peak = u.pids_peak,
        .disk_free = UINT64_MAX,
        .inodes_free = UINT64_MAX,
    };
}

/* The counters are here: nobody has to be asked, and nobody waited for. */
static int finish_by_view(struct engine *engine, struct guest *g, struct err *e)
{
    struct launcher_req release = {.op = LAUNCHER_RELEASE, .box_id = g->box_id};

    guest_counters(g, &g->usage);
    guest_forget(engine, g);
    g->release_later = engine->undertaker != NULL;
    return g->release_later ? 0 : native_send(engine->native, &release, NULL, 0, e);
}

/* Waits for a box's EXIT event. One that stays is killed when it is freed. */
static int await_exit(struct engine *engine, struct guest *g, struct err *e)
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
    struct launcher_req req = {.op = LAUNCHER_USAGE, .box_id = g->box_id, .usage.disk = want_disk};
    struct launcher_rep rep;

    if (g->view.n > 0 && !want_disk) {
        guest_counters(g, ret);
        return 0;
    }
    if (native_call(engine->native, &req, NULL, 0, &rep, e) < 0) {
        return e->code == ERR_NOT_FOUND ? engine_dispatch(engine, e) : -1;
    }
    *ret = rep.box.usage;
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
    if (await_exit(engine, g, e) < 0) {
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
    struct launcher_req req = {.op = LAUNCHER_FINISH, .box_id = g->box_id, .usage.disk = want_disk};
    struct launcher_rep rep;

    if (native_call(engine->native, &req, NULL, 0, &rep, e) == 0) {
        g->usage = rep.box.usage;
        engine->guests[g->box_id % ENGINE_BOXES_MAX] = NULL;
        return 0;
    }
    if (e->code != ERR_NOT_FOUND) {
        return -1;
    }
    /*
     * It is ending by itself, or the launcher has ended it: the EXIT event is here or on its way.
     */
    return await_exit(engine, g, e);
}
