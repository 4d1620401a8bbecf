/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard: a forked bystander that outlives a killed launcher by the moment it takes to clean up.
 *
 * Boxes need no guard: their zygotes die with the launcher and take them along. Cgroup directories
 * do: the kernel keeps them, and with them nothing may be left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "launcher/launcher.h"

static void stand_by(struct launcher *l, int launcher_lives)
{
    char byte;

    prctl(PR_SET_NAME, "husk-guard", 0, 0, 0);
    fd_close(&l->client);
    fd_close(&l->supervisor);
    setsid();
    /* Only the launcher's end ends us: a terminal's or a supervisor's signals are meant for it. */
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    while (read(launcher_lives, &byte, 1) < 0 && errno == EINTR) {
    }
    cgroup_host_close(l->cgroups);
    _exit(0);
}

int guard_start(struct launcher *l, struct err *e)
{
    int pipe_fds[2];

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe to the guard");
    }
    pid_t pid = fork();
    if (pid < 0) {
        return err_sys(e, errno, "start the guard");
    }
    if (pid == 0) {
        close(pipe_fds[1]);
        stand_by(l, pipe_fds[0]);
    }
    close(pipe_fds[0]); /* the other end stays open as long as this process lives */
    return 0;
}
