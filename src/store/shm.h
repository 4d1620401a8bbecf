/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for the index of the log before it is used.
 *
 * SQLite maps husk.db-shm and writes to the mapping. It asks for room by one byte in each page of
 * memory; where blocks of the file system are smaller, or are found only when written back, a full
 * disk would end the process with SIGBUS. With this it is an error like any other: "disk is full".
 */
#pragma once

#include <sqlite3.h>

struct shm {
    sqlite3_io_methods methods; /* the file's own, with our way to map */
    int (*map)(sqlite3_file *file, int region, int size, int extend, void volatile **ret);
};

/*
 * Of a connection that was just opened. *shm must stay where it is until the connection is closed.
 */
void shm_watch(struct shm *shm, sqlite3 *db);
