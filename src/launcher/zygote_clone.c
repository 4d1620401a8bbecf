/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a template's zygote; see launcher.h.
 *
 * The child waits until it has its id maps and is the kernel's first victim when memory runs out,
 * then enters the root that was planned for it (box/root.h) and becomes the template's program.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "box/idmap.h"
#include "launcher/launcher.h"

/* How many ids its namespace maps: all that were leased for it. */
static uint64_t zygote_ids(const struct template *t)
{
    return (uint64_t)t->lease.wards * IDMAP_WARD_BLOCKS * IDMAP_BLOCK;
}

/* Child side of the clone. */
static void become_zygote(const struct launcher *l, const struct template *t, int go, int socket)
{
    struct root_entry entry = {
        .plan = &t->plan,
        .socket = socket,
        .devices = t->devices,
        .errors = t->last_words,
        .single_id = l->single_id,
        .confinement = {.ids = zygote_ids(t),
                        .boxes_max = t->boxes_max,
                        .seccomp = t->start.seccomp,
                        .single_id = l->single_id},
    };
    struct zygote_rep broken = {.event = ZYGOTE_BROKEN};
    char byte;

    if (read(go, &byte, 1) != 1) {
        _exit(1);
    }
    fdlimit_use_all(l); /* a zygote places descriptors by number */
    entry.n_procs = cgroup_procs_fds(t->cgroup, entry.procs);
    root_enter(&entry, &broken.err);
    /* place_descriptors() may have moved the socket to ZYGOTE_FD already. */
    if (fd_send(socket, &broken, sizeof(broken), NULL, 0, 0) < 0) {
        (void)fd_send(ZYGOTE_FD, &broken, sizeof(broken), NULL, 0, 0);
    }
    _exit(1);
}

static int map_zygote(const struct launcher *l, const struct template *t, pid_t pid, struct err *e)
{
    if (l->single_id) {
        return idmap_write_zygote(pid, 0, 1, e);
    }
    return idmap_write_zygote(pid, idmap_ward(t->lease.first), zygote_ids(t), e);
}

/* Boxes die first when the host runs out of memory: they inherit this from their zygote. */
static int make_first_victim(pid_t pid, struct err *e)
{
    char path[64];

    (void)str_format(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
    int r = fd_write_file(AT_FDCWD, path, "1000");
    if (r < 0) {
        return err_sys(e, -r, "set oom_score_adj");
    }
    return 0;
}

/*
 * Stays undumpable: a change of ids makes a process as dumpable as fs.suid_dumpable says, and where
 * that is 1 the files of /proc/PID belong to the new id.
 */
static int change_owner(uid_t owner)
{
    if (syscall(SYS_setresuid, -1, owner, -1) < 0) {
        return -1;
    }
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/*
 * The kernel charges per-user quotas (inotify, queued signals, ...) to the creator of a user
 * namespace. With the zygote's own id as creator, boxes use up the quota of that id and not that of
 * host root.
 */
static pid_t clone_as_owner(const struct launcher *l, const struct template *t,
                            struct clone_args *args)
{
    uid_t owner = (uid_t)idmap_ward(t->lease.first);

    if (!l->single_id && change_owner(owner) < 0) {
        return -1;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, args, sizeof(*args));
    int saved = errno;
    if (pid != 0 && !l->single_id && change_owner(0) < 0) {
        _exit(1); /* cannot happen; a launcher without its id must not go on */
    }
    errno = saved;
    return pid;
}

int zygote_clone(const struct launcher *l, struct template *t, struct err *e)
{
    AUTO_CLOSE int go_read = -1;
    AUTO_CLOSE int go_write = -1;
    AUTO_CLOSE int theirs = -1;
    int go[2];
    int sockets[2];
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWUTS | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&t->pidfd,
        .exit_signal = SIGCHLD,
    };

    if (pipe2(go, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    go_read = go[0];
    go_write = go[1];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return err_sys(e, errno, "socketpair");
    }
    t->socket = sockets[0];
    theirs = sockets[1];

    pid_t pid = clone_as_owner(l, t, &args);
    if (pid < 0) {
        return err_sys(e, errno, "clone the zygote into new namespaces");
    }
    if (pid == 0) {
        fd_close(&go_write);
        become_zygote(l, t, go_read, theirs);
    }
    t->pid = pid;
    if (make_first_victim(pid, e) < 0 || map_zygote(l, t, pid, e) < 0) {
        return err_wrap(e, "prepare the zygote");
    }
    if (write(go_write, "", 1) != 1) {
        return err_sys(e, errno, "release the zygote");
    }
    return 0;
}
