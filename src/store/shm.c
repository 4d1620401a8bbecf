/* SPDX-License-Identifier: Apache-2.0 */
/* Room for the index of the log; see shm.h. */
#include "store/shm.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* The table that a file points to is a member of ours. */
static struct shm *shm_of(sqlite3_file *file)
{
    uintptr_t at = (uintptr_t)file->pMethods - offsetof(struct shm, methods);

    /* It was const on its way through SQLite. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return (struct shm *)at;
}

static int map(sqlite3_file *file, int region, int size, int extend, void volatile **ret)
{
    int rc = shm_of(file)->map(file, region, size, extend, ret);

    if (rc != SQLITE_OK || *ret == NULL ||
        madvise((void *)*ret, (size_t)size, MADV_POPULATE_WRITE) == 0) {
        return rc;
    }
    if (errno == EINVAL) { /* a kernel before 5.14 does not know it */
        return rc;
    }
    *ret = NULL;
    errno = ENOSPC;
    return SQLITE_FULL;
}

void shm_watch(struct shm *shm, sqlite3 *db)
{
    sqlite3_file *file = NULL;

    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, (void *)&file) != SQLITE_OK ||
        file == NULL || file->pMethods == NULL || file->pMethods->iVersion < 2) {
        return;
    }
    shm->methods = *file->pMethods;
    shm->map = file->pMethods->xShmMap;
    shm->methods.xShmMap = map;
    file->pMethods = &shm->methods;
}
