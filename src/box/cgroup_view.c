/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a box's counters elsewhere: the descriptors are handed over, with a note of what each
 * one is.
 *
 * Only counters are handed over, no limits, and all but one of them read-only. The exception is the
 * peak of memory, which its reader resets when a cell begins. In v2 that holds for its descriptor
 * only; in v1 for every reader, and there is no other.
 */
#include <string.h>

#include "base/str.h"
#include "box/cgroup_impl.h"

_Static_assert(sizeof(struct cgroup_usage) == sizeof(((struct usage_view *)0)->base),
               "as many counters");

bool cg_is_counter(const char *name)
{
    static const char *const names[] = {"memory.max_usage_in_bytes",
                                        "memory.peak",
                                        "memory.oom_control",
                                        "memory.events",
                                        "cpu.stat",
                                        "cpuacct.usage",
                                        "pids.current",
                                        "io.stat"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_eq(name, names[i])) {
            return true;
        }
    }
    return false;
}

size_t cgroup_view_export(const struct cgroup *cg, struct usage_view *ret, int fds[USAGE_VIEW_FDS])
{
    *ret = (struct usage_view){.n = 0};
    memcpy(ret->base, &cg->base, sizeof(ret->base));
    for (size_t r = 0; r < CG_RESOURCES; r++) {
        const struct cg_part *p = &cg->parts[r];
        for (size_t i = 0; p->ops != NULL && i < CG_PART_FILES; i++) {
            const struct cg_file *file = &p->ops->files[i];
            if (file->name == NULL || file->is_own || p->fd[i] < 0 || !cg_is_counter(file->name) ||
                ret->n == USAGE_VIEW_FDS) {
                continue;
            }
            ret->items[ret->n].resource = (uint8_t)r;
            ret->items[ret->n].file = (uint8_t)i;
            ret->items[ret->n].unified = p->ops == cg_v2_ops[r];
            fds[ret->n++] = p->fd[i];
        }
    }
    return ret->n;
}

bool cgroup_view_check(const struct usage_view *v)
{
    if (v->n > USAGE_VIEW_FDS) {
        return false;
    }
    for (size_t i = 0; i < v->n; i++) {
        if (v->items[i].resource >= CG_RESOURCES || v->items[i].file >= CG_PART_FILES) {
            return false;
        }
    }
    return true;
}

/* A cgroup of which only the counters are there. */
static void from_view(const struct usage_view *v, const int *fds, struct cgroup *ret)
{
    memset(ret, 0, sizeof(*ret));
    memcpy(&ret->base, v->base, sizeof(ret->base));
    for (size_t r = 0; r < CG_RESOURCES; r++) {
        memset(ret->parts[r].fd, -1, sizeof(ret->parts[r].fd));
    }
    for (size_t i = 0; i < v->n; i++) {
        struct cg_part *p = &ret->parts[v->items[i].resource];
        p->ops = v->items[i].unified != 0 ? cg_v2_ops[v->items[i].resource]
                                          : cg_v1_ops[v->items[i].resource];
        p->fd[v->items[i].file] = fds[i];
    }
}

void cgroup_view_usage(const struct usage_view *v, const int *fds, struct cgroup_usage *ret)
{
    struct cgroup cg;

    from_view(v, fds, &cg);
    cgroup_usage(&cg, ret);
}

bool cgroup_view_reset_peak(const struct usage_view *v, const int *fds)
{
    for (size_t i = 0; i < v->n; i++) {
        if (v->items[i].resource == CG_MEMORY && v->items[i].file == CG_MEMORY_PEAK) {
            return cg_rewrite(fds[i], "0") == 0;
        }
    }
    return false;
}

uint64_t cgroup_view_oom_kills(const struct usage_view *v, const int *fds)
{
    struct cgroup cg;

    from_view(v, fds, &cg);
    return cgroup_oom_kills(&cg);
}

bool cgroup_view_cpu_ns(const struct usage_view *v, const int *fds, uint64_t *ret)
{
    struct cgroup_usage usage = {.cpu_ns = 0};
    struct cgroup cg;

    from_view(v, fds, &cg);
    const struct cg_part *p = &cg.parts[CG_CPUACCT];
    if (p->ops == NULL) {
        return false;
    }
    p->ops->usage(p, &usage);
    *ret = usage.cpu_ns;
    return true;
}
