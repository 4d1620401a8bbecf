/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that misbehave in every way the harness must notice. Not part of any suite:
 * selftest.sh runs this program and compares the verdicts.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

TEST(passes)
{
    CHECK(1 + 1 == 2);
    CHECK_INT(-1, -1);
    CHECK_STR("a", "a");
    CHECK_STR(NULL, NULL);
}

TEST(check_fails)
{
    CASE("row %d", 3);
    CHECK(1 + 1 == 3);
}

TEST(check_int_fails)
{
    CHECK_INT(1, 2);
}

TEST(check_str_fails)
{
    CHECK_STR("a", NULL);
}

TEST(crashes)
{
    abort();
}

TEST(exits_early)
{
    exit(0);
}

TEST_TIMEOUT(hangs, 1)
{
    if (fork() == 0) {
        pause(); /* in the group, and must go with it */
    }
    pause();
}

TEST(leaks_descriptor)
{
    CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
}

TEST(closes_foreign_descriptor)
{
    close(STDIN_FILENO);
}

TEST(check_fails_in_forked_process)
{
    pid_t pid = fork();

    if (pid == 0) {
        CHECK_INT(1, 2);
    }
    waitpid(pid, NULL, 0);
}

TEST(forked_process_returns)
{
    pid_t pid = fork();

    if (pid > 0) {
        waitpid(pid, NULL, 0);
    }
}

TEST(leaves_session_behind)
{
    if (fork() == 0) {
        setsid(); /* out of the group */
        pause();
        _exit(0);
    }
}

TEST(leaks_memory)
{
    static char *volatile p; /* only a sanitizer build sees this */

    p = malloc(10);
    CHECK(p != NULL);
    p = NULL;
}

TEST(writes_to_stdout)
{
    CHECK(write(STDOUT_FILENO, "ok 99 - forged\n", 15) == 15);
}

TEST(skips)
{
    SKIP("no %s here", "kernel\nfeature");
}

TEST(skips_as_listed)
{
    SKIP("this one is in tests/expected-skips");
}
