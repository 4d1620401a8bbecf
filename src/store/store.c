/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing the store.
 *
 * The order of opening is what keeps a file safe: the lock first, then a look that changes nothing,
 * and only a file that passed it is migrated and written to.
 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "store/internal.h"
#include "store/lock.h"
#include "store/migrations.h"

#define QUEUE_MAX 4096
#define QUEUE_BYTES_MAX (64UL << 20)
#define KEY_RETENTION_MS (24LL * 60 * 60 * 1000)

static int on_log(void *user, sqlite3 *db, const char *name, int pages)
{
    struct store *st = user;

    st->log_pages = pages;
    return SQLITE_OK;
}

int store_open_writer(struct store *st, struct err *e)
{
    if (conn_open(&st->writer, st->path, e) != 0) {
        return -1;
    }
    if (conn_set_writer(&st->writer, e) != 0) {
        conn_close(&st->writer);
        return err_wrap(e, "%s", st->path);
    }
    sqlite3_wal_hook(st->writer.db, on_log, st);
    return 0;
}

/*
 * Made here and not by SQLite for its mode: the records hold code and results of users. Also tells
 * a read-only place from a broken one. Must not happen while SQLite has the file open: closing any
 * descriptor of it would drop its locks.
 */
static int make_file(const char *path, struct err *e)
{
    AUTO_CLOSE int fd = -1;

    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_disk(e, errno, "%s", path);
    }
    return 0;
}

/* Without a checkpoint when it closes: a file that is refused stays as it is, with its log. */
static int check_file(const char *path, struct err *e)
{
    struct conn c = {.db = NULL};

    if (conn_open(&c, path, e) != 0) {
        return -1;
    }
    sqlite3_db_config(c.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    int rc = schema_check(&c, &schema_current, path, e);
    if (rc == 0 && sqlite3_db_readonly(c.db, "main") == 1) {
        rc = err_set(e, ERR_STORAGE, "%s is read-only", path);
    }
    conn_close(&c);
    return rc;
}

/*
 * On a full disk it begins all the same, so that what is there can be read: the number is then
 * part of the first change that the disk takes (writer.c), and no record bears it before.
 */
static int start_epoch(struct store *st, struct err *e)
{
    FAULT_POINT("store.epoch.before");
    st->is_broken = conn_exec(&st->writer, "UPDATE meta SET epoch = epoch + 1", e) != 0;
    if (st->is_broken && e->sys_errno != ENOSPC && e->sys_errno != EDQUOT) {
        return -1;
    }
    FAULT_POINT("store.epoch.after");
    st->broken = *e;
    if (conn_int(&st->writer, "SELECT epoch FROM meta", &st->epoch, e) != 0) {
        return -1;
    }
    st->epoch += st->is_broken ? 1 : 0;
    return 0;
}

static int read_install_id(struct store *st, struct err *e)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(st->reader.db, "SELECT install_id FROM meta", -1, &stmt, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
    }
    const char *text = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    bool is_good = text != NULL && str_copy(st->install_id, sizeof(st->install_id), text) == 0;
    sqlite3_finalize(stmt);
    return is_good ? 0 : conn_err(&st->reader, rc, "install id", e);
}

/* The name of a new file must survive a power loss, like its content. */
static int sync_dir(const char *dir, struct err *e)
{
    AUTO_CLOSE int fd = -1;

    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        return err_disk(e, errno, "%s", dir);
    }
    return 0;
}

static int open_files(struct store *st, const char *dir, struct err *e)
{
    AUTO_FREE char *full = NULL;

    full = realpath(dir, NULL); /* a reopening must not depend on the working directory */
    if (full == NULL) {
        return err_sys(e, errno, "data directory %s", dir);
    }
    if (asprintf(&st->path, "%s/husk.db", full) < 0) {
        st->path = NULL;
        return err_sys(e, ENOMEM, "data directory %s", dir);
    }
    st->lock_fd = lock_take(full, e);
    if (st->lock_fd < 0 || make_file(st->path, e) != 0 || check_file(st->path, e) != 0) {
        return -1;
    }
    FAULT_POINT("store.checked");
    if (store_open_writer(st, e) != 0 || schema_migrate(&st->writer, &schema_current, e) != 0 ||
        start_epoch(st, e) != 0 || sync_dir(full, e) != 0) {
        return -1;
    }
    if (conn_open(&st->reader, st->path, e) != 0 || conn_set_reader(&st->reader, e) != 0 ||
        conn_open(&st->lister, st->path, e) != 0 || conn_set_reader(&st->lister, e) != 0) {
        return -1;
    }
    return read_install_id(st, e);
}

static void stop(struct store *st)
{
    pthread_mutex_lock(&st->mutex);
    st->is_stopping = true;
    pthread_cond_signal(&st->work);
    pthread_cond_signal(&st->asks);
    pthread_mutex_unlock(&st->mutex);
}

/* Signals are for the owner's thread. */
static int start_threads(struct store *st, struct err *e)
{
    sigset_t all;
    sigset_t before;

    st->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (st->event_fd < 0) {
        return err_sys(e, errno, "eventfd");
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&st->lister_thread, NULL, reader_main, st);
    bool has_reader = rc == 0;
    rc = rc != 0 ? rc : pthread_create(&st->thread, NULL, writer_main, st);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0 && has_reader) {
        stop(st);
        pthread_join(st->lister_thread, NULL);
    }
    return rc != 0 ? err_sys(e, rc, "threads of the store") : 0;
}

static struct store *new_store(const struct store_options *o)
{
    struct store *st = calloc(1, sizeof(*st));
    pthread_condattr_t attr;

    if (st == NULL) {
        return NULL;
    }
    st->lock_fd = -1;
    st->event_fd = -1;
    st->queue_max = o->queue_max > 0 ? o->queue_max : QUEUE_MAX;
    st->queue_bytes_max = o->queue_bytes_max > 0 ? o->queue_bytes_max : QUEUE_BYTES_MAX;
    st->key_retention_ms = o->key_retention_ms > 0 ? o->key_retention_ms : KEY_RETENTION_MS;
    st->queue.last = &st->queue.first;
    st->finished.last = &st->finished.first;
    st->asked.last = &st->asked.first;
    st->answered.last = &st->answered.first;
    pthread_mutex_init(&st->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&st->work, &attr);
    pthread_cond_init(&st->asks, &attr);
    pthread_cond_init(&st->news, &attr);
    pthread_condattr_destroy(&attr);
    return st;
}

/* The writer's connection last: it is the one that may write the log back. */
static void free_store(struct store *st)
{
    conn_close(&st->lister);
    conn_close(&st->reader);
    conn_close(&st->writer);
    fd_close(&st->event_fd);
    fd_close(&st->lock_fd);
    pthread_cond_destroy(&st->work);
    pthread_cond_destroy(&st->asks);
    pthread_cond_destroy(&st->news);
    pthread_mutex_destroy(&st->mutex);
    free(st->path);
    free(st);
}

struct store *store_open(const struct store_options *options, struct err *e)
{
    struct store *st = new_store(options);

    if (st == NULL) {
        err_sys(e, ENOMEM, "store");
        return NULL;
    }
    if (open_files(st, options->dir, e) != 0 || start_threads(st, e) != 0) {
        free_store(st);
        return NULL;
    }
    return st;
}

void store_close(struct store *st)
{
    if (st == NULL) {
        return;
    }
    stop(st);
    pthread_join(st->thread, NULL);
    pthread_join(st->lister_thread, NULL);
    store_dispatch(st);
    free_store(st);
}

int64_t store_epoch(const struct store *st)
{
    return st->epoch;
}

const char *store_install_id(const struct store *st)
{
    return st->install_id;
}

void store_get_stats(struct store *st, struct store_stats *ret)
{
    pthread_mutex_lock(&st->mutex);
    *ret = st->stats;
    ret->queued = st->waiting;
    pthread_mutex_unlock(&st->mutex);
}
