/* SPDX-License-Identifier: Apache-2.0 */
/* Which ids of the host boxes can ever get. */
#include "box/idmap.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

#define FIRST_PRIVATE_ID 2147483648u /* as docs/security-model.md says */

/* A process in a user namespace of its own, without maps. */
static pid_t start_unmapped(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0) {
        pause();
        _exit(0);
    }
    CHECK(pid > 0);
    return pid;
}

static void end(pid_t pid)
{
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

/*
 * Sysctl files are the host's id 0's, whatever capabilities it has lost: no map may ever lead
 * there.
 */
TEST(no_zygote_is_mapped_onto_the_hosts_root)
{
    char path[64];
    char map[64];
    struct err e = {0};

    if (geteuid() != 0) {
        SKIP("only root can map a range");
    }
    pid_t pid = start_unmapped();
    CHECK_INT(str_format(path, sizeof(path), "/proc/%d/uid_map", pid), 0);
    CHECK_INT(idmap_write_zygote(pid, 0, IDMAP_BLOCK, &e), -1);
    CHECK_INT(e.code, ERR_ISOLATION);
    CHECK_INT(fd_read_file(AT_FDCWD, path, map, sizeof(map)), 0);
    CHECK_INT(idmap_write_zygote(pid, idmap_ward(0), IDMAP_BLOCK, &e), 0);
    CHECK(fd_read_file(AT_FDCWD, path, map, sizeof(map)) > 0);
    end(pid);
}

TEST(wards_are_private_ids_and_do_not_overlap)
{
    const uint64_t size = (uint64_t)IDMAP_WARD_BLOCKS * IDMAP_BLOCK;

    for (uint32_t i = 0; i < IDMAP_WARDS; i++) {
        CASE("ward %u", i);
        CHECK(idmap_ward(i) >= FIRST_PRIVATE_ID);
        CHECK(i == 0 || idmap_ward(i) >= idmap_ward(i - 1) + size);
        CHECK(idmap_ward(i) + size < UINT32_MAX - 1); /* the last two ids mean "none" */
    }
}
