/* SPDX-License-Identifier: Apache-2.0 */
/* Directories, whole and sorted; see file_list.h. */
#include "api/files/file_list.h"

#include <errno.h>
#include <string.h>

#define ENTRIES_FIRST 64

void file_list_release(struct file_list *list)
{
    free(list->entries);
    buf_release(&list->names);
    *list = (struct file_list){0};
}

static int grow(struct file_list *list)
{
    if (list->n < list->cap) {
        return 0;
    }
    size_t cap = list->cap != 0 ? 2 * list->cap : ENTRIES_FIRST;
    struct file_list_entry *entries = reallocarray(list->entries, cap, sizeof(*entries));
    if (entries == NULL) {
        return -ENOMEM;
    }
    list->entries = entries;
    list->cap = cap;
    return 0;
}

/*
 * Names and targets lie one behind the other, each with a NUL; where is known only once the buffer
 * has stopped moving.
 */
static int on_entry(void *user, const struct files_entry *entry, const char *name,
                    const char *target)
{
    struct file_list *list = user;

    if (grow(list) < 0 || buf_add(&list->names, name, entry->name_len) < 0 ||
        buf_add(&list->names, "", 1) < 0 || buf_add(&list->names, target, entry->target_len) < 0 ||
        buf_add(&list->names, "", 1) < 0) {
        return -1;
    }
    list->entries[list->n++] = (struct file_list_entry){.info = entry->info};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct file_list_entry *left = a;
    const struct file_list_entry *right = b;

    return strcmp(left->name, right->name);
}

int file_list_read(struct file_work *w, const char *path, bool recursive, struct file_list *ret)
{
    struct err e;
    struct box_files_list list = {
        .recursive = recursive, .limit = FILE_LIST_MAX, .on_entry = on_entry, .user = ret};

    ret->names = BUF_INIT(FILE_LIST_NAMES_MAX);
    int r = box_files_list(w->files, path, &list, &e);
    bool is_too_large =
        r < 0 ? box_files_status(w->files) == FILES_ABORTED : list.more && ret->n == FILE_LIST_MAX;
    if (is_too_large) {
        file_work_refuse(w, FILES_TOO_LARGE, "the directory has too many entries to list them");
        return -1;
    }
    if (r < 0) {
        file_work_fail(w, &e);
        return -1;
    }
    const char *next = ret->names.data;
    for (size_t i = 0; i < ret->n; i++) {
        ret->entries[i].name = next;
        next += strlen(next) + 1;
        ret->entries[i].target = next;
        next += strlen(next) + 1;
    }
    if (ret->n > 1) {
        qsort(ret->entries, ret->n, sizeof(ret->entries[0]), by_name);
    }
    return 0;
}
