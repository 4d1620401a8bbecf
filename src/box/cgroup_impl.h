/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the cgroup*.c files: what a hierarchy, a box's directories and a resource look like.
 *
 * A tree is one mounted hierarchy that we use; the unified one, if any, comes first, because a box
 * that has joined it can be killed as a whole from then on. A resource (memory, cpu, ...) lives in
 * one tree, and the names of its files depend on the tree's version: cg_v1_ops and cg_v2_ops. So a
 * host that has some controllers in v1 and others in v2 needs no code of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "box/cgroup.h"

#define CG_PARENT "husk"    /* holds our instances, in each tree */
#define CG_SELF "husk-self" /* v2: leaf for a launcher that starts in the parent of its boxes */
#define CG_NAME_SIZE 64     /* what str_is_name() allows, and a NUL */
#define CG_TEXT_SIZE 16384  /* the largest control file: one line per block device */
#define CG_PART_FILES 4
#define CG_MEMORY_PEAK 1     /* where the peak is among the files of memory, in both versions */
#define CG_REMOVE_MS 2000    /* how long a dying cgroup is waited for */
#define CG_PERIOD_US 100000  /* of the CPU quota */
#define CG_QUOTA_MIN_US 1000 /* the kernel refuses less */
/* Bytes that a recycled cgroup may bring to the next box. */
#define CG_RESIDUE_MAX ((uint64_t)1 << 20)

enum cg_resource { CG_MEMORY, CG_CPU, CG_CPUACCT, CG_PIDS, CG_IO, CG_RESOURCES };

#define CG_BIT(resource) (1u << (resource))

struct cg_tree {
    unsigned resources; /* CG_BIT()s that we use in this hierarchy */
    bool unified;
    int base_fd; /* CG_PARENT is made below this */
    int dir_fd;  /* CG_PARENT/<instance>, made by us; -1 until then */
};

struct cg_trees {
    struct cg_tree tree[CGROUP_PROCS_MAX];
    size_t n;
};

struct cgroup_host {
    struct cgroup_facts facts;
    struct cg_trees trees;
    char instance[CG_NAME_SIZE];
};

/* One resource of one cgroup. */
struct cg_part {
    const struct cg_ops *ops; /* NULL: nothing controls it on this host */
    int dir_fd;               /* borrowed: the cgroup's directory in the resource's tree */
    int fd[CG_PART_FILES];    /* owned, in the order of ops->files; -1: this kernel lacks it */
};

struct cg_file {
    const char *name;
    bool writable;
    bool is_own;   /* never given to others */
    bool optional; /* some supported kernel lacks it */
};

/* How one version of cgroups handles one resource. Any function may be NULL. 0 or -errno. */
struct cg_ops {
    const char *needs;                   /* the file that proves that the limit can be set */
    struct cg_file files[CG_PART_FILES]; /* kept open; ends at the first without a name */
    int (*prepare)(const struct cg_part *p);
    int (*limit)(const struct cg_part *p, const struct limits *l);
    int (*oom)(const struct cg_part *p, bool takes_one); /* NULL: it takes one in any case */
    void (*usage)(const struct cg_part *p, struct cgroup_usage *ret); /* since the kernel made it */
    int (*reset)(const struct cg_part *p); /* what can be; -EBUSY: it must not be used again */
};

/* One box's directories. */
struct cgroup {
    const struct cgroup_host *host;
    size_t first; /* of the host's trees that it has directories in */
    char name[CG_NAME_SIZE];
    bool made[CGROUP_PROCS_MAX]; /* these three in the order of the host's trees */
    int dirs[CGROUP_PROCS_MAX];
    int procs[CGROUP_PROCS_MAX];
    int events; /* the unified twin's cgroup.events; -1: there is no twin */
    int kill;   /* its cgroup.kill; -1: this kernel lacks it */
    struct cg_part parts[CG_RESOURCES];
    bool folded;              /* only directories and counters are open, */
    bool is_waiting;          /* or not even those of v1 */
    bool oom_takes_one;       /* see cgroup_set_oom() */
    bool is_frozen;           /* see cgroup_freeze() */
    struct limits set;        /* what was written last; memory_bytes 0: nothing yet */
    struct cgroup_usage base; /* raw counters when this box began */
};

extern const struct cg_ops *const cg_v1_ops[CG_RESOURCES];
extern const struct cg_ops *const cg_v2_ops[CG_RESOURCES];
extern const struct cg_ops cg_pids_ops; /* the same files in both versions */

/* cgroup_find.c: looks for the hierarchies that we can use; makes nothing. */
void cg_find(struct cg_trees *ret, struct cgroup_facts *ret_facts);
void cg_trees_release(struct cg_trees *trees);
void cg_facts_update(struct cgroup_facts *facts, const struct cg_trees *trees);
/* Keeps the first reason why a limit is missing. */
void cg_lack(struct cgroup_facts *facts, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool cg_list_has(const char *list, const char *word); /* words between spaces or commas */

/* cgroup_v2.c: what the unified tree offers below base, and turning it on for dir's children. */
unsigned cg_v2_offers(int base_fd, struct cgroup_facts *facts);
void cg_v2_enable(int dir_fd, unsigned *resources, struct cgroup_facts *facts);

/*
 * cgroup_kill.c. cg_kill_members() signals what cgroup.procs lists and returns how many or -errno;
 * cg_remove() kills and removes CG_PARENT/<instance> with all below it, in every tree.
 */
int cg_kill_members(int dir_fd);
bool cg_has_members(int dir_fd); /* in doubt, true */
int cg_remove(const struct cg_trees *trees, const char *instance);
void cg_wait(int events_fd); /* for a change in cgroup.events (-1: none), but not for long */

/* cgroup_view.c: files that are given to others, and so stay open as long as the box lives. */
bool cg_is_counter(const char *name);

/* cgroup_file.c. Reading: 0 when the descriptor is -1 or the file does not hold that. */
uint64_t cg_number_at(const char *text); /* ends at a space or newline; 0 if it is none */
uint64_t cg_sum(const char *text, const char *key); /* of the numbers right behind each key */
uint64_t cg_quota_us(const struct limits *l);
uint64_t cg_read_u64(int fd);
uint64_t cg_read_key(int fd, const char *key);   /* from lines of "key value" */
ssize_t cg_read(int fd, char *buf, size_t size); /* from the start, NUL-terminated */
int cg_rewrite(int fd, const char *text);
int cg_write_u64(int dir_fd, const char *name, uint64_t value);
int cg_open_dir(int dir_fd, const char *name); /* a descriptor or -errno */
/* A file of ours in dir_fd. 0 with *ret open or, if it may be missing, -1; else -errno. */
int cg_open_file(int dir_fd, const struct cg_file *file, int *ret);
/* The file that moves a process that writes "0" to it. Returns likewise. */
int cg_open_procs(int dir_fd, bool unified, int *ret);
/* Visits the directories in dir_fd until one returns other than 0, and returns that. */
int cg_each_dir(int dir_fd, int (*visit)(int dir_fd, const char *name, void *arg), void *arg);
