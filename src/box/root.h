/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A template's root and the zygote that lives in it: builds the mount tree from descriptors that
 * the operator opened, then becomes the zygote's program.
 *
 * root_plan_* run in the launcher before the clone (they need its rights over the host's mounts);
 * root_enter() runs in the cloned child and never returns on success.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "box/cgroup.h"
#include "box/zygote_confine.h"

#define ROOT_PLACES_MAX 96
#define ROOT_PATH_MAX 256
#define ROOT_ARGS_MAX 160
#define ROOT_ENV_MAX 64
#define ROOT_WRITABLE_SIZE 1024 /* of the list of writable places */
#define ROOT_COPY_MAX ((size_t)1 << 20)
#define ZYGOTE_FD 3 /* the zygote's socket to the launcher */

struct root_place {
    char path[ROOT_PATH_MAX];
    char link[ROOT_PATH_MAX]; /* not empty: a symbolic link with this text */
    int tree;                 /* detached mount, or -1 */
    int source;               /* readable file whose content is copied, or -1 */
    bool is_dir;
    bool writable;
};

struct root_plan {
    struct root_place places[ROOT_PLACES_MAX];
    size_t n_places;
    char *args[ROOT_ARGS_MAX + 1]; /* owned strings, NULL-terminated */
    size_t n_args;
    char *env[ROOT_ENV_MAX + 1];
    size_t n_env;
};

/* Ids of a writable mount: the file system's owner becomes the box's user. */
struct root_owner {
    bool map; /* give the mount an id map at all */
    /*
     * Caller and client are one user without rights over the host: only then may a source from
     * another mount namespace be opened again by its name.
     */
    bool same_user;
    uint32_t uid; /* owner on the host */
    uint32_t gid;
    uint64_t box_uid; /* host id of the box's user */
};

/* A box mounts its own file systems there, which would hide what a template puts below. */
bool root_is_hidden(const char *path);

void root_plan_release(struct root_plan *plan);

/*
 * Adds what fd shows at path. The mount is cloned here (fd is borrowed), recursively nosuid and
 * nodev, read-only unless writable. A source from another mount namespace is refused unless
 * owner->same_user.
 */
int root_plan_mount(struct root_plan *plan, int fd, const char *path, bool writable,
                    const struct root_owner *owner, struct err *e);
/* Adds a copy of a small file that fd is open for reading. */
int root_plan_copy(struct root_plan *plan, int fd, const char *path, struct err *e);
int root_plan_link(struct root_plan *plan, const char *path, const char *text, struct err *e);
int root_plan_arg(struct root_plan *plan, const char *text, struct err *e);
/* Names that begin with HUSK_ are ours. */
int root_plan_env(struct root_plan *plan, const char *text, struct err *e);
/* When all places are known: tells the zygote which of them its boxes may write. */
int root_plan_writable(struct root_plan *plan, struct err *e);

struct root_entry {
    const struct root_plan *plan;
    int socket;                  /* becomes ZYGOTE_FD */
    int errors;                  /* becomes stderr */
    int devices;                 /* detached mount for /dev, or -1: bind the host's devices */
    int procs[CGROUP_PROCS_MAX]; /* joined first */
    size_t n_procs;
    bool single_id;
    struct zygote_confinement confinement;
};

/*
 * Child side: id maps are written. Builds the root, pivots into it, confines itself,
 * execs. Returns only on failure.
 */
int root_enter(const struct root_entry *entry, struct err *e);
