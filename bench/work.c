/* SPDX-License-Identifier: Apache-2.0 */
/* Workers; see work.h. */
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cpu.h"

#define WORKERS_MAX 256
#define WARM_UP 5

/*
 * What a worker tells: once when it is ready, once when it is done. Short enough for a pipe to keep
 * it whole.
 */
struct word {
    bool ok;
    double rate; /* or the CPU time, where that is asked for */
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

/* What has ended is cleared away by then. */
static void let_end(void)
{
    const struct timespec pause = {.tv_nsec = 100000000};

    nanosleep(&pause, NULL);
}

static int count(const struct job *job, int n, double *ret, struct err *e)
{
    double ignored;
    double before;
    double after;

    for (int i = 0; i < WARM_UP; i++) {
        if (job->once(job->user, &ignored, e) < 0) {
            return -1;
        }
    }
    let_end();
    if (cpu_read(&before, e) < 0) {
        return -1;
    }
    for (int i = 0; i < n; i++) {
        if (job->once(job->user, &ignored, e) < 0) {
            return -1;
        }
    }
    let_end();
    if (cpu_read(&after, e) < 0) {
        return -1;
    }
    *ret = (after - before) / n;
    return 0;
}

static void be_counted(const struct job *job, int n, int up)
{
    struct word word = {.ok = cpu_join(&word.err) == 0};

    if (word.ok && job->open != NULL) {
        word.ok = job->open(job->user, &word.err) == 0;
    }
    word.ok = word.ok && count(job, n, &word.rate, &word.err) == 0;
    tell(up, &word);
    if (job->close != NULL) {
        job->close(job->user);
    }
    _exit(0);
}

int work_cpu(const struct job *job, int n, double *ret, struct err *e)
{
    AUTO_CLOSE int up_read = -1;
    int up[2];

    if (pipe2(up, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe to a worker");
    }
    pid_t pid = fork();
    if (pid == 0) {
        be_counted(job, n, up[1]);
    }
    close(up[1]);
    up_read = up[0];
    int r = gather(up_read, 1, ret, e);
    (void)waitpid(pid, NULL, 0);
    cpu_remove(pid);
    return r;
}
