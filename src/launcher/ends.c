/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which descriptors a client may give to a box, and which it may have kept; see launcher.h.
 *
 * The control socket is one end of an AF_UNIX stream socketpair, and each standard stream is an end
 * of an unnamed pipe. The launcher asks the kernel about each descriptor, so that a compromised
 * client cannot pass a directory, a device or a socket of the host's network into a box. A stream
 * and not SOCK_SEQPACKET: a frame can be larger than a packet.
 *
 * Must not: read, write or change any of the descriptors.
 */
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>

#include "launcher/launcher.h"

static bool has_option(int fd, int option, int want)
{
    int value = -1;
    socklen_t size = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == want;
}

/* Neither end has a name: an address holds its family only. Fails for a socket without a peer. */
static bool is_unnamed(int fd)
{
    struct sockaddr_un own;
    struct sockaddr_un peer;
    socklen_t own_size = sizeof(own);
    socklen_t peer_size = sizeof(peer);

    return getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
           own_size == sizeof(own.sun_family) &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 &&
           peer_size == sizeof(peer.sun_family);
}

static bool is_pair_end(int fd)
{
    return has_option(fd, SO_DOMAIN, AF_UNIX) && has_option(fd, SO_TYPE, SOCK_STREAM) &&
           has_option(fd, SO_ACCEPTCONN, 0) && is_unnamed(fd);
}

/* A named FIFO lies in a file system of the host; pipe() makes its ends in pipefs. */
static bool is_pipe_end(int fd)
{
    struct statfs fs;
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && fstatfs(fd, &fs) == 0 &&
           fs.f_type == PIPEFS_MAGIC;
}

int ends_check(const struct fd_set_msg *fds, struct err *e)
{
    if (fds->n != LAUNCHER_BOX_FDS) {
        return err_set(e, ERR_INVALID, "a box takes %d descriptors, not %zu", LAUNCHER_BOX_FDS,
                       fds->n);
    }
    if (!is_pair_end(fds->fds[0])) {
        return err_set(e, ERR_INVALID,
                       "descriptor 0 of a box is not an end of a unix stream socketpair");
    }
    for (size_t i = 1; i < fds->n; i++) {
        if (!is_pipe_end(fds->fds[i])) {
            return err_set(e, ERR_INVALID, "descriptor %zu of a box is not an end of a pipe", i);
        }
    }
    return 0;
}

int ends_check_kept(const struct fd_set_msg *fds, struct err *e)
{
    for (size_t i = 0; i < fds->n; i++) {
        if (!is_pair_end(fds->fds[i]) && !is_pipe_end(fds->fds[i])) {
            return err_set(e, ERR_INVALID,
                           "descriptor %zu to keep is not an end of a socketpair or a pipe", i);
        }
    }
    return 0;
}
