/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data folder. It has two owners:
 *
 *     DATA/            of the user that runs the supervisor: no other user can write there
 *       husk.pid         held locked by the supervisor
 *       husk.log         of a detached server; husk.log.1 is the part before it
 *       settings         those that were accepted last
 *       husk.sock        the default socket
 *       store/         of huskd's account (CONFIG_STORE): records, output, copies of workspaces
 *
 * The supervisor trusts the files of the first part, and opens them beneath the folder's
 * descriptor. It reads and writes nothing in store/: huskd can put anything there.
 *
 * Before there was a store/, the whole folder was huskd's. place_open() takes such a folder over
 * and moves what is in it to store/.
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
 * Makes DATA and its store/, or takes over what is there. The descriptor of DATA, or -1. Refuses a
 * folder that belongs to another account, and, as root, one that holds anything else.
 */
int place_open(const struct config *c, struct err *e);

/* The same folder for looking only. -1 with ERR_NOT_FOUND: there is none. */
int place_look(const struct config *c, struct err *e);

/* place_files.c: what is in it; folder: as of place_open() or place_look() */

/*
 * Holds husk.pid locked, with our pid in it. The descriptor or -1. *ret_was_left: the supervisor
 * before us was killed, and its daemon may still be on its way out.
 */
int place_take(int folder, const struct config *c, bool *ret_was_left, struct err *e);
void place_leave(int folder, int pid_file);

/*
 * The pid of the supervisor that holds the folder, from the kernel. ERR_NOT_FOUND: none does. Not
 * for the holder itself: it would lose its lock.
 */
int place_holder(int folder, const struct config *c, pid_t *ret, struct err *e);

/* husk.log for appending. The descriptor or -1. */
int place_open_log(int folder, const struct config *c, struct err *e);
/* What is in husk.log becomes husk.log.1; the new, empty one or -1. */
int place_rotate_log(int folder, const struct config *c, struct err *e);

/* The text as a whole or not at all. */
int place_save_settings(int folder, const struct config *c, const struct buf *text, struct err *e);
/* Appends what was saved. -1 with ERR_NOT_FOUND: nothing was. */
int place_read_settings(int folder, const struct config *c, struct buf *text, struct err *e);
