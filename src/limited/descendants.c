/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends all descendants of this process; see limited_impl.h.
 *
 * A subreaper inherits the children of every descendant that dies, so killing its own children
 * again and again reaches all of them. A program that forks faster than it is killed needs a
 * cgroup.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "limited/limited_impl.h"

static void kill_children(void)
{
    AUTO_CLOSE int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    char text[4096];

    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    char *at = text;
    char *end;
    for (long pid = strtol(at, &end, 10); end != at && *end == ' '; pid = strtol(at, &end, 10)) {
        kill((pid_t)pid, SIGKILL); /* our child until we wait for it, so the pid cannot be reused */
        at = end;
    }
}

void descendants_end(pid_t *pid, int *status)
{
    uint64_t deadline = clock_ms() + LIMITED_END_MS;
    pid_t found;
    int how;

    do {
        kill_children();
        while ((found = waitpid(-1, &how, WNOHANG)) > 0) {
            if (found == *pid) {
                *pid = 0;
                *status = how;
            }
        }
        if (found < 0) {
            return;
        }
        (void)poll(NULL, 0, 1);
    } while (clock_ms() < deadline);
}
