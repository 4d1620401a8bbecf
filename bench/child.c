/* SPDX-License-Identifier: Apache-2.0 */
/* Python helpers; see child.h. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define SOCKET_FD 3
#define ARGS_MAX 16

extern char **environ;

#define WORD_MAX 200

static int hear_any(const struct child *c, char word[WORD_MAX], struct err *e)
{
    ssize_t n = recv(c->socket, word, WORD_MAX - 1, 0);

    if (n <= 0) {
        return err_set(e, ERR_SYSTEM, "the helper program ended early");
    }
    word[n] = '\0';
    return 0;
}

static int unexpected(const char *word, struct err *e)
{
    return err_set(e, ERR_PROTOCOL, "the helper says: %s", word);
}

static int hear(const struct child *c, const char *expected, struct err *e)
{
    char word[WORD_MAX];

    if (hear_any(c, word, e) < 0) {
        return -1;
    }
    return str_eq(word, expected) ? 0 : unexpected(word, e);
}

/* -B and -I as for a zygote. */
static int spawn(struct child *c, const char *python, const char *const *args, int socket, int out)
{
    posix_spawn_file_actions_t actions;
    char *argv[ARGS_MAX] = {(char *)python, "-I", "-B"};
    int n = 3;

    for (; *args != NULL && n < ARGS_MAX - 1; args++) {
        argv[n++] = (char *)*args;
    }
    argv[n] = NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, socket, SOCKET_FD);
    int r = posix_spawn(&c->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

int child_open(struct child *ret, const char *const *args, struct err *e)
{
    return child_open_with(ret, "/usr/bin/python3", args, e);
}

int child_open_with(struct child *ret, const char *python, const char *const *args, struct err *e)
{
    AUTO_CLOSE int theirs = -1;
    AUTO_CLOSE int out = -1;
    char rehearsal[256]; /* what it wrote while warming up */
    int sockets[2];
    int pipe_fds[2];

    *ret = (struct child){.socket = -1, .out = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
        return err_sys(e, errno, "socketpair");
    }
    ret->socket = sockets[0];
    theirs = sockets[1];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    ret->out = pipe_fds[0];
    out = pipe_fds[1];
    int r = spawn(ret, python, args, theirs, out);
    if (r != 0) {
        return err_sys(e, r, "start %s", python);
    }
    fd_close(&theirs);
    r = fd_set_nonblock(ret->out, true);
    if (r < 0) {
        return err_sys(e, -r, "pipe");
    }
    if (hear(ret, "ready", e) < 0) {
        return -1;
    }
    while (read(ret->out, rehearsal, sizeof(rehearsal)) > 0) {
    }
    return 0;
}

/* The end of its socket is the end of the helper. */
void child_close(struct child *c)
{
    fd_close(&c->socket);
    fd_close(&c->out);
    if (c->pid > 0) {
        (void)waitpid(c->pid, NULL, 0);
        c->pid = 0;
    }
}

static int say(const struct child *c, const char *word, struct err *e)
{
    return send(c->socket, word, strlen(word), MSG_NOSIGNAL) < 0
               ? err_sys(e, errno, "ask the helper")
               : 0;
}

int child_ask(const struct child *c, const char *word, struct err *e)
{
    return say(c, word, e) < 0 ? -1 : hear(c, "ok", e);
}

int child_measure(const struct child *c, const char *word, double *ret, struct err *e)
{
    char answer[WORD_MAX];
    char *end;

    if (say(c, word, e) < 0 || hear_any(c, answer, e) < 0) {
        return -1;
    }
    if (!str_starts(answer, "ok ")) {
        return unexpected(answer, e);
    }
    *ret = strtod(answer + strlen("ok "), &end);
    return *end == '\0' && *ret > 0 ? 0 : unexpected(answer, e);
}
