/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/limited: what front and keeper share. */
#pragma once

#include <signal.h>

#include "base/attr.h"
#include "box/cgroup.h"
#include "limited/limited.h"

#define LIMITED_END_MS 2000 /* how long killed processes may take to end */

/* Created by the front, shared with the keeper. cgroup is NULL when limits are weak. */
struct limited_place {
    struct cgroup_host *host;
    struct cgroup *cgroup;
    int control;       /* SEQPACKET. To the keeper: an int, the signal to pass on; EOF: kill */
    sigset_t old_mask; /* restored for the program */
};

/* From the keeper. */
enum keeper_kind { KEEPER_STARTED, KEEPER_FAILED, KEEPER_ENDED };

struct keeper_msg {
    enum keeper_kind kind;
    pid_t pid; /* STARTED */
    int why;   /* FAILED: the errno */
    struct limited_end end;
};

/* keeper.c */
NORETURN void keeper_run(const struct limited_options *o, struct limited_place *place);

/*
 * Closes inherited descriptors, and replaces standard input and output by /dev/null. Our own
 * descriptors are close-on-exec.
 */
void limited_let_go(void);

/* weak.c: limits of this process and its children, without cgroups. 0 or -errno. */
int weak_limit(const struct limited_options *o);

/*
 * descendants.c, for a subreaper: kills its children, and theirs as it inherits them, until none is
 * left or LIMITED_END_MS have passed. If *pid is among them, *status is set and *pid becomes 0.
 */
void descendants_end(pid_t *pid, int *status);
