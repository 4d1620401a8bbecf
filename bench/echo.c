/* SPDX-License-Identifier: Apache-2.0 */
/* Round trips; see echo.h. */
#include "echo.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define WORD_SIZE 64 /* about what a small request and a small answer have */

/* Ends with the end of file on its socket. */
static void be_echo(int socket)
{
    char word[WORD_SIZE];
    ssize_t n;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while ((n = recv(socket, word, sizeof(word), 0)) > 0) {
        if (send(socket, word, (size_t)n, MSG_NOSIGNAL) != n) {
            break;
        }
    }
    _exit(0);
}

/* Takes both ends: theirs goes to a new process. */
static int start(struct echo *ret, int ours, int theirs, struct err *e)
{
    ret->socket = ours;
    ret->pid = fork();
    if (ret->pid == 0) {
        close(ours);
        be_echo(theirs);
    }
    fd_close(&theirs);
    return ret->pid < 0 ? err_sys(e, errno, "fork") : 0;
}

int echo_unix(struct echo *ret, struct err *e)
{
    int pair[2];

    *ret = (struct echo){.socket = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(e, errno, "socketpair");
    }
    return start(ret, pair[0], pair[1], e);
}

static int tcp_pair(int *ours, int *theirs)
{
    AUTO_CLOSE int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    const int on = 1;

    *ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || *ours < 0 || bind(listener, (struct sockaddr *)&address, len) < 0 ||
        listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&address, &len) < 0 ||
        connect(*ours, (struct sockaddr *)&address, len) < 0) {
        return -errno;
    }
    *theirs = accept4(listener, (struct sockaddr *)&address, &len, SOCK_CLOEXEC);
    if (*theirs < 0 || setsockopt(*ours, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
        setsockopt(*theirs, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0) {
        return -errno;
    }
    return 0;
}

int echo_tcp(struct echo *ret, struct err *e)
{
    int ours = -1;
    int theirs = -1;

    *ret = (struct echo){.socket = -1};
    int r = tcp_pair(&ours, &theirs);
    if (r < 0) {
        fd_close(&ours);
        fd_close(&theirs);
        return err_sys(e, -r, "connect on loopback");
    }
    return start(ret, ours, theirs, e);
}

void echo_close(struct echo *p)
{
    fd_close(&p->socket);
    if (p->pid > 0) {
        (void)waitpid(p->pid, NULL, 0);
        p->pid = 0;
    }
}

int echo_once(void *user, double *ret, struct err *e)
{
    const struct echo *p = user;
    char word[WORD_SIZE] = {0};

    uint64_t begun = clock_ns();
    if (send(p->socket, word, sizeof(word), MSG_NOSIGNAL) != (ssize_t)sizeof(word) ||
        recv(p->socket, word, sizeof(word), MSG_WAITALL) != (ssize_t)sizeof(word)) {
        return err_sys(e, errno, "round trip");
    }
    *ret = (double)(clock_ns() - begun) / 1e6;
    return 0;
}
