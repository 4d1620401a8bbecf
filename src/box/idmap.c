/* SPDX-License-Identifier: Apache-2.0 */
/* Id maps; see idmap.h. idmap_write_box() runs in the zygote and must not allocate. */
#include "box/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

uint64_t idmap_ward(uint32_t index)
{
    return IDMAP_FIRST + (uint64_t)index * IDMAP_WARD_BLOCKS * IDMAP_BLOCK;
}

static int write_proc(pid_t pid, const char *file, const char *text, struct err *e)
{
    char path[64];

    (void)str_format(path, sizeof(path), "/proc/%d/%s", pid, file);
    int r = fd_write_file(AT_FDCWD, path, text);
    if (r < 0) {
        return err_sys(e, -r, "write %s", file);
    }
    return 0;
}

static int write_maps(pid_t pid, const char *uid_map, const char *gid_map, struct err *e)
{
    if (write_proc(pid, "uid_map", uid_map, e) < 0) {
        return -1;
    }
    return write_proc(pid, "gid_map", gid_map, e);
}

static int write_range(pid_t pid, uint64_t first, uint64_t count, struct err *e)
{
    char map[96];

    (void)str_format(map, sizeof(map), "0 %" PRIu64 " %" PRIu64 "\n", first, count);
    return write_maps(pid, map, map, e);
}

int idmap_write_zygote(pid_t pid, uint64_t first, uint64_t count, struct err *e)
{
    if (first == 0 && count > 1) {
        return err_set(e, ERR_ISOLATION, "refusing to map a box's ids onto host id 0");
    }
    return write_range(pid, first, count, e);
}

int idmap_write_same(pid_t pid, uint64_t count, struct err *e)
{
    return write_range(pid, 0, count, e);
}

int idmap_write_box(pid_t pid, uint32_t block, uint32_t box_uid, struct err *e)
{
    char map[96];

    if (block == 0) {
        (void)str_format(map, sizeof(map), "%" PRIu32 " 0 1\n", box_uid);
    } else {
        (void)str_format(map, sizeof(map), "0 %" PRIu32 " %u\n", block * IDMAP_BLOCK, IDMAP_BLOCK);
    }
    return write_maps(pid, map, map, e);
}

/*
 * The namespace lives as long as the descriptor; the process only has to exist while it is opened.
 */
int idmap_userns(uint32_t uid, uint32_t gid, uint64_t to, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char path[64];
    char uid_map[96];
    char gid_map[96];

    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid < 0) {
        return err_sys(e, errno, "new user namespace");
    }
    if (pid == 0) {
        pause();
        _exit(0);
    }
    (void)str_format(uid_map, sizeof(uid_map), "%" PRIu32 " %" PRIu64 " 1\n", uid, to);
    (void)str_format(gid_map, sizeof(gid_map), "%" PRIu32 " %" PRIu64 " 1\n", gid, to);
    int r = write_maps(pid, uid_map, gid_map, e);
    if (r == 0) {
        (void)str_format(path, sizeof(path), "/proc/%d/ns/user", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            r = err_sys(e, errno, "open user namespace");
        }
    }
    kill(pid, SIGKILL); /* our own child, not yet reaped: the number cannot be reused */
    (void)waitpid(pid, NULL, 0);
    return r < 0 ? -1 : take_fd(&fd);
}
