/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups for boxes, on v2, v1 and hybrid hosts alike.
 *
 * A cgroup_host is our own parent directory in every hierarchy that we use; a cgroup is one box's
 * directory in each of them. On a hybrid host limits live in the v1 hierarchies and whole-tree
 * kill in a twin directory of the unified tree. Privileged code: every path below is ours and is
 * reached from held directory descriptors. No allocation after cgroup_new(). Single-threaded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/usage_view.h"

#define CGROUP_PROCS_MAX 6 /* hierarchies a process has to join at most */

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2, CGROUP_HYBRID };

/* What this host lets us control. */
struct cgroup_facts {
    enum cgroup_kind kind;
    bool memory, cpu, pids, io, kill; /* io: counted, not limited */
    bool freeze;                      /* only of a host that is open; see cgroup_freeze() */
    char why_not[200];                /* when memory, cpu or pids is missing: the reason */
};

struct cgroup_usage {
    uint64_t cpu_ns;
    uint64_t memory_peak; /* bytes */
    uint64_t memory_now;
    uint64_t oom_kills;
    uint64_t pids_now;     /* processes and threads */
    uint64_t pids_refused; /* forks refused by the pids limit */
    uint64_t io_read;
    uint64_t io_write;
};

struct cgroup_host;
struct cgroup;

/* Looks only; makes nothing. */
void cgroup_probe(struct cgroup_facts *ret);

/*
 * For a process that starts a launcher, before it starts anything. A v2 cgroup cannot have both
 * processes and limited children, so where boxes can only live below our own cgroup, as in a
 * container or a systemd scope, this process would keep the launcher from limiting them. Moves
 * this process, if it is alone there, to a leaf of its own; else does nothing, and the launcher
 * reports what is wrong.
 */
void cgroup_make_room(void);

/*
 * Makes husk/<instance> in each hierarchy. ERR_ISOLATION when memory, cpu or pids cannot be had
 * and need_limits is set; without need_limits such a host gives a cgroup_host whose cgroups limit
 * nothing.
 */
int cgroup_host_open(const char *instance, bool need_limits, struct cgroup_host **ret,
                     struct err *e);
const struct cgroup_facts *cgroup_host_facts(const struct cgroup_host *host);
/* The directories above ours belong to us as well; false if they were delegated to another user. */
bool cgroup_host_is_ours(const struct cgroup_host *host);
/* What everything below uses together: CPU time, memory, processes. The rest is 0. */
void cgroup_host_usage(const struct cgroup_host *host, struct cgroup_usage *ret);
/* Kills and removes everything that is left below; NULL is fine. */
void cgroup_host_close(struct cgroup_host *host);

/* The instance name of this process: pid, start time, pid namespace. 0 or -errno. */
int cgroup_self_name(char *dst, size_t size);

/* Removes the directories of instances whose launcher is gone. Returns how many. */
size_t cgroup_sweep(void);

int cgroup_new(struct cgroup_host *host, const char *name, struct cgroup **ret, struct err *e);

/*
 * The same for a box, without a twin in the unified tree of a hybrid host. Joining a twin takes the
 * kernel's global lock over all thread groups, which can wait 10 ms and more for an RCU grace
 * period; the v1 trees are joined through their "tasks" files, which need no lock. A box is killed
 * by the end of its pid namespace, not by its cgroup.
 */
int cgroup_new_box(struct cgroup_host *host, const char *name, struct cgroup **ret, struct err *e);
void cgroup_free(struct cgroup *cg); /* kills, removes the directories; NULL is fine */

int cgroup_set_limits(struct cgroup *cg, const struct limits *l, struct err *e);

/*
 * What the kernel kills when the memory is used up, where it can be chosen (v2): everything, the
 * default, or one process. One for a session: its contexts are replaced one by one.
 */
int cgroup_set_oom(struct cgroup *cg, bool takes_one, struct err *e);

/*
 * Open descriptors of cgroup.procs, one per hierarchy: a process that writes "0" to each joins. In
 * this order: the unified one comes first, and a process that has joined it can be killed. They
 * carry the opener's rights, so they can be handed to a process that has none, and must be closed
 * before user code runs. Borrowed from cg.
 */
size_t cgroup_procs_fds(const struct cgroup *cg, int fds[CGROUP_PROCS_MAX]);

/*
 * The same for a process of ours of which only the memory is limited: in other hierarchies it stays
 * where it is, so that it competes for the CPU as before. Borrowed from cg.
 */
size_t cgroup_memory_procs_fds(const struct cgroup *cg, int fds[CGROUP_PROCS_MAX]);

/*
 * The counters for another process to read: descriptors (borrowed; none can set a limit, one can
 * reset the peak of memory) and what each one is. The reader checks the view with
 * cgroup_view_check() before it uses it.
 */
size_t cgroup_view_export(const struct cgroup *cg, struct usage_view *ret, int fds[USAGE_VIEW_FDS]);
bool cgroup_view_check(const struct usage_view *v);
void cgroup_view_usage(const struct usage_view *v, const int *fds, struct cgroup_usage *ret);
/* The peak of memory begins anew. False: this kernel cannot reset it. */
bool cgroup_view_reset_peak(const struct usage_view *v, const int *fds);
uint64_t cgroup_view_oom_kills(const struct usage_view *v, const int *fds);
/* False: there is no such counter. */
bool cgroup_view_cpu_ns(const struct usage_view *v, const int *fds, uint64_t *ret);

/*
 * For a long-lived box: closes the descriptors that are needed only at its start and its end. Their
 * counters read as 0 meanwhile. Those of the view stay open, unless is_waiting: nothing runs in the
 * box yet, or its client has descriptors of its own. (In v2 they always stay, since a peak may be
 * counted per descriptor.) Unfolding returns 1 if it was folded, 0 if
 * not, or -errno: then it stays folded, and can only be freed.
 */
void cgroup_fold(struct cgroup *cg, bool is_waiting);
int cgroup_unfold(struct cgroup *cg);

/*
 * While a box is frozen none of its processes runs and its memory stays; SIGKILL ends it as ever.
 * That is cgroup.freeze of v2: a frozen cgroup of v1 could not be killed.
 *
 * On a hybrid host a box has no directory in the unified tree until this is called: it takes the
 * lock of which cgroup_new_box() tells. `first` must be the only process of the box; all later ones
 * are born into that directory. 0, or -errno: -ENOTSUP without facts.freeze, -EBUSY: others are in
 * the box, which then cannot be frozen.
 */
int cgroup_prepare_freeze(struct cgroup *cg, pid_t first);
int cgroup_freeze(struct cgroup *cg, bool on); /* 0 or -errno */

/* Use since cgroup_new() or the last cgroup_recycle(). A counter that the kernel lacks stays 0. */
void cgroup_usage(const struct cgroup *cg, struct cgroup_usage *ret);

/*
 * Processes that the kernel killed for the box's memory. v2 then kills the whole box, unless
 * cgroup_set_oom() chose otherwise; v1 kills only one process, so the caller has to poll:
 * cgroup_oom_needs_watch().
 */
uint64_t cgroup_oom_kills(const struct cgroup *cg);
bool cgroup_oom_needs_watch(const struct cgroup_host *host);

int cgroup_kill(struct cgroup *cg);                 /* every process in it; 0 or -errno */
bool cgroup_is_empty(const struct cgroup *cg);      /* no process left */
uint64_t cgroup_processes(const struct cgroup *cg); /* and threads; 0: they are not counted here */

/*
 * Makes an empty cgroup ready for the next box: counters start again. 0, or -EBUSY while it is
 * populated or too much memory is still charged to it; then free it instead.
 */
int cgroup_recycle(struct cgroup *cg);
