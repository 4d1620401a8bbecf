/* SPDX-License-Identifier: Apache-2.0 */
/* Templates until their zygote runs: ids, parts of the root, the start; see launcher.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "base/units.h"
#include "box/devices.h"
#include "box/idmap.h"
#include "box/seccomp.h"
#include "box/setup.h"
#include "launcher/launcher.h"

#define WARDS_LEAST 2 /* of a small template: 127 boxes */

struct template *template_at(struct launcher *l, uint32_t id)
{
    struct template *t = id < TEMPLATES_MAX ? &l->templates[id] : NULL;

    return t != NULL && t->state != TEMPLATE_FREE && t->state != TEMPLATE_ENDING ? t : NULL;
}

/*
 * A template that wants many leaves some for each that may follow, or the first few would have all:
 * the client asks again for fewer.
 */
static int take_lease(const struct launcher *l, struct template *t, struct err *e)
{
    uint32_t wards = (t->boxes_max + IDMAP_WARD_BLOCKS) / IDMAP_WARD_BLOCKS;
    uint32_t taken = 0;
    uint32_t others = 0;

    for (size_t i = 0; i < TEMPLATES_MAX; i++) {
        taken += l->templates[i].lease.wards; /* 0 for t, and for a free slot */
        others += l->templates[i].state == TEMPLATE_FREE && &l->templates[i] != t;
    }
    uint32_t left = wards > WARDS_LEAST ? MIN(others * WARDS_LEAST, LEASE_WARDS_MOST / 2u) : 0;
    if (taken + wards + left > LEASE_WARDS_MOST) {
        return err_set(e, ERR_LIMIT,
                       "the host ids of one launcher are in use: stop a template, or allow fewer "
                       "sessions and executions (max_sessions, max_executions)");
    }
    return lease_take(wards, &t->lease, e);
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
    return l->single_id ? 0 : take_lease(l, t, e);
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
    if (l->supervised) {
        template_arm(l, t, ASK_MS); /* an unfinished template must not hold ids for long */
    }
    return (int)id;
}

/*
 * A mount may show its owner as the box's user: the operator that lends it is root or that owner.
 * Never if the owner is root: a box must not act as host id 0.
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
        /* An id map fits the ids of one box: only a template for a single box may have one. */
        .map = !l->single_id && st.st_uid != 0 && st.st_gid != 0 && t->boxes_max == 1 &&
               (req->place.kind == LAUNCHER_WRITABLE || (st.st_mode & S_IROTH) == 0),
        .same_user = l->single_id,
        .uid = st.st_uid,
        .gid = st.st_gid,
        .box_uid = idmap_ward(t->lease.first) + IDMAP_BLOCK + BOX_UID,
    };
    /* Without root our client's id is ours, 0 in this namespace; all others look the same. */
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
    struct template *t = &l->templates[req->template_id]; /* permit.c has checked it */
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

int template_start(struct launcher *l, uint32_t id, uint32_t seq,
                   const struct launcher_start *start, struct err *e)
{
    struct template *t = &l->templates[id]; /* permit.c has checked id */

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
    template_arm(l, t, t->start.patience_ms != 0 ? t->start.patience_ms : ZYGOTE_START_MS);
    return 0;
}
