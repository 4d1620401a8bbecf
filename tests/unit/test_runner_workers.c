/* SPDX-License-Identifier: Apache-2.0 */
/* runner/fileworkers.h: PID 1's table of file workers, here with the test as PID 1. */
#include "runner/fileworkers.h"

#include <signal.h>

#include "runner_fixture.h"

/* The worker of a host without /workspace ends at once; until it is reaped it is one of them. */
static int start_worker(void)
{
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    fileworkers_start(pair[0]);
    return pair[1];
}

static pid_t await_child(void)
{
    siginfo_t ended = {0};

    CHECK_INT(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
    return ended.si_pid;
}

TEST(a_worker_is_known_until_it_is_reaped)
{
    struct pollfd p[FILEWORKERS_MAX];

    AUTO_CLOSE int end = start_worker();
    pid_t pid = await_child();
    CHECK(fileworkers_has(pid) && !fileworkers_has(getpid()));
    fileworkers_watch(p);
    CHECK(p[0].fd >= 0 && p[1].fd < 0);
    CHECK_INT(fileworkers_timeout(), -1);

    fd_close(&end); /* its client is gone: it gets some time to clean up */
    CHECK_INT(poll(p, FILEWORKERS_MAX, 1000), 1);
    fileworkers_serve(p);
    CHECK(fileworkers_timeout() > 0);
    CHECK(fileworkers_has(pid));

    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK(fileworkers_reaped(pid) && !fileworkers_reaped(pid));
    CHECK(!fileworkers_has(pid));
    CHECK_INT(fileworkers_timeout(), -1);
}

TEST(a_worker_beyond_the_last_place_is_refused_by_closing_its_socket)
{
    int ends[FILEWORKERS_MAX];
    char byte;

    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        ends[i] = start_worker();
    }
    AUTO_CLOSE int refused = start_worker();
    CHECK_INT(recv(refused, &byte, 1, 0), 0);
    CHECK(recv(ends[0], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN); /* PID 1 has a copy */
    fileworkers_forget();
    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        CHECK_INT(recv(ends[i], &byte, 1, 0), 0); /* and closes it in a new context */
        fd_close(&ends[i]);
        CHECK(waitpid(-1, NULL, 0) > 0);
    }
}

TEST(the_place_of_a_killed_worker_is_used_again)
{
    struct pollfd p[FILEWORKERS_MAX];
    int ends[FILEWORKERS_MAX];

    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        ends[i] = start_worker();
    }
    fileworkers_watch(p);
    fd_close(&ends[2]);
    CHECK_INT(poll(p, FILEWORKERS_MAX, 1000), 1);
    fileworkers_serve(p); /* closed, and not reaped */
    ends[2] = start_worker();
    CHECK(recv(ends[2], p, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    fileworkers_forget();
    for (size_t i = 0; i < FILEWORKERS_MAX; i++) {
        fd_close(&ends[i]);
        CHECK(waitpid(-1, NULL, 0) > 0);
    }
}
