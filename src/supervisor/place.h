/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data folder. It has two owners:
 *
 *     DATA/            of the user that runs the supervisor: no other user can write there
 *       husk.pid         held locked by the supervisor
 *       husk.log         of a detached server; husk.log.1 has the part before it
 *       settings         those that were accepted last
 *       husk.sock        the default socket
 *       store/         of huskd's account (CONFIG_STORE): records, output, copies of workspaces
 *
 * The supervisor trusts its own files, and opens them beneath the folder's descriptor. It reads and
 * writes nothing in store/, where huskd can create anything.
 *
 * In older versions the whole folder belonged to huskd. place_open() takes such a folder over and
 * moves its content to store/.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

#define PLACE_SETTINGS_MAX ((size_t)64 << 10)

/* place.c: the folder */

/*
 * Creates DATA and its store/, or takes over an existing folder. Returns the descriptor of DATA, or
 * -1. Refuses a folder of another account, and, as root, one that has other content.
 */
int place_open(const struct config *c, struct err *e);

/* Opens the folder without changing it. -1 with ERR_NOT_FOUND: there is none. */
int place_look(const struct config *c, struct err *e);

/* place_files.c: the files in it; folder is from place_open() or place_look() */

/*
 * Locks husk.pid and writes our pid to it. Returns the descriptor or -1. *ret_was_left: the
 * previous supervisor was killed, and its daemon may still be ending.
 */
int place_take(int folder, const struct config *c, bool *ret_was_left, struct err *e);
void place_leave(int folder, int pid_file);

/*
 * The pid of the supervisor that holds the folder, from the kernel. ERR_NOT_FOUND: none does. The
 * holder itself must not call this: it would lose its lock.
 */
int place_holder(int folder, const struct config *c, pid_t *ret, struct err *e);

/* Opens husk.log for appending. The descriptor or -1. */
int place_open_log(int folder, const struct config *c, struct err *e);
/* Renames husk.log to husk.log.1. The descriptor of a new husk.log, or -1. */
int place_rotate_log(int folder, const struct config *c, struct err *e);

/* Replaces the saved text atomically. */
int place_save_settings(int folder, const struct config *c, const struct buf *text, struct err *e);
/* Appends the saved text to the buffer. -1 with ERR_NOT_FOUND: there is none. */
int place_read_settings(int folder, const struct config *c, struct buf *text, struct err *e);
