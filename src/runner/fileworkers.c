/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File workers of a session; see fileworkers.h. Static memory only: PID 1 must not disturb what it
 * forks.
 */
#include "runner/fileworkers.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "runner/fileagent.h"
#include "runner/processes.h"
#include "runner/rawfork.h"

/* To remove an unfinished file; a worker that user code has stopped is killed then. */
#define GRACE_MS 300

static struct {
    pid_t pid;        /* 0: free */
    int sock;         /* -1: closed, the worker is to end */
    uint64_t kill_at; /* ms; 0: it was killed, or need not be */
} workers[FILEWORKERS_MAX];

/* Reaps a killed worker here if its place is needed before its SIGCHLD was read. */
static bool is_free(size_t i)
{
    if (workers[i].pid != 0 && workers[i].sock < 0) {
        (void)kill(workers[i].pid, SIGKILL); /* ours until it is reaped */
        if (waitpid(workers[i].pid, NULL, 0) >= 0) {
            workers[i].pid = 0;
        }
    }
    return workers[i].pid == 0;
}

void fileworkers_start(int sock)
{
    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        if (!is_free(i)) {
            continue;
        }
        processes_use_reserve(true);
        pid_t pid = rawfork_plain();
        if (pid == 0) {
            if (processes_bound() < 0) {
                _exit(1);
            }
            fileagent_serve(sock);
        }
        processes_use_reserve(false);
        if (pid < 0) {
            break;
        }
        workers[i].pid = pid;
        workers[i].sock = sock;
        workers[i].kill_at = 0;
        return;
    }
    fd_close(&sock);
}

void fileworkers_watch(struct pollfd p[FILEWORKERS_MAX])
{
    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        /* No events: the close is always reported. */
        p[i] = (struct pollfd){.fd = workers[i].pid != 0 ? workers[i].sock : -1};
    }
}

void fileworkers_serve(const struct pollfd p[FILEWORKERS_MAX])
{
    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        if (p[i].fd >= 0 && p[i].revents != 0 && workers[i].pid != 0) {
            workers[i].kill_at = clock_ms() + GRACE_MS; /* it sees the close, too, and cleans up */
            fd_close(&workers[i].sock);
        }
        if (workers[i].pid != 0 && workers[i].kill_at != 0 && workers[i].kill_at <= clock_ms()) {
            (void)kill(workers[i].pid, SIGKILL); /* ours until it is reaped */
            workers[i].kill_at = 0;
        }
    }
}

int fileworkers_timeout(void)
{
    uint64_t now = clock_ms();
    int timeout = -1;

    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        if (workers[i].pid != 0 && workers[i].kill_at != 0) {
            int left = (int)(workers[i].kill_at - MIN(workers[i].kill_at, now));
            timeout = timeout < 0 ? left : MIN(timeout, left);
        }
    }
    return timeout;
}

bool fileworkers_has(pid_t pid)
{
    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        if (workers[i].pid == pid) {
            return true;
        }
    }
    return false;
}

bool fileworkers_reaped(pid_t pid)
{
    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        if (workers[i].pid == pid) {
            fd_close(&workers[i].sock);
            workers[i].pid = 0;
            return true;
        }
    }
    return false;
}

void fileworkers_forget(void)
{
    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        if (workers[i].pid != 0) {
            fd_close(&workers[i].sock);
            workers[i].pid = 0;
        }
    }
}
