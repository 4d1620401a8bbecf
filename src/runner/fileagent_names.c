/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that have several names, while a copy of the workspace is made; see fileagent_impl.h.
 *
 * A table of packed files, by inode. The time of the last change is part of the key: a file that
 * was changed meanwhile, or that reuses the number of a deleted one, is packed as a file of its
 * own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runner/fileagent_impl.h"

#define SLOTS_FIRST 256u      /* a power of two */
#define NAMES_MAX 65536u      /* files; those beyond are packed once for each name */
#define PATHS_MAX (4u << 20u) /* bytes of their names */

struct agent_name {
    uint64_t inode; /* 0: the slot is free */
    struct timespec changed;
    size_t path; /* where it is in paths */
};

static bool is_same(const struct agent_name *n, const struct stat *st)
{
    return n->inode == st->st_ino && n->changed.tv_sec == st->st_ctim.tv_sec &&
           n->changed.tv_nsec == st->st_ctim.tv_nsec;
}

/* The slot that holds it, or a free one. There is always a free one. */
static struct agent_name *find(const struct agent_names *t, const struct stat *st)
{
    size_t i = (size_t)(st->st_ino * 0x9e3779b97f4a7c15u >> 32) & (t->n_slots - 1);

    while (t->slots[i].inode != 0 && !is_same(&t->slots[i], st)) {
        i = (i + 1) & (t->n_slots - 1);
    }
    return &t->slots[i];
}

static bool grow(struct agent_names *t)
{
    struct agent_names bigger = {.n_slots = t->n_slots == 0 ? SLOTS_FIRST : t->n_slots * 2};

    bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots));
    if (bigger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < t->n_slots; i++) {
        const struct agent_name *n = &t->slots[i];
        if (n->inode != 0) {
            *find(&bigger, &(struct stat){.st_ino = n->inode, .st_ctim = n->changed}) = *n;
        }
    }
    free(t->slots);
    t->slots = bigger.slots;
    t->n_slots = bigger.n_slots;
    return true;
}

const char *agent_names_find(const struct agent_names *t, const struct stat *st)
{
    const struct agent_name *n = st->st_nlink > 1 && t->n_slots > 0 ? find(t, st) : NULL;

    return n != NULL && n->inode != 0 ? t->paths.data + n->path : NULL;
}

void agent_names_add(struct agent_names *t, const struct stat *st, const char *path)
{
    size_t at = t->paths.len;

    if (st->st_nlink < 2 || t->n >= NAMES_MAX || st->st_ino == 0) {
        return;
    }
    t->paths.max = PATHS_MAX;
    if ((t->n >= t->n_slots / 2 && !grow(t)) || buf_add(&t->paths, path, strlen(path) + 1) < 0) {
        return; /* its other names are then packed as files of their own */
    }
    *find(t, st) = (struct agent_name){.inode = st->st_ino, .changed = st->st_ctim, .path = at};
    t->n++;
}

void agent_names_release(struct agent_names *t)
{
    free(t->slots);
    buf_release(&t->paths);
    *t = (struct agent_names){.n = 0};
}
