/* SPDX-License-Identifier: Apache-2.0 */
/* What the cgroup tests share: a host, boxes without rights in it, and a look at its files. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/units.h"
#include "box/cgroup.h"

#define NOBODY 65534

/* Small enough for every machine; a test changes what it is about. */
struct limits small_limits(void);

/* A host named for this process, which becomes a subreaper. Skips the test without root. */
struct cgroup_host *open_host(void);
struct cgroup *make_cgroup(struct cgroup_host *host, const char *name, const struct limits *l);
#define AUTO_HOST AUTO(fixture_host_close)
#define AUTO_CGROUP AUTO(fixture_cgroup_free)
void fixture_host_close(struct cgroup_host **host);
void fixture_cgroup_free(struct cgroup **cg);

/* A child that first loses every right and then joins by the descriptors; run() need not return. */
pid_t spawn_in(const struct cgroup *cg, void (*run)(void));
pid_t spawn_stopped(const struct cgroup *cg); /* has joined and stopped when this returns */
void join(const struct cgroup *cg);
int wait_for(pid_t pid);                                     /* its wait status */
void wait_empty(const struct cgroup *cg);                    /* and reaps what is left */
void kill_all(struct cgroup *cg);                            /* and waits until it is empty */
void wait_for_pids(const struct cgroup *cg, uint64_t count); /* until so many are in it */
bool can_recycle(const struct cgroup_host *host);

/* What boxes do. */
void sleep_forever(void);
void use_8_mib(void);
void hog(void);                /* uses 256 MiB */
void fork_until_refused(void); /* exits with the number of children, which sleep */
void fork_100(void);           /* itself counted; all sleep */

/* A file in whichever of the cgroup's directories has it, by absolute path. */
void beside(const struct cgroup *cg, const char *file, char *path, size_t size);
/* The host's own directory in one of its hierarchies. */
void instance_path(struct cgroup_host *host, char *path, size_t size);
uint64_t read_number(const struct cgroup *cg, const char *file, const char *key);
void write_text(const char *path, const char *text);

/* In a mount namespace of its own: unmounts, or makes read-only, what is of that type. */
void hide_mounts(const char *fstype);
void freeze_mounts(const char *fstype);
/* Calls visit for each mount point of that type. */
void each_mount_point(const char *fstype, void (*visit)(const char *point));
