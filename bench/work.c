/* SPDX-License-Identifier: Apache-2.0 */
/* Workers; see work.h. */
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define WORKERS_MAX 256

/* What a worker tells: once when it is ready, once when it is done. Short enough for a pipe to keep it whole. */
struct word {
    bool ok;
    double rate;
    struct err err;
};

static void tell(int up, const struct word *word)
{
    if (fd_write_all(up, word, sizeof(*word)) < 0) {
        _exit(1);
    }
}

static int loop(const struct job *job, double seconds, double *ret, struct err *e)
{
    uint64_t begun = clock_ns();
    uint64_t until = begun + (uint64_t)(seconds * 1e9);
    uint64_t now = begun;
    double ignored;
    double n = 0;

    while (now < until) {
        if (job->once(job->user, &ignored, e) < 0) {
            return -1;
        }
        n++;
        now = clock_ns();
    }
    *ret = n / ((double)(now - begun) / 1e9);
    return 0;
}

/* The start signal is the end of file on `down`. */
static void be_worker(const struct job *job, double seconds, int up, int down)
{
    struct word word = {.ok = true};
    char byte;

    if (job->open != NULL && job->open(job->user, &word.err) < 0) {
        word.ok = false;
    }
    tell(up, &word);
    if (word.ok) {
        (void)!read(down, &byte, 1);
        word.ok = loop(job, seconds, &word.rate, &word.err) == 0;
        tell(up, &word);
    }
    if (job->close != NULL) {
        job->close(job->user);
    }
    _exit(0);
}

/* Hears every worker once and adds up. */
static int gather(int up, int workers, double *ret, struct err *e)
{
    struct word word;

    *ret = 0;
    for (int i = 0; i < workers; i++) {
        if (fd_read_all(up, &word, sizeof(word)) != (ssize_t)sizeof(word)) {
            return err_set(e, ERR_SYSTEM, "a worker died");
        }
        if (!word.ok) {
            *e = word.err;
            return -1;
        }
        *ret += word.rate;
    }
    return 0;
}

int work_rate(const struct job *job, int workers, double seconds, double *ret, struct err *e)
{
    AUTO_CLOSE int up_read = -1;
    AUTO_CLOSE int down_write = -1;
    pid_t pids[WORKERS_MAX];
    int up[2];
    int down[2];
    double ignored;

    workers = MIN(workers, WORKERS_MAX);
    if (pipe2(up, O_CLOEXEC) < 0 || pipe2(down, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe to workers");
    }
    for (int i = 0; i < workers; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            close(down[1]);
            be_worker(job, seconds, up[1], down[0]);
        }
    }
    close(up[1]);
    close(down[0]);
    up_read = up[0];
    down_write = down[1];

    int r = gather(up_read, workers, &ignored, e);
    fd_close(&down_write);
    if (r == 0) {
        r = gather(up_read, workers, ret, e);
    }
    for (int i = 0; i < workers; i++) {
        (void)waitpid(pids[i], NULL, 0);
    }
    return r;
}

/* What has ended is reaped by then: only what is reaped is counted. */
static void let_end(void)
{
    const struct timespec pause = {.tv_nsec = 50000000};

    nanosleep(&pause, NULL);
}

static void be_counted(const struct job *job, int n)
{
    struct err e = {0};
    double ignored;
    int r = job->open != NULL ? job->open(job->user, &e) : 0;

    for (int i = 0; i < n && r == 0; i++) {
        r = job->once(job->user, &ignored, &e);
    }
    if (r < 0) {
        fprintf(stderr, "    %s: %s\n", job->name, e.msg);
        _exit(1);
    }
    let_end();
    if (job->close != NULL) {
        job->close(job->user);
    }
    _exit(0);
}

static double ms_of(const struct timeval *t)
{
    return (double)t->tv_sec * 1e3 + (double)t->tv_usec / 1e3;
}

int work_cpu(const struct job *job, int n, double *ret, struct err *e)
{
    struct rusage usage;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        be_counted(job, n);
    }
    /* The usage of a child includes that of all its descendants that were waited for. */
    if (pid < 0 || wait4(pid, &status, 0, &usage) < 0) {
        return err_sys(e, errno, "count the CPU time of %s", job->name);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return err_set(e, ERR_SYSTEM, "%s failed while its CPU time was counted", job->name);
    }
    *ret = ms_of(&usage.ru_utime) + ms_of(&usage.ru_stime);
    return 0;
}
