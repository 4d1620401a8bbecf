/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors; see fd.h. Must stay usable between fork and exec: no allocation, no stdio. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Numbers are given out from the lowest: those below a new one are in use. */
bool fd_is_scarce(void)
{
    struct rlimit files;
    AUTO_CLOSE int lowest = -1;

    lowest = eventfd(0, EFD_CLOEXEC);
    return lowest < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0 ||
           (rlim_t)lowest + files.rlim_cur / FD_SCARCE_PART > files.rlim_cur;
}

void fd_close(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;

        close(*fd);
        *fd = -1;
        errno = saved;
    }
}

void auto_close_cleanup(int *fd)
{
    fd_close(fd);
}

ssize_t fd_read_all(int fd, void *buf, size_t n)
{
    size_t got = 0;

    while (got < n) {
        ssize_t r = read(fd, (char *)buf + got, n - got);
        if (r == 0) {
            break;
        }
        if (r < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        got += (size_t)r;
    }
    return (ssize_t)got;
}

int fd_write_all(int fd, const void *buf, size_t n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t w = write(fd, (const char *)buf + done, n - done);
        if (w < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        if (w == 0) {
            return -EIO; /* the file takes nothing and reports no error: do not spin */
        }
        done += (size_t)w;
    }
    return 0;
}

ssize_t fd_read_file(int dirfd, const char *path, char *buf, size_t size)
{
    AUTO_CLOSE int fd = -1;

    fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }

    ssize_t n = fd_read_all(fd, buf, size);
    if (n < 0) {
        return n;
    }
    if ((size_t)n == size) {
        return -EFBIG;
    }
    buf[n] = '\0';
    return n;
}

int fd_write_file(int dirfd, const char *path, const char *text)
{
    AUTO_CLOSE int fd = -1;
    size_t n = strlen(text);

    fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }

    /* One write: kernel interface files take a whole value or none. */
    ssize_t w = write(fd, text, n);
    if (w < 0) {
        return -errno;
    }
    return (size_t)w == n ? 0 : -EIO;
}

void fd_set_release(struct fd_set_msg *set)
{
    size_t i = 1;

    while (i < set->n && set->fds[i] == set->fds[i - 1] + 1) {
        i++;
    }
    /* Descriptors from a socket have adjacent numbers, which one call closes. */
    bool together = i == set->n && set->fds[0] >= 0 &&
                    close_range((unsigned)set->fds[0], (unsigned)set->fds[i - 1], 0) == 0;
    for (i = 0; i < set->n && !together; i++) {
        fd_close(&set->fds[i]);
    }
    set->n = 0;
}

ssize_t fd_send(int sock, const void *buf, size_t n, const int *fds, size_t nfds, int flags)
{
    union {
        char space[CMSG_SPACE(sizeof(int) * FD_MESSAGE_MAX)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (nfds > FD_MESSAGE_MAX) {
        return -EINVAL;
    }
    if (nfds > 0) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
    }

    for (;;) {
        ssize_t sent = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
        if (sent >= 0) {
            return sent;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

/* Collects all descriptors of a message, also unwanted ones: they are open. */
static size_t collect_fds(struct msghdr *msg, int *fds, size_t most)
{
    size_t count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n && count < most; i++) {
            memcpy(&fds[count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
        }
    }
    return count;
}

/* Bytes or -errno; -EMSGSIZE when something was cut off. The received descriptors are open. */
static ssize_t receive(int sock, struct iovec *iov, int *fds, size_t most, size_t *ret_n, int flags)
{
    union {
        char space[CMSG_SPACE(sizeof(int) * FD_PILE_MAX)];
        struct cmsghdr align;
    } control;
    struct msghdr msg = {
        .msg_iov = iov,
        .msg_iovlen = 1,
        .msg_control = control.space,
        .msg_controllen = CMSG_SPACE(sizeof(int) * most),
    };
    ssize_t got;

    *ret_n = 0;
    do {
        got = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return -errno;
    }
    *ret_n = collect_fds(&msg, fds, most);
    return (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ? -EMSGSIZE : got;
}

ssize_t fd_recv(int sock, void *buf, size_t n, struct fd_set_msg *set, int flags)
{
    struct iovec iov = {.iov_base = buf, .iov_len = n};
    struct fd_set_msg unwanted = {.n = 0};
    struct fd_set_msg *into = set != NULL ? set : &unwanted;

    ssize_t got = receive(sock, &iov, into->fds, FD_MESSAGE_MAX, &into->n, flags);
    if (got < 0) {
        fd_set_release(into);
        return got;
    }
    if (unwanted.n > 0) {
        fd_set_release(&unwanted);
        return -EBADMSG;
    }
    return got;
}

ssize_t fd_recv_pile(int sock, void *buf, size_t n, struct fd_pile *pile, int flags)
{
    struct iovec iov = {.iov_base = buf, .iov_len = n};

    return receive(sock, &iov, pile->fds, FD_PILE_MAX, &pile->n, flags);
}

int fd_pair_for_box(int pair[2])
{
    const int passrights = 83; /* SO_PASSRIGHTS, <asm-generic/socket.h> of Linux 6.16 */
    const int off = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return -errno;
    }
    if (setsockopt(pair[0], SOL_SOCKET, passrights, &off, sizeof(off)) < 0 &&
        errno != ENOPROTOOPT) {
        int r = -errno;
        fd_close(&pair[0]);
        fd_close(&pair[1]);
        return r;
    }
    return 0;
}

int fd_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) {
        return -errno;
    }
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

void fd_raise_limit(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}
