/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The closer: a forked bystander that closes descriptors which others chose.
 *
 * A zygote or a client can send us any descriptor, and the process that closes the last copy of a
 * file does all the kernel's work for it: it waits for a TCP peer that does not read (SO_LINGER),
 * or releases a million record locks. The launcher serves all clients and must not wait for that.
 * So it passes such descriptors on, closes its own copies, and then sends an empty message: now the
 * closer's copies are the last ones.
 *
 * Must not: hold anything else open, have any right, or outlive the launcher by longer than the
 * closes under way take.
 */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/sys.h"
#include "launcher/caps.h"
#include "launcher/launcher.h"

#define PLACE 3      /* its end of the socket */
#define HELD_MAX 512 /* more than arrives before the launcher has closed its copies */
#define PATIENCE 1   /* s: then a signal ends the wait, and the file is closed all the same */

static void stop_waiting(int signum)
{
    (void)signum;
}

/* Repeats, since the first signal may arrive just before the wait. */
static void set_alarm(time_t seconds)
{
    const struct itimerval each = {.it_interval = {.tv_sec = seconds},
                                   .it_value = {.tv_sec = seconds}};

    (void)setitimer(ITIMER_REAL, &each, NULL);
}

/* A message with descriptors: hold them. One without: close what is held. */
static NORETURN void close_what_comes(void)
{
    static int held[HELD_MAX];
    size_t n_held = 0;

    for (;;) {
        struct fd_set_msg fds = {.n = 0};
        char byte;
        if (fd_recv(PLACE, &byte, sizeof(byte), &fds, 0) == 0) {
            _exit(0); /* the launcher is gone */
        }
        memcpy(held + n_held, fds.fds, fds.n * sizeof(*held));
        n_held += fds.n;
        if (fds.n > 0 && n_held + FD_MESSAGE_MAX <= HELD_MAX) {
            continue;
        }
        set_alarm(PATIENCE);
        while (n_held > 0) {
            close(held[--n_held]);
        }
        set_alarm(0);
    }
}

/*
 * A replacement is forked after the launcher dropped its own rights: the bounding set cannot shrink
 * any more, and locked secure bits keep an exec from restoring any of it.
 */
static int drop_rights(void)
{
    struct err e;

    return caps_drop(0, &e) == 0 ? 0 : sys_caps_keep(0);
}

static void be_closer(struct launcher *l, int end)
{
    sigset_t alarm_only;

    (void)l;
    if (dup2(end, PLACE) < 0 || close_range(PLACE + 1, ~0u, 0) < 0 ||
        close_range(0, PLACE - 1, 0) < 0 || drop_rights() < 0 ||
        fd_send(PLACE, "", 1, NULL, 0, 0) != 1) {
        return;
    }
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = stop_waiting}, NULL);
    sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
    close_what_comes();
}

int closer_start(struct launcher *l, struct err *e)
{
    const struct bystander closer = {"husk-closer", be_closer, &l->closer_pid};

    l->closer = bystander_start(l, &closer, e);
    return l->closer < 0 ? -1 : 0;
}

/*
 * Replaces a closer that waits for too many files, or was killed. Files that a killed process has
 * open are freed without waiting for peers. False: too many killed ones are not gone yet.
 */
static bool replace(struct launcher *l)
{
    struct err ignored;

    for (size_t i = 0; i < ARRAY_LEN(l->closers_dying); i++) {
        pid_t *place = &l->closers_dying[i];
        if (*place == 0 || waitpid(*place, NULL, WNOHANG) != 0) {
            *place = l->closer_pid;
            if (l->closer_pid > 0) {
                (void)kill(l->closer_pid, SIGKILL);
            }
            l->closer_pid = 0; /* the kernel may reuse this number */
            fd_close(&l->closer);
            return closer_start(l, &ignored) == 0;
        }
    }
    return false;
}

static void give(struct launcher *l, const int *fds, size_t n)
{
    if (fd_send(l->closer, "", 1, fds, n, MSG_DONTWAIT) < 0 && replace(l)) {
        (void)fd_send(l->closer, "", 1, fds, n, MSG_DONTWAIT);
    }
}

void closer_close(struct launcher *l, int *fds, size_t n)
{
    int some[FD_MESSAGE_MAX];
    size_t count = 0;
    bool is_some = false;

    for (size_t i = 0; i < n; i++) {
        if (fds[i] >= 0) {
            some[count++] = fds[i];
        }
        if (count == FD_MESSAGE_MAX || (count > 0 && i + 1 == n)) {
            give(l, some, count);
            count = 0;
        }
    }
    for (size_t i = 0; i < n; i++) {
        is_some = is_some || fds[i] >= 0;
        fd_close(&fds[i]);
    }
    if (is_some) {
        give(l, NULL, 0);
    }
}

void closer_close_one(struct launcher *l, int *fd)
{
    closer_close(l, fd, 1);
}

void closer_close_set(struct launcher *l, struct fd_set_msg *set)
{
    closer_close(l, set->fds, set->n);
    set->n = 0;
}
