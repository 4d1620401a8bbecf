/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a helper process of the launcher (guard.c, closer.c); see launcher.h.
 *
 * The launcher continues when the helper reports that it has dropped its rights.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/launcher.h"

int bystander_start(struct launcher *l, const struct bystander *b, struct err *e)
{
    int pair[2];
    char ready;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(e, errno, "socketpair to %s", b->name);
    }
    pid_t pid = fork();
    if (pid < 0) {
        int why = errno;
        close(pair[0]);
        close(pair[1]);
        return err_sys(e, why, "start %s", b->name);
    }
    if (pid == 0) {
        sigset_t all;
        close(pair[1]);
        prctl(PR_SET_NAME, b->name, 0, 0, 0);
        setsid();
        /* It ends with the launcher only: signals of a terminal or a supervisor are for us. */
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        b->run(l, pair[0]);
        _exit(1);
    }
    close(pair[0]);
    *b->ret_pid = pid;
    if (fd_recv(pair[1], &ready, 1, NULL, 0) != 1) {
        close(pair[1]);
        return err_set(e, ERR_SYSTEM, "%s could not drop its rights", b->name);
    }
    return pair[1];
}
