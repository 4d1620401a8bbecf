/* SPDX-License-Identifier: Apache-2.0 */
/* The file worker; see fileagent.h. One request after the other, each answered with DONE. */
#include "runner/fileagent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/setup.h"
#include "box/sys.h"
#include "runner/fileagent_impl.h"

static int serve_stat(struct agent *a)
{
    AUTO_CLOSE int fd = agent_open(a->root, a->path, O_PATH, (a->req.flags & FILES_FOLLOW) != 0);
    char target[FILES_PATH_MAX + 1];
    struct stat st;

    if (fd < 0) {
        return fd;
    }
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    agent_target(fd, "", &st, target);
    return agent_send_info(a, &st, target);
}

/* Exactly n bytes, so that the peer can announce the length before they arrive. */
static int send_range(struct agent *a, int fd, uint64_t offset, uint64_t n)
{
    int r = agent_write_file(a, fd, offset, &n);

    if (r == 0 && n > 0) {
        a->out.len = 0;
        return -ESTALE;
    }
    return r < 0 ? r : agent_flush(a);
}

static int serve_read(struct agent *a)
{
    /* O_NONBLOCK: a pipe without writer or a leased file must not block us. */
    AUTO_CLOSE int fd = agent_open(a->root, a->path, O_RDONLY | O_NONBLOCK | O_NOCTTY,
                                   (a->req.flags & FILES_FOLLOW) != 0);
    struct stat st;

    if (fd < 0) {
        return fd;
    }
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? -EISDIR : -EACCES;
    }
    int r = agent_send_info(a, &st, "");
    uint64_t size = (uint64_t)st.st_size;
    if (r < 0 || a->req.offset >= size) {
        return r;
    }
    return send_range(a, fd, a->req.offset, MIN(a->req.length, size - a->req.offset));
}

/* True if it is free. An existing directory is an error before any byte is sent. */
static int check_target(int dir, const char *name, bool *ret_free)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        *ret_free = errno == ENOENT;
        return errno == ENOENT ? 0 : -errno;
    }
    *ret_free = false;
    return S_ISDIR(st.st_mode) ? -EISDIR : 0;
}

static int receive_into(struct agent *a, int fd)
{
    for (;;) {
        ssize_t n = agent_read(a);
        if (n <= 0) {
            return (int)n;
        }
        int r = fd_write_all(fd, a->body, (size_t)n);
        if (r < 0) {
            return r;
        }
        a->done.count += (uint64_t)n;
    }
}

static int serve_write(struct agent *a)
{
    struct agent_file file = {.dir = -1, .fd = -1};
    const char *name;
    bool is_new;
    AUTO_CLOSE int dir =
        agent_open_parent(a->root, a->path, (a->req.flags & FILES_PARENTS) != 0, &name);

    if (dir < 0) {
        return dir;
    }
    int r = check_target(dir, name, &is_new);
    if (r == 0) {
        r = agent_file_begin(&file, take_fd(&dir));
    }
    if (r < 0) {
        return r;
    }
    r = receive_into(a, file.fd);
    if (r < 0) {
        agent_file_drop(&file);
        return r;
    }
    a->done.more = is_new ? 1 : 0;
    return agent_file_finish(&file, name, a->req.mode, NULL);
}

static int serve_move(struct agent *a)
{
    const char *from_name;
    const char *to_name;
    AUTO_CLOSE int from = agent_open_parent(a->root, a->path, false, &from_name);
    AUTO_CLOSE int to = -1;

    if (from < 0) {
        return from;
    }
    to = agent_open_parent(a->root, a->to, (a->req.flags & FILES_PARENTS) != 0, &to_name);
    if (to < 0) {
        return to;
    }
    unsigned flags = (a->req.flags & FILES_REPLACE) != 0 ? 0 : RENAME_NOREPLACE;
    return renameat2(from, from_name, to, to_name, flags) < 0 ? -errno : 0;
}

static int serve_mkdir(struct agent *a)
{
    const char *name;
    bool is_new = true;

    if ((a->req.flags & FILES_PARENTS) != 0) {
        int made = agent_make_dirs(a->root, a->path, a->req.mode, &is_new);
        if (made < 0) {
            return made;
        }
        close(made);
    } else {
        AUTO_CLOSE int dir = agent_open_parent(a->root, a->path, false, &name);
        if (dir < 0 || mkdirat(dir, name, a->req.mode) < 0) {
            return dir < 0 ? dir : -errno;
        }
    }
    a->done.more = is_new ? 1 : 0;
    return 0;
}

static int serve(struct agent *a, uint32_t type)
{
    static int (*const table[])(struct agent *) = {
        [FILES_LIST] = agent_list,   [FILES_STAT] = serve_stat, [FILES_READ] = serve_read,
        [FILES_WRITE] = serve_write, [FILES_MOVE] = serve_move, [FILES_DELETE] = agent_delete,
        [FILES_MKDIR] = serve_mkdir, [FILES_PACK] = agent_pack, [FILES_UNPACK] = agent_unpack,
    };

    return table[type](a);
}

/* One request. Anything but 0 ends the worker: the peer is gone or broke the protocol. */
static int serve_request(struct agent *a)
{
    struct files_head head;

    int r = agent_recv(a, &head);
    if (r == 0) {
        r = files_msg_get_req(&head, a->body, &a->req, a->path, a->to);
    }
    if (r < 0) {
        return r;
    }
    a->done = (struct files_done){0};
    a->text[0] = '\0';
    a->out.len = 0;
    a->stream_is_open = head.type == FILES_WRITE || head.type == FILES_UNPACK;
    r = serve(a, head.type);
    if (r == -EPIPE || r == -ECONNRESET) {
        return r;
    }
    a->done.status = files_msg_status_of(-r);
    a->done.sys_errno = -r;
    r = files_msg_put_done(&a->out, &a->done, a->text);
    if (r == 0) {
        r = agent_send(a);
    }
    while (r == 0 && a->stream_is_open) {
        ssize_t n = agent_read(a);
        r = n < 0 && n != -ECANCELED ? (int)n : 0;
    }
    return r;
}

/*
 * User code runs with the same ids: it must not read our memory, and we must not hold descriptors
 * of the session.
 */
static int seclude(int sock)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction plain = {.sa_handler = SIG_DFL};

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NAME, "husk-files", 0, 0, 0) < 0 ||
        dup3(sock, BOX_CONTROL_FD, O_CLOEXEC) < 0 || sys_close_range(0, BOX_CONTROL_FD - 1) < 0 ||
        sys_close_range(BOX_CONTROL_FD + 1, ~0U) < 0 || setpgid(0, 0) < 0) {
        return -1;
    }
    umask(0); /* modes are as requested */
    /* A file that grows beyond its limit is an error to report, not to die from. */
    if (sigaction(SIGXFSZ, &ignore, NULL) < 0 || sigaction(SIGINT, &plain, NULL) < 0) {
        return -1;
    }
    return 0;
}

void fileagent_serve(int sock)
{
    static struct agent a;

    if (seclude(sock) < 0) {
        _exit(1);
    }
    a.sock = BOX_CONTROL_FD;
    a.out = BUF_INIT(sizeof(struct files_head) + FILES_BODY_MAX);
    a.root = open(BOX_WORKSPACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (a.root < 0 || files_msg_put(&a.out, FILES_READY, NULL, 0) < 0 || agent_send(&a) < 0) {
        _exit(1);
    }
    while (serve_request(&a) == 0) {
    }
    _exit(0);
}
