/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors: ownership, whole reads and writes, and messages that carry descriptors.
 *
 * Every descriptor made here is close-on-exec. Functions return 0 or a count, or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"

#define AUTO_CLOSE AUTO(auto_close_cleanup)
#define FD_MESSAGE_MAX 16 /* descriptors in one message */
#define FD_PILE_MAX 253   /* SCM_MAX_FD: Linux sends no more in one message */

#define FD_SCARCE_PART 8
/* Whether less than that part of the descriptors that this process may open is left. */
bool fd_is_scarce(void);

void fd_close(int *fd); /* closes if >= 0, sets -1, keeps errno */
void auto_close_cleanup(int *fd);

/* Moves a descriptor out of its owner, which is left at -1. */
static inline int take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

/* Reads until n bytes or end of file. Returns how many, or -errno. */
ssize_t fd_read_all(int fd, void *buf, size_t n);
int fd_write_all(int fd, const void *buf, size_t n);

/*
 * Reads a whole small file into buf and ends it with NUL. Returns its length or -errno; -EFBIG if
 * it does not fit.
 */
ssize_t fd_read_file(int dirfd, const char *path, char *buf, size_t size);
int fd_write_file(int dirfd, const char *path, const char *text); /* opens existing, writes once */

/* Descriptors that came with a message or go with it. The struct owns them. */
struct fd_set_msg {
    int fds[FD_MESSAGE_MAX];
    size_t n;
};

void fd_set_release(struct fd_set_msg *set); /* closes all */

/* One sendmsg() with descriptors (borrowed). flags: MSG_*. Returns bytes sent or -errno. */
ssize_t fd_send(int sock, const void *buf, size_t n, const int *fds, size_t nfds, int flags);

/*
 * One recvmsg(). Received descriptors are close-on-exec and land in *set (must be empty before).
 * Returns bytes, 0 at end of file, -errno; -EMSGSIZE when data or descriptors were cut off (all
 * descriptors are closed then). set may be NULL: any descriptor sent is then an error, -EBADMSG.
 */
ssize_t fd_recv(int sock, void *buf, size_t n, struct fd_set_msg *set, int flags);

/* Every descriptor that one message can bring. The struct owns them. */
struct fd_pile {
    int fds[FD_PILE_MAX];
    size_t n;
};

/*
 * Like fd_recv(), but never closes any: for receivers that must not wait for a close(). Always sets
 * pile->n.
 */
ssize_t fd_recv_pile(int sock, void *buf, size_t n, struct fd_pile *pile, int flags);

int fd_set_nonblock(int fd, bool on);

/*
 * A pair of unix stream sockets. No descriptors can be sent to pair[0]: closing a hostile one could
 * block the receiver. Kernels before Linux 6.16 lack this option and accept descriptors. 0 or
 * -errno.
 */
int fd_pair_for_box(int pair[2]);

/*
 * Raises the soft limit of descriptors to the hard one: callers often have a low limit, and a box
 * takes about ten. Children inherit it, so programs that start others unchanged must not call this.
 */
void fd_raise_limit(void);
