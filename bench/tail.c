/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P9: what neighbours do to the time that a client waits. As many clients as there are cores run
 * code in parked boxes while one box computes without end and one forks until it may not; the peer
 * is one client on a quiet machine.
 *
 * Clients and neighbours are processes with engines of their own, told by pipes what to do and
 * when.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "subject.h"

#define CHUNK 20
#define ROUNDS 10
#define CHUNKS 2 /* of every client, in each round with neighbours */
#define CLIENTS_MAX 32
#define REST_NS 2000000L /* as in every race */
#define SETTLE_NS 100000000L

#define SPIN "print('up', flush=True)\nwhile True:\n    pass\n"
#define BOMB                                                                                       \
    "import os\nprint('up', flush=True)\nwhile True:\n    try:\n        os.fork()\n    except "    \
    "OSError:\n        pass\n"

static void pause_ns(long ns)
{
    const struct timespec pause = {.tv_nsec = ns};

    nanosleep(&pause, NULL);
}

/* ---- processes on a string ---- */

/* Ends when `down` is closed; says one word on `up` when it has done what it was told. */
struct helper {
    pid_t pid;
    int down;
    int up;
};

struct word {
    bool ok;
    struct err err;
    double took[CHUNK];
};

static int helper_start(struct helper *h, void (*be)(void *user, int down, int up), void *user,
                        struct err *e)
{
    int down[2];
    int up[2];

    *h = (struct helper){.down = -1, .up = -1};
    if (pipe2(down, O_CLOEXEC) < 0 || pipe2(up, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    h->pid = fork();
    if (h->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the boxes of a killed engine end with it */
        close(down[1]);
        close(up[0]);
        be(user, down[0], up[1]);
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    h->down = down[1];
    h->up = up[0];
    return h->pid < 0 ? err_sys(e, errno, "fork") : 0;
}

static int helper_hear(struct helper *h, struct word *ret, struct err *e)
{
    if (fd_read_all(h->up, ret, sizeof(*ret)) != (ssize_t)sizeof(*ret)) {
        return err_set(e, ERR_SYSTEM, "a helper died");
    }
    if (!ret->ok) {
        *e = ret->err;
        return -1;
    }
    return 0;
}

/*
 * All ends are closed before the first wait: each helper holds copies of those that were
 * there before it.
 */
static void helpers_stop(struct helper *helpers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fd_close(&helpers[i].down);
        fd_close(&helpers[i].up);
    }
    for (size_t i = 0; i < n; i++) {
        if (helpers[i].pid > 0) {
            (void)waitpid(helpers[i].pid, NULL, 0);
        }
    }
}

/* ---- clients ---- */

/* 'f': fill the pool; 'g': a chunk of runs. */
static void be_client(void *user, int down, int up)
{
    struct subject s = {.world = user,
                        .template_name = "python",
                        .code = CODE,
                        .expect = CODE_OUTPUT,
                        .warm = true};
    struct word word = {.ok = true};
    char command;

    word.ok = subject_open(&s, CHUNK, &word.err) == 0;
    (void)fd_write_all(up, &word, sizeof(word));
    while (word.ok && read(down, &command, 1) == 1) {
        if (command == 'f') {
            word.ok = subject_fill(&s, CHUNK, &word.err) == 0;
        }
        for (int i = 0; command == 'g' && word.ok && i < CHUNK; i++) {
            pause_ns(REST_NS);
            word.ok = subject_once(&s, &word.took[i], &word.err) == 0;
        }
        (void)fd_write_all(up, &word, sizeof(word));
    }
    subject_close(&s);
}

/* The first n clients, all at once. */
static int tell(struct helper *clients, int n, char command, struct samples *took, struct err *e)
{
    struct word word;

    for (int i = 0; i < n; i++) {
        if (fd_write_all(clients[i].down, &command, 1) < 0) {
            return err_set(e, ERR_SYSTEM, "a helper died");
        }
    }
    for (int i = 0; i < n; i++) {
        if (helper_hear(&clients[i], &word, e) < 0) {
            return -1;
        }
        for (int j = 0; took != NULL && j < CHUNK; j++) {
            if (samples_add(took, word.took[j]) < 0) {
                return err_sys(e, ENOMEM, "samples");
            }
        }
    }
    return 0;
}

static int run_chunk(struct helper *clients, int n, struct samples *took, struct err *e)
{
    if (tell(clients, n, 'f', NULL, e) < 0) {
        return -1;
    }
    pause_ns(SETTLE_NS);
    return tell(clients, n, 'g', took, e);
}

/* ---- neighbours ---- */

struct neighbour {
    const struct world *world;
    const char *code;
};

static void on_output(void *user, enum husk_stream stream, const char *data, size_t n)
{
    struct word word = {.ok = true};

    (void)stream;
    (void)data;
    (void)n;
    (void)fd_write_all(*(int *)user, &word, sizeof(word)); /* "up": its only line */
}

/* Goes on until `down` is closed, within the limits of any box. */
static void be_neighbour(void *user, int down, int up)
{
    const struct neighbour *neighbour = user;
    struct subject s = {.world = neighbour->world, .template_name = "python"};
    struct husk_spec spec = {.template_name = "python",
                             .code = neighbour->code,
                             .code_len = strlen(neighbour->code),
                             .limits = {.timeout_ms = 600000},
                             .cancel_fd = down,
                             .on_output = on_output,
                             .user = &up};
    struct word word = {.ok = false};
    struct husk_result *result = NULL;
    struct husk_error h;

    if (subject_open(&s, 0, &word.err) < 0) {
        (void)fd_write_all(up, &word, sizeof(word));
        return;
    }
    if (husk_run(s.engine, &spec, &result, &h) < 0) {
        err_set(&word.err, ERR_SYSTEM, "%s: %s", h.type, h.message);
        (void)!write(up, &word, sizeof(word));
    }
    husk_result_free(result);
    subject_close(&s);
}

static int with_neighbours(struct world *w, struct helper *clients, struct samples *took,
                           struct err *e)
{
    struct neighbour neighbours[] = {{w, SPIN}, {w, BOMB}};
    struct helper helpers[] = {{.down = -1, .up = -1}, {.down = -1, .up = -1}};
    struct word word;
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(helpers) && r == 0; i++) {
        r = helper_start(&helpers[i], be_neighbour, &neighbours[i], e);
        if (r == 0) {
            r = helper_hear(&helpers[i], &word, e);
        }
    }
    for (int i = 0; i < CHUNKS && r == 0; i++) {
        r = run_chunk(clients, MIN(w->cores, CLIENTS_MAX), took, e);
    }
    helpers_stop(helpers, ARRAY_LEN(helpers));
    return r;
}

/* ---- the benchmark ---- */

static void report(struct world *w, struct samples *quiet, struct samples *busy)
{
    struct row row = {.id = "P9",
                      .what = "warm exec beside bad neighbours",
                      .unit = "ms",
                      .peer_name = "one client, quiet",
                      .ours = samples_summary(busy),
                      .peer = samples_summary(quiet),
                      .bar = AT_MOST(2, 1.5)};

    fprintf(stderr,
            "    quiet: p50 %.3f p99 %.3f ms; with neighbours: min %.3f p50 %.3f p99 %.3f ms\n",
            row.peer.p50, row.peer.p99, row.ours.min, row.ours.p50, row.ours.p99);
    report_add(&w->report, &row);
    row.peer = row.ours;
    row.ours.p50 = row.ours.p99;
    row.bar = AT_MOST(25, 5);
    (void)str_copy(row.what, sizeof(row.what), "the same, p99");
    (void)str_copy(row.peer_name, sizeof(row.peer_name), "its own p50");
    report_add(&w->report, &row);
}

static int measure(struct world *w, struct helper *clients, struct err *e)
{
    AUTO_SAMPLES struct samples quiet = {0};
    AUTO_SAMPLES struct samples busy = {0};

    for (int round = 0; round < ROUNDS; round++) {
        if (run_chunk(clients, 1, &quiet, e) < 0 || with_neighbours(w, clients, &busy, e) < 0) {
            return -1;
        }
    }
    report(w, &quiet, &busy);
    return 0;
}

int bench_tail(struct world *w, struct err *e)
{
    struct helper clients[CLIENTS_MAX];
    struct word word;
    int n = 0;
    int r = 0;

    for (; n < MIN(w->cores, CLIENTS_MAX) && r == 0; n++) {
        r = helper_start(&clients[n], be_client, w, e);
        if (r == 0) {
            r = helper_hear(&clients[n], &word, e);
        }
    }
    if (r == 0) {
        r = measure(w, clients, e);
    }
    helpers_stop(clients, (size_t)n);
    return r;
}
