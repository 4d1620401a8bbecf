/* SPDX-License-Identifier: Apache-2.0 */
/* An empty folder for each test of the runner, and a file worker on it whose peer is the test. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "runner/fileagent_impl.h"
#include "tap.h"

static char folder[] = "/tmp/husk-runner-XXXXXX";

/* The current directory is an empty folder. */
static inline void enter_folder(void)
{
    CHECK(mkdtemp(folder) != NULL);
    CHECK_INT(chdir(folder), 0);
    umask(0);
}

static inline void remove_folder(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", folder, (char *)NULL);
        _exit(127);
    }
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

static inline void put(const char *path, const char *text, mode_t mode)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

    CHECK_INT(fd_write_all(fd, text, strlen(text)), 0);
}

static inline void check_content(const char *path, const char *want)
{
    char text[256];

    CASE("%s", path);
    CHECK_INT(fd_read_file(AT_FDCWD, path, text, sizeof(text)), strlen(want));
    CHECK_STR(text, want);
}

static inline mode_t mode_of(const char *path)
{
    struct stat st;

    CASE("%s", path);
    CHECK_INT(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static inline bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* ---- a file worker's state; peer is the other end of its socket ---- */

static struct agent agent;
static int peer = -1;

static inline void open_agent(void)
{
    const struct timeval patience = {.tv_sec = 10};
    int pair[2];

    enter_folder();
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    CHECK_INT(setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    agent.sock = pair[0];
    peer = pair[1];
    agent.root = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(agent.root >= 0);
    agent.out = BUF_INIT(sizeof(struct files_head) + FILES_BODY_MAX);
    agent.sent_ms = clock_ms();
}

static inline void close_agent(void)
{
    buf_release(&agent.out);
    fd_close(&agent.root);
    fd_close(&agent.sock);
    fd_close(&peer);
    remove_folder();
}

/* A request for path, as if it had just been read. */
static inline void request(const char *path, uint32_t flags, uint64_t length)
{
    agent.req = (struct files_req){.flags = flags, .length = length};
    agent.done = (struct files_done){0};
    agent.text[0] = '\0';
    CHECK_INT(str_copy(agent.path, sizeof(agent.path), path), 0);
}

/* The next message of the worker: its type, and its body in ret. */
static inline uint32_t take_message(struct buf *ret)
{
    struct files_head head;
    char raw[sizeof(head)];

    CHECK_INT(fd_read_all(peer, raw, sizeof(raw)), sizeof(raw));
    CHECK_INT(files_msg_get_head(raw, true, &head), 0);
    ret->len = 0;
    CHECK_INT(buf_reserve(ret, head.len), 0);
    CHECK_INT(fd_read_all(peer, ret->data, head.len), head.len);
    ret->len = head.len;
    return head.type;
}

static inline void send_message(enum files_type type, const void *data, size_t n)
{
    AUTO_BUF struct buf b = BUF_INIT(sizeof(struct files_head) + FILES_BODY_MAX);

    CHECK_INT(files_msg_put(&b, type, data, n), 0);
    CHECK_INT(fd_write_all(peer, b.data, b.len), 0);
}
