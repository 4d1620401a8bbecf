/* SPDX-License-Identifier: Apache-2.0 */
/* The faulty layer; see fault_vfs.h. Each file of ours has SQLite's file right behind it. */
#include "fault_vfs.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

struct fault_file {
    sqlite3_file base;
    const char *name; /* SQLite keeps it as long as the file is open; NULL for temporary files */
    sqlite3_file real[];
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned syncs;
    int failing;
    bool is_holding;
    bool is_held;
    char record_dir[256];
    char deleted[600]; /* in record_dir, once the directory is synced */
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs fault_vfs;

static sqlite3_file *real_of(sqlite3_file *f)
{
    return ((struct fault_file *)f)->real;
}

#define PASS(name, params, args)                                                                   \
    static int pass_##name params                                                                  \
    {                                                                                              \
        return real_of(f)->pMethods->name args;                                                    \
    }

PASS(xClose, (sqlite3_file * f), (real_of(f)))
PASS(xRead, (sqlite3_file * f, void *p, int n, sqlite3_int64 at), (real_of(f), p, n, at))
PASS(xWrite, (sqlite3_file * f, const void *p, int n, sqlite3_int64 at), (real_of(f), p, n, at))
PASS(xTruncate, (sqlite3_file * f, sqlite3_int64 size), (real_of(f), size))
PASS(xFileSize, (sqlite3_file * f, sqlite3_int64 *size), (real_of(f), size))
PASS(xLock, (sqlite3_file * f, int level), (real_of(f), level))
PASS(xUnlock, (sqlite3_file * f, int level), (real_of(f), level))
PASS(xCheckReservedLock, (sqlite3_file * f, int *out), (real_of(f), out))
PASS(xFileControl, (sqlite3_file * f, int op, void *arg), (real_of(f), op, arg))
PASS(xSectorSize, (sqlite3_file * f), (real_of(f)))
PASS(xDeviceCharacteristics, (sqlite3_file * f), (real_of(f)))
PASS(xShmMap, (sqlite3_file * f, int page, int size, int extend, void volatile **out),
     (real_of(f), page, size, extend, out))
PASS(xShmLock, (sqlite3_file * f, int at, int n, int flags), (real_of(f), at, n, flags))
PASS(xShmUnmap, (sqlite3_file * f, int is_delete), (real_of(f), is_delete))

static void pass_xShmBarrier(sqlite3_file *f)
{
    real_of(f)->pMethods->xShmBarrier(real_of(f));
}

/*
 * By a rename, so that a kill in the middle leaves the copy of before. Read through SQLite's own
 * file: closing another descriptor of it would drop its locks.
 */
static void copy_file(sqlite3_file *f, const char *name, const char *dir)
{
    char temporary[600];
    char target[600];
    char bytes[4096];
    sqlite3_int64 size = 0;

    snprintf(temporary, sizeof(temporary), "%s/copying", dir);
    snprintf(target, sizeof(target), "%s/%s", dir, strrchr(name, '/') + 1);
    CHECK_INT(pass_xFileSize(f, &size), SQLITE_OK);
    int out = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(out >= 0);
    for (sqlite3_int64 at = 0; at < size;) {
        int n = size - at < (int)sizeof(bytes) ? (int)(size - at) : (int)sizeof(bytes);

        CHECK_INT(pass_xRead(f, bytes, n, at), SQLITE_OK);
        CHECK_INT(write(out, bytes, (size_t)n), n);
        at += n;
    }
    CHECK(close(out) == 0 && rename(temporary, target) == 0);
}

/* SQLite syncs the directory when it syncs a new file, which is what follows its deletions. */
static void record_delete(void)
{
    if (state.deleted[0] != '\0') {
        CHECK_INT(unlink(state.deleted), 0);
        state.deleted[0] = '\0';
    }
}

static int fault_sync(sqlite3_file *f, int flags)
{
    const char *name = ((struct fault_file *)f)->name;

    pthread_mutex_lock(&state.mutex);
    while (state.is_holding) {
        state.is_held = true;
        pthread_cond_broadcast(&state.changed);
        pthread_cond_wait(&state.changed, &state.mutex);
    }
    state.is_held = false;
    bool fails = state.failing != 0;
    state.failing -= state.failing > 0 ? 1 : 0;
    int rc = fails ? SQLITE_IOERR_FSYNC : real_of(f)->pMethods->xSync(real_of(f), flags);
    if (rc == SQLITE_OK) {
        state.syncs++;
        if (state.record_dir[0] != '\0' && name != NULL) {
            copy_file(f, name, state.record_dir);
            record_delete();
        }
    }
    pthread_mutex_unlock(&state.mutex);
    return rc;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = pass_xClose,
    .xRead = pass_xRead,
    .xWrite = pass_xWrite,
    .xTruncate = pass_xTruncate,
    .xSync = fault_sync,
    .xFileSize = pass_xFileSize,
    .xLock = pass_xLock,
    .xUnlock = pass_xUnlock,
    .xCheckReservedLock = pass_xCheckReservedLock,
    .xFileControl = pass_xFileControl,
    .xSectorSize = pass_xSectorSize,
    .xDeviceCharacteristics = pass_xDeviceCharacteristics,
    .xShmMap = pass_xShmMap,
    .xShmLock = pass_xShmLock,
    .xShmBarrier = pass_xShmBarrier,
    .xShmUnmap = pass_xShmUnmap,
};

static int fault_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct fault_file *file = (struct fault_file *)f;
    int rc = real_vfs->xOpen(real_vfs, name, file->real, flags, out);

    file->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
    file->name = name;
    return rc;
}

static int fault_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
    pthread_mutex_lock(&state.mutex);
    if (state.record_dir[0] != '\0') {
        record_delete();
        snprintf(state.deleted, sizeof(state.deleted), "%s/%s", state.record_dir,
                 strrchr(name, '/') + 1);
    }
    pthread_mutex_unlock(&state.mutex);
    return real_vfs->xDelete(real_vfs, name, sync_dir);
}

void fault_vfs_install(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    fault_vfs = *real_vfs;
    fault_vfs.zName = "fault";
    fault_vfs.szOsFile = (int)sizeof(struct fault_file) + real_vfs->szOsFile;
    fault_vfs.xOpen = fault_open;
    fault_vfs.xDelete = fault_delete;
    CHECK_INT(sqlite3_vfs_register(&fault_vfs, 1), SQLITE_OK);
}

unsigned fault_vfs_syncs(void)
{
    pthread_mutex_lock(&state.mutex);
    unsigned syncs = state.syncs;
    pthread_mutex_unlock(&state.mutex);
    return syncs;
}

void fault_vfs_fail_syncs(int n)
{
    pthread_mutex_lock(&state.mutex);
    state.failing = n;
    pthread_mutex_unlock(&state.mutex);
}

static void set_holding(bool on)
{
    pthread_mutex_lock(&state.mutex);
    state.is_holding = on;
    pthread_cond_broadcast(&state.changed);
    pthread_mutex_unlock(&state.mutex);
}

void fault_vfs_hold(void)
{
    set_holding(true);
}

void fault_vfs_release(void)
{
    set_holding(false);
}

void fault_vfs_wait_until_held(void)
{
    pthread_mutex_lock(&state.mutex);
    while (!state.is_held) {
        pthread_cond_wait(&state.changed, &state.mutex);
    }
    pthread_mutex_unlock(&state.mutex);
}

void fault_vfs_record(const char *dir)
{
    pthread_mutex_lock(&state.mutex);
    snprintf(state.record_dir, sizeof(state.record_dir), "%s", dir);
    pthread_mutex_unlock(&state.mutex);
}
