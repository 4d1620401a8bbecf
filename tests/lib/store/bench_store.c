/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints how long the store takes, in the directory given: a read by id, a commit that is alone and
 * one among 64 in flight. Leaves its files there. Not a test.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/str.h"
#include "store/store.h"

#define READS 100000
#define ALONE 500
#define SHARED 20000
#define IN_FLIGHT 64

static uint64_t took[SHARED];
static size_t n_took;
static size_t n_started;

struct flight {
    struct store *st;
    uint64_t started;
    char id[STORE_ID_MAX];
};

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void print(const char *what, uint64_t *ns, size_t n, uint64_t total_ns)
{
    qsort(ns, n, sizeof(*ns), by_size);
    printf("%-28s p50 %8.1f us  p99 %8.1f us  %9.0f per second\n", what, (double)ns[n / 2] / 1e3,
           (double)ns[n * 99 / 100] / 1e3, (double)n * 1e9 / (double)total_ns);
}

static struct store_batch *one_change(struct store *st, const char *id)
{
    struct store_batch *batch = store_batch_new(st);
    struct store_execution x = {
        .id = id,
        .kind = "code",
        .language = "python",
        .request = "{\"code\": \"print(1 + 1)\", \"timeout\": 30}",
        .result = "{\"status\": \"completed\", \"stdout\": \"2\\n\", \"exit_code\": 0}",
        .created_ms = 1700000000000,
        .ended_ms = 1700000000001,
    };

    if (batch == NULL) {
        abort();
    }
    store_put_execution(batch, &x);
    return batch;
}

static void start(struct flight *f);

static void landed(void *user, const struct store_result *r)
{
    struct flight *f = user;

    if (r->outcome != STORE_DONE) {
        fprintf(stderr, "%s\n", r->err.msg);
        abort();
    }
    took[n_took++] = clock_ns() - f->started;
    if (n_started < SHARED) {
        start(f);
    }
}

static void start(struct flight *f)
{
    struct err e;

    (void)str_format(f->id, sizeof(f->id), "shared-%zu", n_started++);
    f->started = clock_ns();
    if (store_commit(one_change(f->st, f->id), landed, f, &e) != 0) {
        fprintf(stderr, "%s\n", e.msg);
        abort();
    }
}

static void bench_alone(struct store *st)
{
    struct err e;
    uint64_t began = clock_ns();

    for (n_took = 0; n_took < ALONE; n_took++) {
        char id[STORE_ID_MAX];
        uint64_t before = clock_ns();

        (void)str_format(id, sizeof(id), "alone-%zu", n_took);
        if (store_commit_wait(one_change(st, id), NULL, &e) != 0) {
            fprintf(stderr, "%s\n", e.msg);
            abort();
        }
        took[n_took] = clock_ns() - before;
    }
    print("commit, alone", took, n_took, clock_ns() - began);
}

static void bench_shared(struct store *st)
{
    static struct flight flights[IN_FLIGHT];
    struct store_stats before;
    struct store_stats after;
    uint64_t began = clock_ns();

    n_took = 0;
    store_get_stats(st, &before);
    for (size_t i = 0; i < IN_FLIGHT; i++) {
        flights[i].st = st;
        start(&flights[i]);
    }
    while (n_took < SHARED) {
        struct pollfd p = {.fd = store_fd(st), .events = POLLIN};

        (void)poll(&p, 1, -1);
        store_dispatch(st);
    }
    uint64_t total = clock_ns() - began;
    store_get_stats(st, &after);
    print("commit, 64 in flight", took, n_took, total);
    printf("%-28s %.1f batches per transaction\n", "",
           (double)SHARED / (double)(after.transactions - before.transactions));
}

static void bench_get(struct store *st)
{
    struct err e;
    uint64_t began = clock_ns();

    n_took = 0;
    for (size_t i = 0; i < READS; i++) {
        struct store_execution *x = NULL;
        char id[STORE_ID_MAX];
        uint64_t before = clock_ns();

        (void)str_format(id, sizeof(id), "shared-%zu", i * 7919 % SHARED);
        if (store_get_execution(st, id, &x, &e) != 0) {
            fprintf(stderr, "%s\n", e.msg);
            abort();
        }
        free(x);
        if (n_took < SHARED) {
            took[n_took++] = clock_ns() - before;
        }
    }
    uint64_t total = (clock_ns() - began) * n_took / READS;
    print("get by id", took, n_took, total);
}

int main(int argc, char **argv)
{
    struct store_options options = {.dir = argc > 1 ? argv[1] : "."};
    struct err e;
    struct store *st = store_open(&options, &e);

    if (st == NULL) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    bench_alone(st);
    bench_shared(st);
    bench_get(st);
    store_close(st);
    return 0;
}
