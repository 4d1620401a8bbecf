/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel shows of the process behind a pidfd; see launcher.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/str.h"
#include "box/sys.h"
#include "launcher/launcher.h"

#define FDINFO_SIZE 512

/* What follows the key in the pidfd's own file of /proc, or NULL. */
static const char *find(int pidfd, const char *key, char text[FDINFO_SIZE])
{
    char path[64];

    (void)str_format(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    ssize_t n = fd_read_file(AT_FDCWD, path, text, FDINFO_SIZE);
    const char *at = n > 0 ? strstr(text, key) : NULL;
    return at != NULL ? at + strlen(key) : NULL;
}

pid_t pidfd_pid(int pidfd)
{
    char text[FDINFO_SIZE];
    const char *at = find(pidfd, "\nPid:\t", text);

    return at != NULL ? (pid_t)strtol(at, NULL, 10) : -1;
}

/* In how many pid namespaces it has a number, from that of /proc on; 0: it is not a process. */
static unsigned count_numbers(int pidfd, long *ret_last)
{
    char text[FDINFO_SIZE];
    char *at = drop_const(find(pidfd, "\nNSpid:", text));
    unsigned n = 0;

    while (at != NULL && *at == '\t') {
        *ret_last = strtol(at + 1, &at, 10);
        n++;
    }
    return n;
}

bool pidfd_is_box(int pidfd)
{
    long number = 0;

    /* First: of an epoll file with a million watches the kernel would print them all. */
    if (sys_pidfd_signal(pidfd, 0) == -EBADF) {
        return false;
    }
    return count_numbers(pidfd, &number) == 3 && number == 1;
}

int pidfd_check_proc(struct err *e)
{
    AUTO_CLOSE int self = pidfd_open(getpid(), 0);
    long number = 0;

    if (self < 0) {
        return err_sys(e, errno, "pidfd_open");
    }
    if (count_numbers(self, &number) != 1) {
        return err_set(e, ERR_ISOLATION,
                       "/proc shows another pid namespace than the one husk runs in: mount a new "
                       "/proc (unshare --mount-proc)");
    }
    return 0;
}
