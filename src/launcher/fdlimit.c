/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of open files; see launcher.h.
 *
 * A message whose descriptors get no number is lost, and with it the client or the zygote that sent
 * it. So the last numbers are reserved for receiving, and a descriptor that stays open must get a
 * number below them, or is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "box/netns.h"
#include "launcher/launcher.h"

/* The most descriptors of a message, the client's socket, the closer's. */
#define FDLIMIT_RESERVED ((rlim_t)FD_PILE_MAX + FD_MESSAGE_MAX)

int fdlimit_open(struct launcher *l, struct err *e)
{
    if (getrlimit(RLIMIT_NOFILE, &l->files) < 0) {
        return err_sys(e, errno, "getrlimit");
    }
    if (l->files.rlim_max < NETNS_FILES_LEAST) {
        return err_set(e, ERR_SYSTEM,
                       "the hard limit of open files is %" PRIu64
                       ": raise it to at least %d (ulimit -Hn)",
                       (uint64_t)l->files.rlim_max, NETNS_FILES_LEAST);
    }
    l->files.rlim_cur = l->files.rlim_max - FDLIMIT_RESERVED;
    return setrlimit(RLIMIT_NOFILE, &l->files) < 0 ? err_sys(e, errno, "setrlimit") : 0;
}

void fdlimit_use_all(const struct launcher *l)
{
    const struct rlimit all = {.rlim_cur = l->files.rlim_max, .rlim_max = l->files.rlim_max};

    (void)setrlimit(RLIMIT_NOFILE, &all);
}

ssize_t fdlimit_recv(struct launcher *l, int sock, void *buf, size_t n, struct fd_set_msg *fds)
{
    struct fd_pile pile;

    fdlimit_use_all(l);
    ssize_t got = fd_recv_pile(sock, buf, n, &pile, MSG_DONTWAIT);
    (void)setrlimit(RLIMIT_NOFILE, &l->files);
    if (got <= 0 || pile.n > FD_MESSAGE_MAX) {
        closer_close(l, pile.fds, pile.n);
        return got > 0 ? -EMSGSIZE : got;
    }
    memcpy(fds->fds, pile.fds, pile.n * sizeof(*pile.fds));
    fds->n = pile.n;
    return got;
}

bool fdlimit_is_low(const struct launcher *l, const struct fd_set_msg *fds)
{
    /* Numbers are given out from the lowest: those below these are in use. */
    return fds->n > 0 &&
           (rlim_t)fds->fds[0] + l->files.rlim_cur / FD_SCARCE_PART > l->files.rlim_cur;
}

int fdlimit_settle(const struct launcher *l, int *fd)
{
    if ((rlim_t)*fd < l->files.rlim_cur) {
        return 0;
    }
    int low = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    if (low < 0) {
        return -errno;
    }
    close(*fd);
    *fd = low;
    return 0;
}
