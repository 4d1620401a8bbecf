/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that drop rights: cgroup, limits, ids, capabilities, descriptors, system calls. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/landlock.h"
#include "box/steps.h"
#include "box/sys.h"

int step_cgroup(struct box_setup *s, struct err *e)
{
    for (size_t i = 0; i < s->n_procs; i++) {
        if (write(s->procs[i], "0", 1) != 1) {
            return err_sys(e, errno, "join hierarchy %zu", i);
        }
    }
    /* After joining, so that the box sees its own cgroup as the root of all. */
    if (unshare(CLONE_NEWCGROUP) < 0) {
        return err_sys(e, errno, "new cgroup namespace");
    }
    return 0;
}

int step_memory(struct box_setup *s, struct err *e)
{
    (void)e;
    if (s->touch_memory != NULL) {
        s->touch_memory();
    }
    return 0;
}

int step_id_maps(struct box_setup *s, struct err *e)
{
    (void)e;
    s->await_maps(); /* a parent that cannot write them kills us */
    return 0;
}

/*
 * Never the inner root: a change from one ordinary id to another keeps capabilities, so the steps
 * below still have theirs, and what they make belongs to the box at once. step_caps() drops them.
 */
int step_ids(struct box_setup *s, struct err *e)
{
    if (!s->single_id && syscall(SYS_setgroups, 0, NULL) < 0) {
        return err_sys(e, errno, "drop supplementary groups");
    }
    if (syscall(SYS_setresgid, BOX_UID, BOX_UID, BOX_UID) < 0 ||
        syscall(SYS_setresuid, BOX_UID, BOX_UID, BOX_UID) < 0) {
        return err_sys(e, errno, "change to id %d", BOX_UID);
    }
    return 0;
}

/*
 * Quotas of the box's own user namespace. Boxes of one zygote share its creator's quota, so one box
 * must not be able to use up all of it; and even if every other wall fails, no namespace can be
 * made below this one.
 *
 * Through the box's own /proc: the kernel keeps an entry of each of these files for every user
 * namespace, all under one name, so in a /proc that many boxes share, a lookup takes longer with
 * every box.
 */
int step_quotas(struct box_setup *s, struct err *e)
{
    static const struct {
        const char *path, *value;
    } rows[] = {
        {"/proc/sys/user/max_user_namespaces", "0"},
        {"/proc/sys/user/max_inotify_instances", "16"},
    };

    (void)s;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int r = fd_write_file(AT_FDCWD, rows[i].path, rows[i].value);
        if (r < 0) {
            return err_sys(e, -r, "write %s", rows[i].path);
        }
    }
    return 0;
}

int step_identity(struct box_setup *s, struct err *e)
{
    static const char name[] = "husk";

    (void)s;
    if (setsid() < 0) {
        return err_sys(e, errno, "new session");
    }
    if (sethostname(name, sizeof(name) - 1) < 0) {
        return err_sys(e, errno, "set host name");
    }
    return 0;
}

/*
 * Raising a hard limit takes a right in the initial namespace, which no process here has: it can
 * only be lowered.
 */
static int limit(int resource, rlim_t soft, rlim_t hard, struct err *e)
{
    struct rlimit want = {.rlim_cur = soft, .rlim_max = hard};

    if (setrlimit(resource, &want) == 0) {
        return 0;
    }
    int why = errno;
    if (getrlimit(resource, &want) < 0 || want.rlim_max >= hard) {
        return err_sys(e, why, "set rlimit %d", resource);
    }
    want.rlim_cur = MIN(soft, want.rlim_max); /* the hard limit is below that already */
    return setrlimit(resource, &want) < 0 ? err_sys(e, errno, "set rlimit %d", resource) : 0;
}

/*
 * The size of a file is bounded where it would be a file of the host. In the box's own file system
 * blocks are, and a file with holes may be larger.
 */
int step_rlimits(struct box_setup *s, struct err *e)
{
    const struct {
        int resource;
        rlim_t value;
    } rows[] = {
        {RLIMIT_CORE, 1}, /* not 0: a piped core handler of the host runs even then, but not at 1 */
        {RLIMIT_FSIZE, s->n_writable > 0 ? s->limits.disk_bytes : RLIM_INFINITY},
        {RLIMIT_MEMLOCK, (rlim_t)64 * 1024},
        {RLIMIT_MSGQUEUE, 819200},
        {RLIMIT_SIGPENDING, 4096},
        {RLIMIT_STACK, (rlim_t)8 * 1024 * 1024},
        {RLIMIT_RTPRIO, 0},
        {RLIMIT_NICE, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (limit(rows[i].resource, rows[i].value, rows[i].value, e) < 0) {
            return -1;
        }
    }
    if (limit(RLIMIT_NPROC, s->limits.pids, s->limits.pids + s->own_pids, e) < 0) {
        return -1;
    }
    /*
     * Of one process: memory and files have one cgroup, whose limit is for both. Where no cgroup
     * limits memory, at least each process is limited.
     */
    rlim_t all = s->limit_data ? s->limits.memory_bytes : 0;
    rlim_t data = s->limits.process_bytes != 0 ? s->limits.process_bytes : all;
    return data != 0 ? limit(RLIMIT_DATA, data, data, e) : 0;
}

int step_bounding(struct box_setup *s, struct err *e)
{
    const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                               SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

    (void)s;
    int r = sys_caps_bound(0);
    if (r < 0) {
        return err_sys(e, -r, "empty the bounding set");
    }
    if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0) {
        return err_sys(e, errno, "lock secure bits");
    }
    return 0;
}

int step_caps(struct box_setup *s, struct err *e)
{
    (void)s;
    int r = sys_caps_keep(0);
    if (r < 0) {
        return err_sys(e, -r, "clear capabilities");
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return err_sys(e, errno, "no_new_privs");
    }
    return 0;
}

int step_landlock(struct box_setup *s, struct err *e)
{
    const char *writable[BOX_WRITABLE_MAX + 3] = {BOX_WORKSPACE, "/tmp", "/dev"};
    size_t n = 3;

    for (size_t i = 0; i < s->n_writable && n < ARRAY_LEN(writable); i++) {
        writable[n++] = s->writable[i];
    }
    return landlock_confine(s->landlock_abi, writable, n, e);
}

int step_descriptors(struct box_setup *s, struct err *e)
{
    /* Upwards first: a source that lies in 0..3 must not be overwritten before its turn. */
    int source[4] = {s->stdio[0], s->stdio[1], s->stdio[2], s->control};

    for (int i = 0; i < 4; i++) {
        if (source[i] <= BOX_CONTROL_FD) {
            source[i] = fcntl(source[i], F_DUPFD_CLOEXEC, 16);
        }
        if (source[i] < 0) {
            return err_sys(e, errno, "move descriptor %d", i);
        }
    }
    for (int i = 0; i < 4; i++) {
        /* The control socket must not reach programs that user code starts. */
        if (dup3(source[i], i, i == BOX_CONTROL_FD ? O_CLOEXEC : 0) < 0) {
            return err_sys(e, errno, "place descriptor %d", i);
        }
    }
    s->control = BOX_CONTROL_FD;
    int r = sys_close_range(BOX_CONTROL_FD + 1, ~0U);
    if (r < 0) {
        return err_sys(e, -r, "close all other descriptors");
    }
    /* Only now: a zygote with many boxes holds more descriptors than a box may have. */
    if (limit(RLIMIT_NOFILE, s->limits.open_files, s->limits.open_files, e) < 0) {
        return -1;
    }
    if (chdir(BOX_WORKSPACE) < 0) {
        return err_sys(e, errno, "enter %s", BOX_WORKSPACE);
    }
    return 0;
}

int step_seccomp(struct box_setup *s, struct err *e)
{
    int r = seccomp_load(&s->seccomp->late);

    if (r < 0) {
        return err_sys(e, -r, "load filter %s", s->seccomp->name);
    }
    return 0;
}
