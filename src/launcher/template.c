/* SPDX-License-Identifier: Apache-2.0 */
/* Templates and their zygotes, as the launcher sees them; see launcher.h. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/units.h"
#include "box/devices.h"
#include "box/idmap.h"
#include "box/seccomp.h"
#include "box/setup.h"
#include "box/sys.h"
#include "launcher/launcher.h"

#define WORDS_AT_ONCE 64    /* of a zygote, before others get their turn */
#define LAST_WORDS_MAX 1024 /* more than a socket holds */

struct template *template_at(struct launcher *l, uint32_t id)
{
    if (id >= TEMPLATES_MAX || l->templates[id].state == TEMPLATE_FREE) {
        return NULL;
    }
    return &l->templates[id];
}

/* Id blocks for boxes: 1 ... boxes_max; block 0 of the lease is the zygote's own. */
static int make_blocks(struct launcher *l, struct template *t, struct err *e)
{
    t->free_blocks = calloc(t->boxes_max, sizeof(*t->free_blocks));
    if (t->free_blocks == NULL) {
        return err_sys(e, ENOMEM, "id blocks");
    }
    for (uint32_t i = 0; i < t->boxes_max; i++) {
        /* Lowest on top. Without root there is only one id for all: block 0. */
        t->free_blocks[i] = l->single_id ? 0 : t->boxes_max - i;
    }
    t->n_free_blocks = t->boxes_max;
    if (l->single_id) {
        return 0;
    }
    return lease_take((t->boxes_max + IDMAP_WARD_BLOCKS) / IDMAP_WARD_BLOCKS, &t->lease, e);
}

int template_begin(struct launcher *l, const struct launcher_req *req, struct err *e)
{
    uint32_t id = 0;

    while (id < TEMPLATES_MAX && l->templates[id].state != TEMPLATE_FREE) {
        id++;
    }
    if (id == TEMPLATES_MAX) {
        return err_set(e, ERR_LIMIT, "at most %d templates at a time", TEMPLATES_MAX);
    }
    struct template *t = &l->templates[id];
    memset(t, 0, sizeof(*t));
    t->pidfd = -1;
    t->socket = -1;
    t->devices = -1;
    t->last_words = -1;
    t->lease.fd = -1;
    t->verdict = -1;
    t->probe = -1;
    t->boxes_max = req->template.boxes;
    t->definition = req->template.definition;
    t->modules = req->template.modules;
    t->preload = req->template.preload;
    memcpy(t->name, req->template.name, sizeof(t->name));
    memcpy(t->base, req->template.base, sizeof(t->base));
    if (make_blocks(l, t, e) < 0 || guard_hold(l, id, e) < 0) {
        lease_drop(&t->lease);
        free(t->free_blocks);
        memset(t, 0, sizeof(*t));
        return -1;
    }
    t->state = TEMPLATE_BUILDING;
    return (int)id;
}

/*
 * A mount may show its owner as the box's user: the operator that lends it is root or that owner.
 * Never if that is root: a box must not act as host id 0.
 */
static int decide_owner(const struct launcher *l, const struct template *t,
                        const struct launcher_req *req, int fd, struct root_owner *ret,
                        struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return err_sys(e, errno, "stat the source of %s", req->place.path);
    }
    *ret = (struct root_owner){
        /* An id map fits the ids of one box: only what is made for a single run may have one. */
        .map = !l->single_id && st.st_uid != 0 && st.st_gid != 0 && t->boxes_max == 1 &&
               (req->place.kind == LAUNCHER_WRITABLE || (st.st_mode & S_IROTH) == 0),
        .same_user = l->single_id,
        .uid = st.st_uid,
        .gid = st.st_gid,
        .box_uid = idmap_ward(t->lease.first) + IDMAP_BLOCK + BOX_UID,
    };
    /* Without root we are one user with our client, and id 0 in here; all others look the same. */
    if (req->place.kind != LAUNCHER_WRITABLE || (l->single_id && st.st_uid == 0)) {
        return 0;
    }
    if (l->single_id) {
        return err_set(e, ERR_INVALID, "%s: only the owner of a directory can lend it for writing",
                       req->place.path);
    }
    if (st.st_uid == 0 || st.st_gid == 0) {
        return err_set(
            e, ERR_INVALID,
            "%s: the mounted directory belongs to root (user or group), so a box may only "
            "read it: add :ro, or give the directory to an ordinary user and group",
            req->place.path);
    }
    return 0;
}

int template_mount(struct launcher *l, const struct launcher_req *req, int fd, struct err *e)
{
    struct template *t = &l->templates[req->template_id]; /* permit.c has looked */
    struct root_owner owner;
    bool writable = req->place.kind == LAUNCHER_WRITABLE;

    if (req->place.kind == LAUNCHER_COPY) {
        return root_plan_copy(&t->plan, fd, req->place.path, e);
    }
    if (decide_owner(l, t, req, fd, &owner, e) < 0) {
        return -1;
    }
    t->has_writable = t->has_writable || writable;
    return root_plan_mount(&t->plan, fd, req->place.path, writable, &owner, e);
}

/* What a zygote may use while it imports modules, and afterwards. */
static int make_zygote_cgroup(struct launcher *l, struct template *t, uint32_t id, struct err *e)
{
    struct limits limits = {.memory_bytes =
                                t->start.memory_bytes != 0 ? t->start.memory_bytes : ZYGOTE_MEMORY,
                            .cpu_milli = ZYGOTE_CPU_MILLI,
                            .pids = ZYGOTE_PIDS};
    char name[64];

    limits_fill(&limits);
    (void)str_format(name, sizeof(name), "zygote-%u-%u", id, ++l->generation);
    return cgroup_new(l->cgroups, name, &t->cgroup, e) < 0 ||
                   cgroup_set_limits(t->cgroup, &limits, e) < 0
               ? -1
               : 0;
}

static void arm_start(struct launcher *l, struct template *t)
{
    uint64_t ms = t->start.patience_ms != 0 ? t->start.patience_ms : ZYGOTE_START_MS;

    t->start_deadline = clock_ns() + ms * NS_PER_MS;
    if (l->next_deadline == 0 || t->start_deadline < l->next_deadline) {
        l->next_deadline = t->start_deadline;
    }
}

int template_start(struct launcher *l, uint32_t id, uint32_t seq,
                   const struct launcher_start *start, struct err *e)
{
    struct template *t = &l->templates[id]; /* permit.c has looked */

    if (start->seccomp >= seccomp_programs_n) {
        return err_set(e, ERR_INVALID, "there is no seccomp profile %u", start->seccomp);
    }
    t->start = *start;
    if (t->plan.n_args == 0) {
        return err_set(e, ERR_INVALID, "the template has no program");
    }
    if (root_plan_writable(&t->plan, e) < 0) {
        return -1;
    }
    if (!l->single_id) {
        t->devices = devices_mount(e);
        if (t->devices < 0) {
            return -1;
        }
    }
    t->last_words = last_words_open(e);
    if (t->last_words < 0) {
        return -1;
    }
    if (make_zygote_cgroup(l, t, id, e) < 0 || zygote_clone(l, t, e) < 0 ||
        guard_hold(l, id, e) < 0) {
        return -1;
    }
    t->state = TEMPLATE_STARTING;
    t->start_seq = seq;
    arm_start(l, t);
    return 0;
}

static void answer_start(struct launcher *l, struct template *t, uint32_t id, const struct err *e)
{
    struct launcher_rep rep = {.event = LAUNCHER_EV_OK, .seq = t->start_seq, .template_id = id};

    if (e == NULL) {
        t->state = TEMPLATE_RUNNING;
        t->start_deadline = 0;
        fd_close(&t->devices);
        fd_close(&t->last_words);
        root_plan_release(&t->plan); /* the mounts live in the zygote's namespace now */
        reply(l, &rep);
    } else {
        reply_error(l, t->start_seq, id, e);
    }
}

/* Frees everything. The zygote, if there was one, is dead. */
static void template_clear(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];

    if (t->pidfd >= 0) {
        (void)waitid(P_PIDFD, (id_t)t->pidfd, NULL, WEXITED);
    }
    inspect_end(t);
    box_orphaned(l, id);
    fd_close(&t->pidfd);
    fd_close(&t->socket);
    fd_close(&t->devices);
    fd_close(&t->last_words);
    box_cgroup_free_all(t);
    cgroup_free(t->cgroup);
    guard_drop(l, id);
    lease_drop(&t->lease);
    root_plan_release(&t->plan);
    free(t->free_blocks);
    memset(t, 0, sizeof(*t));
}

/*
 * A box can leave the kernel minutes of work to do before its zygote is gone: nobody else may wait
 * for that. A zygote without boxes goes at once.
 */
void template_stop(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];

    if (t->pidfd >= 0) {
        (void)sys_pidfd_signal(t->pidfd, SIGKILL);
    }
    if (t->boxes == 0) {
        template_clear(l, id);
        return;
    }
    t->state = TEMPLATE_ENDING;
    t->start_deadline = 0;
    box_doom(l, id);
}

void template_await(struct launcher *l, uint32_t id)
{
    if (l->templates[id].state == TEMPLATE_ENDING) {
        template_clear(l, id);
    }
}

void template_refuse(struct launcher *l, uint32_t id, const struct err *e)
{
    struct template *t = &l->templates[id];
    struct err why = *e;

    err_wrap(&why, "template %s", t->name);
    reply_error(l, t->start_seq, id, &why);
    template_stop(l, id);
}

void template_ready(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];

    if (t->state == TEMPLATE_STARTING && t->start.imports && t->checked == 0) {
        struct err e = {0};
        err_set(&e, ERR_ISOLATION, "its first box ended while it was set up");
        template_refuse(l, id, &e);
    } else if (t->state == TEMPLATE_STARTING) {
        t->ready = clock_ns();
        answer_start(l, t, id, NULL);
    }
}

/*
 * A process that a preload left behind would live on beside the boxes, and a thread would hold
 * locks that no fork has.
 */
static int check_alone(const struct template *t, struct err *e)
{
    uint64_t n = cgroup_processes(t->cgroup);

    return n <= 1 ? 0
                  : err_set(e, ERR_TEMPLATE,
                            "its preloads left %" PRIu64 " processes or threads running", n - 1);
}

static void zygote_says(struct launcher *l, uint32_t id, struct zygote_rep *rep,
                        struct fd_set_msg *fds)
{
    struct template *t = &l->templates[id];

    switch (rep->event) {
    case ZYGOTE_READY:
        if (t->said_ready) {
            template_lied(l, id);
            break;
        }
        t->said_ready = true;
        if (t->state == TEMPLATE_STARTING && check_alone(t, &rep->err) < 0) {
            template_refuse(l, id, &rep->err);
        } else if (t->state == TEMPLATE_STARTING && !t->start.imports) {
            template_ready(l, id); /* nothing but our own code has run in it */
        } else if (t->state == TEMPLATE_STARTING && inspect_probe(l, id, &rep->err) < 0) {
            template_refuse(l, id, &rep->err);
        }
        break;
    case ZYGOTE_BROKEN:
        if (t->state == TEMPLATE_STARTING) {
            template_refuse(l, id, &rep->err);
        }
        break;
    default:
        box_zygote_event(l, id, rep, fds);
        break;
    }
}

void template_lied(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];

    (void)sys_pidfd_signal(t->pidfd, SIGKILL);
    fd_close(&t->socket);
}

/* At most so many: one that talks without end must not keep us from all the others. */
static void hear(struct launcher *l, uint32_t id, int most)
{
    struct template *t = &l->templates[id];
    struct zygote_rep rep;

    for (int i = 0; i < most && t->state >= TEMPLATE_STARTING && t->socket >= 0; i++) {
        struct fd_set_msg fds = {.n = 0};
        ssize_t n = files_recv(l, t->socket, &rep, sizeof(rep), &fds);
        if (n == -EAGAIN) {
            return;
        }
        if (n <= 0 || !zygote_rep_check(&rep, (size_t)n, fds.n)) {
            /*
             * Gone, or it says what no zygote of ours says: its death is then handled like any
             * other. It may take a while, in which its socket would keep us awake.
             */
            fd_set_release(&fds);
            template_lied(l, id);
            return;
        }
        zygote_says(l, id, &rep, &fds);
        fd_set_release(&fds);
    }
}

void template_serve(struct launcher *l, uint32_t id)
{
    hear(l, id, WORDS_AT_ONCE);
}

static void explain_death(const struct template *t, struct err *ret)
{
    char words[160];

    last_words_read(t->last_words, words, sizeof(words));
    const char *colon = words[0] != '\0' ? ": " : "";
    if (t->start_deadline == 0) {
        err_set(ret, ERR_TEMPLATE, "template %s: its zygote was not ready after %" PRIu64 " s%s%s",
                t->name,
                (t->start.patience_ms != 0 ? t->start.patience_ms : ZYGOTE_START_MS) / 1000, colon,
                words);
    } else if (cgroup_oom_kills(t->cgroup) > 0) {
        err_set(ret, ERR_TEMPLATE,
                "template %s: importing its modules takes more than %" PRIu64
                " MiB (preload_memory in the template)%s%s",
                t->name, (t->start.memory_bytes != 0 ? t->start.memory_bytes : ZYGOTE_MEMORY) / MIB,
                colon, words);
    } else {
        err_set(ret, ERR_TEMPLATE, "template %s: its zygote died while starting%s%s", t->name,
                colon, words);
    }
}

void template_died(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];
    struct launcher_rep gone = {.event = LAUNCHER_EV_GONE, .template_id = id};
    struct err e;

    /* What it managed to say comes first: most of all why it is broken. */
    hear(l, id, LAST_WORDS_MAX);
    if (t->state == TEMPLATE_STARTING) {
        explain_death(t, &e);
        answer_start(l, t, id, &e);
    } else if (t->state == TEMPLATE_RUNNING) {
        reply(l, &gone);
    }
    if (t->state == TEMPLATE_STARTING || t->state == TEMPLATE_RUNNING) {
        template_stop(l, id);
    }
}
