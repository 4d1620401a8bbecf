/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the store share: the store itself, batches and their queue.
 *
 * Three threads: the owner's has `reader`, the writer's has `writer` and the batches it took from
 * the queue, the reader's has `lister`. Everything below `mutex` is used with it held.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "store/connection.h"
#include "store/store.h"

enum change_kind {
    CHANGE_PUT,
    CHANGE_MOVE,
    CHANGE_CLAIM,
    CHANGE_FREE,
    CHANGE_DELETE,
    CHANGE_EXPIRE
};

struct change {
    enum change_kind kind;
    enum record_type type;
    void *rec;       /* owned copy; of a row to delete only what identifies it */
    int from;        /* CHANGE_MOVE: the status the row must have */
    int64_t expired; /* CHANGE_CLAIM, CHANGE_EXPIRE: keys made until then are free */
};

struct store_batch {
    struct store *st;
    struct change *changes;
    size_t n;
    size_t cap;
    size_t bytes;
    struct err err; /* the first change that could not be taken */
    void (*done)(void *user, const struct store_result *r);
    void *user;
    bool has_waiter;  /* store_commit_wait() frees it, not store_dispatch() */
    bool is_finished; /* under the mutex */
    struct store_result result;
    struct store_batch *next;
};

struct batch_list {
    struct store_batch *first;
    struct store_batch **last; /* where the next one is linked */
};

struct read_queue {
    struct store_read *first;
    struct store_read **last; /* where the next one is linked */
};

struct store {
    char *path; /* of the database */
    int64_t epoch;
    char install_id[33];
    int lock_fd;
    int event_fd;
    size_t queue_max;
    size_t queue_bytes_max;
    int64_t key_retention_ms;

    /*
     * Stays open as long as the store, and has read once. SQLite keeps its index of the log in
     * shared memory while any connection uses it. Would the writer's be the only one, then
     * reopening it after a failed fsync would rebuild the index from the log file, and bring back
     * a transaction that was reported as failed and may never reach the disk.
     */
    struct conn reader;

    struct conn writer;
    bool is_broken;    /* writer thread: the connection must be replaced before the next use */
    struct err broken; /* why */
    int log_pages;     /* writer thread: in the log since the last complete checkpoint */
    int log_limit;     /* writer thread: at so many pages the next checkpoint is tried */
    pthread_t thread;

    struct conn lister;
    pthread_t lister_thread;

    pthread_mutex_t mutex;
    pthread_cond_t work; /* for the writer: the queue or is_stopping changed */
    pthread_cond_t asks; /* for the reader: `asked` or is_stopping changed */
    pthread_cond_t news; /* for store_commit_wait(): a batch is finished */
    struct batch_list queue;
    struct batch_list finished; /* callbacks that are due */
    size_t waiting;             /* batches handed over and not finished */
    size_t waiting_bytes;
    struct read_queue asked;    /* lists that wait to be read */
    struct read_queue answered; /* done() of these is due */
    size_t reads;               /* in both */
    bool is_stopping;
    struct store_stats stats;
};

void batch_list_add(struct batch_list *l, struct store_batch *batch);
struct store_batch *batch_list_take(struct batch_list *l); /* NULL when empty */

/* A connection for the writer with everything set; replaces the old one. */
int store_open_writer(struct store *st, struct err *e);

void *writer_main(void *store);
void *reader_main(void *store);
void reader_dispatch(struct store *st); /* runs done() of what was read */
