/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer thread: all that waits becomes one transaction, and is reported after its fsync.
 *
 * How it works: while one transaction is on its way to the disk the next batches gather in the
 * queue; so groups grow with the load, and nothing waits on purpose. A batch that fails for a
 * reason of its own is undone alone (apply.c). A failure of the storage undoes the transaction,
 * the connection is replaced, and all its batches are reported as failed.
 *
 * Must not call back into the owner's code: results go to the list that store_dispatch() empties.
 */
#include <errno.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/str.h"
#include "store/apply.h"
#include "store/internal.h"

#define GROUP_MAX 256
#define GROUP_BYTES (16UL << 20)
#define IDLE_SECONDS 1

/*
 * Pages of 4 KiB. Each 16 MiB the log is written back between groups; from 64 MiB on readers are
 * waited for, but not long: a program that keeps a snapshot open must not stop the daemon.
 */
#define LOG_LARGE 4096
#define LOG_HUGE 16384
#define READERS_MS 50

struct group {
    struct store_batch *batches[GROUP_MAX];
    size_t n;
};

static void fail_group(struct group *g, const struct err *e)
{
    for (size_t i = 0; i < g->n; i++) {
        g->batches[i]->result = (struct store_result){.outcome = STORE_FAILED, .err = *e};
    }
}

static int write_transaction(struct store *st, struct group *g, struct err *e)
{
    FAULT_POINT("store.begin.before");
    if (apply_statement(&st->writer, CONN_BEGIN, "begin", e) != 0) {
        return -1;
    }
    for (size_t i = 0; i < g->n; i++) {
        if (apply_batch(&st->writer, g->batches[i], e) == APPLY_STORAGE_FAILED) {
            return -1;
        }
    }
    FAULT_POINT("store.commit.before");
    int r = apply_statement(&st->writer, CONN_COMMIT, "commit", e);
    FAULT_POINT("store.commit.after");
    return r;
}

/*
 * A new connection, and a write through it. The write is not for its value: a transaction whose
 * fsync failed is still in the log file, behind the last good one, and a crash now would make the
 * next start find it there. The new transaction takes its place.
 */
static void reopen(struct store *st)
{
    char sql[128];

    /* With the epoch: it is not there yet if the store was opened on a full disk. */
    (void)str_format(sql, sizeof(sql),
                     "UPDATE meta SET reopened = reopened + 1, epoch = max(epoch, %" PRId64 ")",
                     st->epoch);
    conn_close(&st->writer); /* also rolls back */
    if (store_open_writer(st, &st->broken) == 0 && conn_exec(&st->writer, sql, &st->broken) == 0) {
        st->is_broken = false;
        pthread_mutex_lock(&st->mutex);
        st->stats.reopened++;
        pthread_mutex_unlock(&st->mutex);
    }
}

/* Fills in the results; nothing is reported yet. */
static void write_group(struct store *st, struct group *g)
{
    struct err e = {.code = ERR_NONE};

    if (st->is_broken) {
        reopen(st);
    }
    if (st->is_broken) {
        fail_group(g, &st->broken);
        return;
    }
    if (write_transaction(st, g, &e) == 0) {
        pthread_mutex_lock(&st->mutex);
        st->stats.transactions++;
        pthread_mutex_unlock(&st->mutex);
        return;
    }
    st->is_broken = true;
    st->broken = e;
    reopen(st);
    if (e.sys_errno != ENOSPC || g->n == 1) {
        fail_group(g, &e);
        return;
    }
    /* One that needs much room must not take down those that need little. */
    for (size_t i = 0; i < g->n; i++) {
        struct group one = {.batches = {g->batches[i]}, .n = 1};

        g->batches[i]->result = (struct store_result){.outcome = STORE_DONE};
        write_group(st, &one);
    }
}

static void report_group(struct store *st, const struct group *g)
{
    uint64_t one = 1;

    pthread_mutex_lock(&st->mutex);
    for (size_t i = 0; i < g->n; i++) {
        struct store_batch *batch = g->batches[i];

        st->waiting--;
        st->waiting_bytes -= batch->bytes;
        if (batch->result.outcome == STORE_DONE) {
            st->stats.batches++;
        } else {
            st->stats.failed++;
        }
        if (batch->has_waiter) {
            batch->is_finished = true; /* and is the waiter's once the mutex is free */
        } else {
            batch_list_add(&st->finished, batch);
        }
    }
    st->stats.wal_pages = (uint64_t)st->log_pages;
    pthread_cond_broadcast(&st->news);
    (void)!write(st->event_fd, &one, sizeof(one));
    pthread_mutex_unlock(&st->mutex);
}

/* A failure harms nothing: what is acknowledged is in the log, which stays until this works. */
static void checkpoint(struct store *st)
{
    int mode = st->log_pages >= LOG_HUGE ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
    int in_log = -1;
    int written = -1;

    sqlite3_busy_timeout(st->writer.db, READERS_MS);
    FAULT_POINT("store.checkpoint.before");
    int rc = sqlite3_wal_checkpoint_v2(st->writer.db, NULL, mode, &in_log, &written);
    FAULT_POINT("store.checkpoint.after");
    sqlite3_busy_timeout(st->writer.db, CONN_BUSY_MS);
    if (rc != SQLITE_OK || in_log != written) {
        st->log_limit = st->log_pages + LOG_LARGE;
        return; /* a reader or the disk prevented it: retried later */
    }
    st->log_pages = 0;
    st->log_limit = LOG_LARGE;
    pthread_mutex_lock(&st->mutex);
    st->stats.checkpoints++;
    st->stats.wal_pages = 0;
    pthread_mutex_unlock(&st->mutex);
}

/* With the mutex held: waits for work, or until there is time for housekeeping. */
static void wait_for_work(struct store *st)
{
    struct timespec until;

    if (!st->is_broken && st->log_pages == 0) {
        pthread_cond_wait(&st->work, &st->mutex);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_SECONDS;
    if (pthread_cond_timedwait(&st->work, &st->mutex, &until) != ETIMEDOUT) {
        return;
    }
    pthread_mutex_unlock(&st->mutex);
    if (st->is_broken) {
        reopen(st);
    } else {
        checkpoint(st);
    }
    pthread_mutex_lock(&st->mutex);
}

/* Empty only when the store closes and nothing is left. */
static void take_group(struct store *st, struct group *g)
{
    size_t bytes = 0;

    g->n = 0;
    pthread_mutex_lock(&st->mutex);
    while (st->queue.first == NULL && !st->is_stopping) {
        wait_for_work(st);
    }
    while (st->queue.first != NULL && g->n < GROUP_MAX && bytes < GROUP_BYTES) {
        g->batches[g->n] = batch_list_take(&st->queue);
        bytes += g->batches[g->n]->bytes;
        g->n++;
    }
    pthread_mutex_unlock(&st->mutex);
}

void *writer_main(void *store)
{
    struct store *st = store;
    struct group g;

    st->log_limit = LOG_LARGE;
    for (take_group(st, &g); g.n > 0; take_group(st, &g)) {
        write_group(st, &g);
        report_group(st, &g);
        FAULT_POINT("store.report.after");
        if (!st->is_broken && st->log_pages >= st->log_limit) {
            checkpoint(st);
        }
    }
    return NULL;
}
