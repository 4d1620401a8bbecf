/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killing by process id where cgroup.kill is missing (v1, kernels before 5.14), and removing trees.
 *
 * A pid read from cgroup.procs may belong to another process by the time it is used. So each is
 * turned into a pidfd first and the list is read again: a pid that is still listed was ours when
 * its pidfd was made, or that process is dead and the signal has no effect. The list must be opened
 * again for each read: on v1 a descriptor can show a list that is up to a second old.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/units.h"
#include "box/cgroup_impl.h"

#define CHUNK_BYTES 512
#define CHUNK_PIDS (CHUNK_BYTES / 2) /* a digit and a newline each */
#define DEPTH_MAX 8                  /* boxes make no cgroups; this only bounds the recursion */
#define WAIT_MS 2

/* Reads the pids at offset of the list. Returns how many, 0 at its end, or -errno. */
static int read_pids(int dir_fd, off_t offset, int pids[CHUNK_PIDS], size_t *ret_bytes)
{
    AUTO_CLOSE int fd = -1;
    char text[CHUNK_BYTES + 1];
    int count = 0;

    fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, CHUNK_BYTES, offset);
    if (n < 0) {
        return -errno;
    }
    text[n] = '\0';
    char *line = text;
    for (char *end = strchr(line, '\n'); end != NULL; end = strchr(line, '\n')) {
        pids[count++] = (int)cg_number_at(line);
        line = end + 1;
    }
    *ret_bytes = (size_t)(line - text);
    return count;
}

bool cg_has_members(int dir_fd)
{
    int pids[CHUNK_PIDS];
    size_t ignored;

    return read_pids(dir_fd, 0, pids, &ignored) != 0;
}

static bool is_listed(int pid, const int *pids, int count)
{
    for (int i = 0; i < count; i++) {
        if (pids[i] == pid) {
            return true;
        }
    }
    return false;
}

int cg_kill_members(int dir_fd)
{
    int pids[CHUNK_PIDS] = {0};
    int pidfds[CHUNK_PIDS];
    int again[CHUNK_PIDS];
    size_t bytes = 0;
    size_t ignored;
    int killed = 0;

    for (off_t offset = 0;; offset += (off_t)bytes) {
        int count = read_pids(dir_fd, offset, pids, &bytes);
        if (count <= 0) {
            return count < 0 ? count : killed;
        }
        for (int i = 0; i < count; i++) {
            /* 0 is how a process of another pid namespace is shown. */
            pidfds[i] = pids[i] > 0 ? pidfd_open(pids[i], 0) : -1;
        }
        int listed = read_pids(dir_fd, offset, again, &ignored);
        for (int i = 0; i < count; i++) {
            if (pidfds[i] >= 0 && is_listed(pids[i], again, listed) &&
                pidfd_send_signal(pidfds[i], SIGKILL, NULL, 0) == 0) {
                killed++;
            }
            fd_close(&pidfds[i]);
        }
    }
}

void cg_wait(int events_fd)
{
    struct pollfd p = {.fd = events_fd, .events = POLLPRI};
    const struct timespec timeout = {.tv_nsec = WAIT_MS * NS_PER_MS};

    /* An interruption or a failure only means polling again sooner. */
    (void)ppoll(&p, events_fd >= 0 ? 1 : 0, &timeout, NULL);
}

struct removal {
    uint64_t deadline; /* clock_ms() */
    int depth;
    int failed; /* 0, or why something had to stay */
};

static void kill_in(int dir_fd)
{
    if (fd_write_file(dir_fd, "cgroup.kill", "1") < 0) {
        cg_kill_members(dir_fd);
    }
}

/* Always returns 0, so that a failure here does not keep the next directory. */
static int remove_below(int parent_fd, const char *name, void *arg)
{
    struct removal *removal = arg;
    AUTO_CLOSE int dir = -1;

    dir = cg_open_dir(parent_fd, name);
    if (dir < 0 || removal->depth == DEPTH_MAX) {
        removal->failed = dir == -ENOENT ? removal->failed : -EBUSY;
        return 0;
    }
    removal->depth++;
    cg_each_dir(dir, remove_below, arg);
    removal->depth--;

    while (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        kill_in(dir);
        if (clock_ms() > removal->deadline) {
            removal->failed = -EBUSY;
            return 0;
        }
        cg_wait(-1);
    }
    return 0;
}

int cg_remove(const struct cg_trees *trees, const char *instance)
{
    struct removal removal = {.deadline = clock_ms() + CG_REMOVE_MS};
    int parents[CGROUP_PROCS_MAX];

    /* First stop everything in every tree: what still forks in one cannot be emptied in another. */
    for (size_t i = 0; i < trees->n; i++) {
        AUTO_CLOSE int dir = -1;

        parents[i] = cg_open_dir(trees->tree[i].base_fd, CG_PARENT);
        dir = parents[i] < 0 ? -1 : cg_open_dir(parents[i], instance);
        if (dir >= 0) {
            fd_write_file(dir, "pids.max", "0"); /* holds for all below; absent in most trees */
            kill_in(dir);
        }
    }
    for (size_t i = 0; i < trees->n; i++) {
        if (parents[i] >= 0) {
            remove_below(parents[i], instance, &removal);
        } else if (parents[i] != -ENOENT) {
            removal.failed = parents[i];
        }
        fd_close(&parents[i]);
    }
    return removal.failed;
}
