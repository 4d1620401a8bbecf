/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets; see listeners.h. */
#include "supervisor/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "supervisor/supervisor.h"

#define BACKLOG 4096
#define LISTEN_FAILED "cannot listen on %s (choose another with --listen)"

int listeners_bind_tcp(const char *text, struct err *e)
{
    struct sockaddr_storage address;
    socklen_t len;
    const int on = 1;

    if (config_address(text, &address, &len, e) < 0) {
        return -1;
    }
    AUTO_CLOSE int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_sys(e, errno, LISTEN_FAILED, text);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, len) < 0) {
        return err_sys(e, errno, LISTEN_FAILED, text);
    }
    return take_fd(&fd);
}

static int listen_tcp(const char *text, struct err *e)
{
    AUTO_CLOSE int fd = listeners_bind_tcp(text, e);

    if (fd < 0) {
        return -1;
    }
    return listen(fd, BACKLOG) < 0 ? err_sys(e, errno, LISTEN_FAILED, text) : take_fd(&fd);
}

/* Removes a socket file without a listener, which an earlier server left. */
static int clear_stale(const struct sockaddr_un *address, struct err *e)
{
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;

    if (lstat(address->sun_path, &st) < 0) {
        return 0;
    }
    if (!S_ISSOCK(st.st_mode)) {
        return err_set(e, ERR_EXISTS, "%s exists and is not a socket: choose another --socket",
                       address->sun_path);
    }
    /* EAGAIN: there is a listener, and its queue is full. */
    if (fd >= 0 &&
        (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN)) {
        return err_set(e, ERR_EXISTS, "another server listens on %s: choose another --socket",
                       address->sun_path);
    }
    return unlink(address->sun_path) < 0 ? err_sys(e, errno, "cannot remove %s", address->sun_path)
                                         : 0;
}

/* The folder of the default socket may not exist yet. */
static void make_parent(const char *path)
{
    char parent[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char *slash;

    if (str_copy(parent, sizeof(parent), path) == 0 && (slash = strrchr(parent, '/')) != NULL &&
        slash != parent) {
        *slash = '\0';
        (void)mkdir(parent, 0755); /* bind() reports a failure */
    }
}

/*
 * In a folder of the account, the name can become another file at any moment: root changes the
 * owner only of a file that it has opened and checked. A second link means that the socket belongs
 * to another program.
 */
static int give_away(const char *path, uid_t owner, gid_t group, struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "cannot open %s", path);
    }
    if (!S_ISSOCK(st.st_mode) || st.st_uid != 0 || st.st_nlink != 1) {
        return err_set(e, ERR_EXISTS, "%s was replaced by something else: choose another --socket",
                       path);
    }
    return fchownat(fd, "", owner, group, AT_EMPTY_PATH) < 0
               ? err_sys(e, errno, "cannot give %s away", path)
               : 0;
}

static int listen_unix(const struct config *c, uid_t owner, gid_t group, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    AUTO_CLOSE int fd = -1;

    if (str_copy(address.sun_path, sizeof(address.sun_path), c->socket) < 0) {
        return err_set(e, ERR_INVALID, "the path of the socket is too long: %s", c->socket);
    }
    make_parent(c->socket);
    if (clear_stale(&address, e) < 0) {
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* the file is created with its final mode */
    mode_t mask = umask(0777 & ~(mode_t)c->socket_mode);
    int r = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof(address));
    int why = errno;
    umask(mask);
    if (r < 0) {
        return err_sys(e, why, "cannot listen on %s (choose another with --socket)", c->socket);
    }
    if (geteuid() == 0 && give_away(c->socket, owner, group, e) < 0) {
        return -1;
    }
    if (listen(fd, BACKLOG) < 0) {
        return err_sys(e, errno, "cannot listen on %s", c->socket);
    }
    return take_fd(&fd);
}

static int open_all(const struct config *c, uid_t owner, gid_t group, struct listeners *ret,
                    struct err *e)
{
    *ret = (struct listeners){.n = 0};
    if (c->listen.n + 1 > SUPERVISOR_LISTENERS_MAX) {
        return err_set(e, ERR_INVALID, "too many addresses to listen on: at most %d",
                       SUPERVISOR_LISTENERS_MAX - 1);
    }
    for (size_t i = 0; i < c->listen.n; i++) {
        int fd = listen_tcp(c->listen.items[i], e);
        if (fd < 0) {
            listeners_close(ret, NULL);
            return -1;
        }
        ret->fds[ret->n++] = fd;
    }
    int fd = listen_unix(c, owner, group, e);
    if (fd < 0) {
        listeners_close(ret, NULL);
        return -1;
    }
    ret->fds[ret->n++] = fd;
    return 0;
}

int listeners_open(const struct config *c, uid_t owner, gid_t group, unsigned patience_ms,
                   struct listeners *ret, struct err *e)
{
    uint64_t until = clock_ms() + patience_ms;
    int r;

    while ((r = open_all(c, owner, group, ret, e)) < 0 && clock_ms() < until) {
        (void)poll(NULL, 0, 20);
    }
    return r;
}

void listeners_close(struct listeners *l, const struct config *c)
{
    while (l->n > 0) {
        fd_close(&l->fds[--l->n]);
    }
    if (c != NULL) {
        (void)unlink(c->socket);
    }
}
