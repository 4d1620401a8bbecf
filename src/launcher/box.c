/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes, as the launcher sees them; see launcher.h.
 *
 * Life of an entry: SPAWNING (the zygote was asked) -> LIVE (its pidfd is here) -> ENDING (killed,
 * not yet reaped) -> FREE (the zygote reaped it, its cgroup and id block went back). A box that
 * takes long to die is LINGERING before that; one whose descriptors are kept is DEAD until the
 * client releases it.
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
#include "base/str.h"
#include "base/units.h"
#include "box/idmap.h"
#include "box/seccomp.h"
#include "box/setup.h"
#include "box/sys.h"
#include "launcher/launcher.h"

struct box_entry *box_at(struct launcher *l, uint32_t id)
{
    struct box_entry *box = &l->boxes[id % BOXES_MAX];

    if (box->id != id || (box->state != BOX_SPAWNING && box->state != BOX_LIVE)) {
        return NULL;
    }
    return box;
}

static struct box_entry *take_slot(struct launcher *l, struct err *e)
{
    /* The lowest: the rest of the table stays untouched. */
    for (uint32_t slot = 0; slot < BOXES_MAX; slot++) {
        if (l->boxes[slot].state == BOX_FREE) {
            struct box_entry *box = &l->boxes[slot];
            uint32_t id = box->id == 0 ? slot + BOXES_MAX : box->id + BOXES_MAX;
            *box = (struct box_entry){.id = id, .pidfd = -1, .place = -1};
            return box;
        }
    }
    err_set(e, ERR_LIMIT, "at most %d boxes at a time", BOXES_MAX);
    return NULL;
}

static void release_entry(struct launcher *l, struct box_entry *box)
{
    struct template *t = &l->templates[box->template_id];

    l->ending -= box->state == BOX_ENDING;
    l->spawning -= box->state == BOX_SPAWNING;
    fd_close(&box->pidfd);
    fd_close(&box->place);
    box_cgroup_give(t, box->cgroup);
    t->free_blocks[t->n_free_blocks++] = box->block;
    t->boxes--;
    box->cgroup = NULL;
    box->deadline = 0;
    box->state = box->kept != NULL ? BOX_DEAD : BOX_FREE;
}

void box_forget(struct launcher *l, struct box_entry *box)
{
    keep_drop_all(l, box);
    box->state = BOX_FREE;
}

static uint64_t first_id(const struct launcher *l, const struct template *t,
                         const struct box_entry *box)
{
    return l->single_id ? l->client_uid
                        : idmap_ward(t->lease.first) + (uint64_t)box->block * IDMAP_BLOCK;
}

/* As our /proc shows it: without root it is id 0 of our namespace. */
uint64_t box_host_id(const struct launcher *l, const struct template *t,
                     const struct box_entry *box)
{
    return l->single_id ? 0 : first_id(l, t, box) + BOX_UID;
}

void box_describe(struct launcher *l, const struct box_entry *box, uint32_t seq)
{
    const struct template *t = &l->templates[box->template_id];
    struct launcher_rep rep = {
        .event = LAUNCHER_EV_BOX,
        .seq = seq,
        .template_id = box->template_id,
        .box_id = box->id,
        .facts = l->facts,
    };
    const struct seccomp_program *p = &seccomp_programs[t->start.seccomp];

    (void)str_format(rep.facts.seccomp, sizeof(rep.facts.seccomp), "%s:%s", p->name, p->digest);
    rep.facts.id_start = first_id(l, t, box);
    rep.facts.id_count = l->single_id ? 1 : IDMAP_BLOCK;
    rep.facts.zygote_age_ms = box->zygote_age_ms;
    rep.facts.boxes_checked = box->checked;
    rep.facts.can_freeze = box->can_freeze;
    rep.facts.is_frozen = box->is_frozen;
    rep.facts.imports = t->start.imports;
    memcpy(rep.facts.base, t->base, sizeof(rep.facts.base));
    int fds[USAGE_VIEW_FDS];
    size_t n = box->cgroup != NULL ? cgroup_view_export(box->cgroup, &rep.view, fds) : 0;
    reply_with(l, &rep, fds, n);
}

static int send_spawn(const struct launcher *l, const struct template *t,
                      const struct box_entry *box, const struct launcher_req *req,
                      const struct fd_set_msg *fds, struct err *e)
{
    struct zygote_req spawn = {
        .box_id = box->id,
        .block = box->block,
        .mode = req->box.mode,
        .warmth = req->box.warmth,
        .seccomp = t->start.seccomp,
        .landlock_abi = l->facts.landlock_abi,
        .limit_data = !cgroup_host_facts(l->cgroups)->memory,
        .limits = req->box.limits,
    };
    int all[LAUNCHER_BOX_FDS + CGROUP_PROCS_MAX];

    memcpy(all, fds->fds, sizeof(int) * LAUNCHER_BOX_FDS);
    size_t n = LAUNCHER_BOX_FDS + cgroup_procs_fds(box->cgroup, all + LAUNCHER_BOX_FDS);
    /* Does not wait: a zygote that does not read its requests is replaced. */
    ssize_t sent = fd_send(t->socket, &spawn, sizeof(spawn), all, n, MSG_DONTWAIT);
    if (sent == -EAGAIN) {
        (void)sys_pidfd_signal(t->pidfd, SIGKILL);
        return err_set(e, ERR_NOT_FOUND, "the zygote of %s does not read its requests", t->name);
    }
    /* It died a moment ago; its pidfd will report it. */
    if (sent == -EPIPE || sent == -ECONNRESET || sent == -EBADF) {
        return err_set(e, ERR_NOT_FOUND, "the zygote of %s has died", t->name);
    }
    if (sent != (ssize_t)sizeof(spawn)) {
        return err_sys(e, sent < 0 ? (int)-sent : EIO, "ask the zygote of %s", t->name);
    }
    return 0;
}

int box_new(struct launcher *l, const struct launcher_req *req, const struct fd_set_msg *fds,
            struct err *e)
{
    struct template *t = template_at(l, req->template_id);

    if (t->n_free_blocks == 0 || (t->has_writable && t->boxes > 0)) {
        return err_set(
            e, ERR_LIMIT,
            "template %s has %u boxes, its most (max_sessions and max_executions when it "
            "started)",
            t->name, t->boxes);
    }
    if (req->box.mode == LAUNCHER_SESSION && fdlimit_is_low(l, fds)) {
        return err_set(e, ERR_LIMIT,
                       "sessions use nearly all files that husk may open: end one, or raise the "
                       "limit of open files (LimitNOFILE, ulimit -Hn)");
    }
    if (limits_within(&req->box.limits, &t->start.most, e) < 0 || ends_check(fds, e) < 0) {
        return -1;
    }
    struct box_entry *box = take_slot(l, e);
    if (box == NULL) {
        return -1;
    }
    AUTO_CLOSE int place = fcntl(t->pidfd, F_DUPFD_CLOEXEC, 0);
    if (place < 0) {
        return err_sys(e, errno, "reserve a descriptor for a box");
    }
    box->cgroup = box_cgroup_take(l, t, box->id, req, e);
    if (box->cgroup == NULL) {
        return -1;
    }
    box->place = take_fd(&place);
    box->template_id = req->template_id;
    box->probe = t->state == TEMPLATE_STARTING;
    box->zygote_age_ms = (clock_ns() - t->ready) / NS_PER_MS;
    box->checked = t->checked;
    box->is_session = req->box.mode == LAUNCHER_SESSION;
    box->block = t->free_blocks[--t->n_free_blocks];
    box->state = BOX_SPAWNING;
    l->spawning++;
    t->boxes++;
    t->made++;
    if (send_spawn(l, t, box, req, fds, e) < 0) {
        release_entry(l, box);
        return -1;
    }
    box_owed(l, box);
    if (req->box.deadline_ms != 0) {
        box_arm(l, box, req->box.deadline_ms);
    }
    if (req->box.warmth == LAUNCHER_COOL && req->box.deadline_ms == 0) {
        cgroup_fold(box->cgroup, true); /* one of many that wait */
    }
    if (!box->probe) {
        box_describe(l, box, req->seq);
    }
    return 0;
}

void box_end(struct launcher *l, struct box_entry *box, enum launcher_end why)
{
    box->end = why;
    box->deadline = 0;
    if (box->pidfd >= 0) {
        /* The first process of a pid namespace: every other one dies with it. */
        (void)sys_pidfd_signal(box->pidfd, SIGKILL);
        l->ending++;
        box->state = BOX_ENDING;
        box_owed(l, box);
    }
    /* Not started yet: killed as soon as its pidfd arrives. */
}

void box_report_usage(struct launcher *l, const struct box_entry *box,
                      const struct launcher_req *req)
{
    struct launcher_rep rep = {
        .event = LAUNCHER_EV_USAGE,
        .seq = req->seq,
        .template_id = box->template_id,
        .box_id = box->id,
    };

    usage_fill(box, req->usage.disk != 0, &rep.box.usage);
    reply(l, &rep);
}

void box_finish(struct launcher *l, struct box_entry *box, const struct launcher_req *req)
{
    box_report_usage(l, box, req); /* the answer leaves before the teardown */
    box_dismiss(l, box);
}

void box_dismiss(struct launcher *l, struct box_entry *box)
{
    box->silent = true;
    if (inspect_sample(l, box)) {
        box_arm(l, box, INSPECT_MS); /* in case no verdict arrives */
        return;
    }
    box_end(l, box, LAUNCHER_END_FINISHED);
}

static void box_exited(struct launcher *l, struct box_entry *box, const struct zygote_rep *z)
{
    struct launcher_rep rep = {
        .event = LAUNCHER_EV_EXIT,
        .template_id = box->template_id,
        .box_id = box->id,
    };

    if (!box->silent && !box->probe) {
        usage_fill(box, false, &rep.box.usage);
        if (rep.box.usage.memory_peak == 0) { /* no cgroup: use the kernel's count per process */
            rep.box.usage.memory_peak = z->memory_max;
            rep.box.usage.cpu_ns = z->cpu_ns;
        }
        rep.box.wait_status = z->wait_status;
        rep.box.end = box->end;
        bool killed = WIFSIGNALED(z->wait_status) && WTERMSIG(z->wait_status) == SIGKILL;
        if (box->end == LAUNCHER_END_SELF && killed && rep.box.usage.oom_kills > 0) {
            rep.box.end = LAUNCHER_END_OOM;
        }
        if (box->kept != NULL) {
            keep_exit(box, &rep);
        }
        reply(l, &rep);
    } else {
        keep_drop_all(l, box);
    }
    bool was_probe = box->probe;
    release_entry(l, box);
    if (was_probe) {
        template_ready(l, rep.template_id);
    }
}

static void box_born(struct launcher *l, struct box_entry *box, int pidfd)
{
    box->pidfd = pidfd;
    l->spawning--;
    box->state = BOX_LIVE;
    box->zygote_by = 0;
    if (box->end != LAUNCHER_END_SELF) { /* ended before it started */
        box_end(l, box, box->end);
    } else if (box->probe) {
        inspect_born(l, box);
    }
}

/*
 * We signal with rights that a zygote has not, so only the pidfd of a box counts as a start. The
 * reserved number serves the check and then the pidfd.
 */
static bool is_birth(const struct launcher *l, struct box_entry *box, int *pidfd)
{
    fd_close(&box->place);
    return pidfd_is_box(*pidfd) && fdlimit_settle(l, pidfd) == 0;
}

static void box_refused(struct launcher *l, struct box_entry *box, const struct err *e)
{
    struct zygote_rep never = {.wait_status = SIGKILL};

    struct launcher_rep refusal = {
        .event = LAUNCHER_EV_ERROR,
        .template_id = box->template_id,
        .box_id = box->id,
        .err = *e,
    };

    if (box->probe) {
        template_refuse(l, box->template_id, e);
        return;
    }
    reply(l, &refusal);
    box->end = LAUNCHER_END_ZYGOTE;
    box_exited(l, box, &never);
}

/*
 * A box starts once, ends after that, and is refused before. A live one must not be reported as
 * ended: its ids and its cgroup would go to the next box.
 */
static bool is_credible(const struct box_entry *box, const struct zygote_rep *rep)
{
    struct pollfd p = {.fd = box->pidfd, .events = POLLIN};

    if (rep->event == ZYGOTE_REFUSED || rep->event == ZYGOTE_SPAWNED) {
        return !box->was_announced;
    }
    if (rep->event != ZYGOTE_EXITED) {
        return true;
    }
    return box->was_announced && (box->pidfd < 0 || poll(&p, 1, 0) == 1);
}

void box_zygote_event(struct launcher *l, uint32_t template_id, const struct zygote_rep *rep,
                      struct fd_set_msg *fds)
{
    struct box_entry *box = &l->boxes[rep->box_id % BOXES_MAX];
    struct template *t = &l->templates[template_id];

    if (box->state == BOX_FREE || box->state == BOX_DEAD || box->id != rep->box_id ||
        box->template_id != template_id) {
        /* A zygote may report on its own boxes only, and send no descriptors of others. */
        if (rep->event == ZYGOTE_SPAWNED && t->state != TEMPLATE_ENDING) {
            template_lied(l, template_id);
        }
        return;
    }
    if (rep->event != ZYGOTE_SPAWNED) {
        t->worked = clock_ns();
    }
    if (!is_credible(box, rep)) {
        template_lied(l, template_id);
        return;
    }
    switch (rep->event) {
    case ZYGOTE_SPAWNED:
        box->was_announced = true;
        if (box->state == BOX_SPAWNING && is_birth(l, box, &fds->fds[0])) {
            t->worked = clock_ns();
            box_born(l, box, take_fd(&fds->fds[0]));
        }
        break;
    case ZYGOTE_REFUSED:
        box_refused(l, box, &rep->err);
        break;
    case ZYGOTE_EXITED:
        box_exited(l, box, rep);
        break;
    default:
        break;
    }
}

void box_orphaned(struct launcher *l, uint32_t template_id)
{
    struct zygote_rep dead = {.wait_status = SIGKILL};

    for (size_t i = 0; i < BOXES_MAX; i++) {
        struct box_entry *box = &l->boxes[i];
        if (box->state == BOX_FREE || box->template_id != template_id) {
            continue;
        }
        if (box->state != BOX_DEAD) {
            if (box->end == LAUNCHER_END_SELF) {
                box->end = LAUNCHER_END_ZYGOTE;
            }
            box_exited(l, box, &dead);
        }
        box->is_orphan = true;
    }
}
