/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of a session, whole and sorted by name. Bounded: a directory with more than that is
 * refused, because a part of it could not be sorted. What is deeper than FILES_DEPTH_MAX, or in
 * directories that cannot be read, is left out.
 */
#pragma once

#include "api/files/file_work.h"
#include "base/buf.h"

#define FILE_LIST_MAX 100000                   /* entries */
#define FILE_LIST_NAMES_MAX ((size_t)32 << 20) /* bytes of all names and targets */

struct file_list_entry {
    struct files_info info;
    const char *name;   /* NUL-terminated, in names, like the next */
    const char *target; /* where a link leads, else "" */
};

struct file_list {
    struct file_list_entry *entries; /* sorted */
    size_t n;
    size_t cap;
    struct buf names;
};

#define AUTO_FILE_LIST AUTO(file_list_release)

/* -1: answered, and the work has ended. Otherwise the work goes on. ret must be zeroed. */
int file_list_read(struct file_work *w, const char *path, bool recursive, struct file_list *ret);
void file_list_release(struct file_list *list);
