/* SPDX-License-Identifier: Apache-2.0 */
/* runner/interrupt.h: which run an interrupt hits, for every moment at which it can come. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/interrupt.h"
#include "tap.h"

static const uint8_t any[16] = {0};
static const uint8_t first[16] = "first run       ";
static const uint8_t second[16] = "second run      ";

static volatile sig_atomic_t hits;

static void on_interrupt(int sig)
{
    (void)sig;
    hits++;
}

/* This process is both ends: what it sends to itself as PID 1 has come when the call returns. */
static void open_here(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};

    CHECK(setpgid(0, 0) == 0 || getpgid(0) == getpid());
    CHECK_INT(sigaction(SIGINT, &action, NULL), 0);
    CHECK_INT(interrupt_open(), 0);
    interrupt_attach();
}

TEST(an_interrupt_of_a_run_that_is_open_sends_one_signal_each_time)
{
    open_here();
    CHECK(!interrupt_begin(first));
    CHECK(interrupt_send(getpid(), first));
    CHECK_INT(hits, 1);
    CHECK(interrupt_send(getpid(), first));
    CHECK_INT(hits, 2);
    CHECK(interrupt_end());
    CHECK(!interrupt_end());
}

TEST(an_interrupt_that_comes_before_its_run_waits_for_it_and_sends_nothing)
{
    open_here();
    CHECK(interrupt_send(getpid(), first));
    CHECK(interrupt_send(getpid(), first));
    CHECK(interrupt_begin(first));
    CHECK_INT(hits, 0);
    CHECK(!interrupt_end());
}

TEST(an_interrupt_that_comes_after_its_run_hits_neither_idleness_nor_the_next)
{
    open_here();
    CHECK(!interrupt_begin(first));
    CHECK(!interrupt_end());
    CHECK(!interrupt_send(getpid(), first));
    CHECK(!interrupt_begin(second));
    CHECK(!interrupt_send(getpid(), first));
    CHECK(!interrupt_end());
    CHECK_INT(hits, 0);
}

TEST(an_interrupt_that_is_left_of_a_run_which_never_came_hits_no_other)
{
    open_here();
    CHECK(interrupt_send(getpid(), first));
    CHECK(!interrupt_begin(second));
    CHECK(!interrupt_end());
    CHECK(!interrupt_send(getpid(), second));
    CHECK_INT(hits, 0);
}

TEST(an_interrupt_of_whatever_runs_hits_that_and_does_not_wait)
{
    open_here();
    CHECK(!interrupt_send(getpid(), any));
    CHECK(!interrupt_begin(first));
    CHECK(interrupt_send(getpid(), any));
    CHECK_INT(hits, 1);
    CHECK(interrupt_end());
    CHECK(!interrupt_send(getpid(), any));
    CHECK(!interrupt_begin(second));
    CHECK_INT(hits, 1);
}

TEST(contexts_have_each_their_own_runs)
{
    int status;

    open_here();
    CHECK(!interrupt_begin(first));
    pid_t other = fork();
    if (other == 0) {
        interrupt_attach();
        _exit(interrupt_begin(second) || interrupt_end());
    }
    CHECK(waitpid(other, &status, 0) == other);
    CHECK_INT(status, 0);
    CHECK(!interrupt_send(other, second));
    CHECK_INT(hits, 0);
    interrupt_forget(other);
    CHECK(interrupt_send(getpid(), first));
    CHECK_INT(hits, 1);
}

/* Whatever the order: if it was said to hit, the signal is there before the run is over. */
TEST(no_signal_comes_after_the_end_of_its_run)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int to_context[2];
    int from_context[2];
    int status;

    CHECK_INT(interrupt_open(), 0);
    CHECK(pipe2(to_context, O_CLOEXEC) == 0 && pipe2(from_context, O_CLOEXEC) == 0);
    pid_t context = fork();
    if (context == 0) {
        uint8_t token[16];
        close(to_context[1]);
        setpgid(0, 0);
        sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
        interrupt_attach();
        CHECK(write(from_context[1], "r", 1) == 1);
        while (read(to_context[0], token, sizeof(token)) == sizeof(token)) {
            hits = 0;
            uint8_t seen = interrupt_begin(token) ? 1 : 0;
            (void)interrupt_end();
            seen += (uint8_t)hits;
            CHECK(write(from_context[1], &seen, 1) == 1);
        }
        _exit(0);
    }
    close(to_context[0]);
    close(from_context[1]);
    CHECK_INT(sigaction(SIGINT, &ignore, NULL), 0);
    uint8_t token[16] = {0};
    uint8_t seen;
    CHECK(read(from_context[0], &seen, 1) == 1);
    for (uint32_t i = 1; i <= 2000; i++) {
        uint32_t mixed = i * 2654435761u;
        memcpy(token, &i, sizeof(i));
        memcpy(token + 4, &mixed, sizeof(mixed));
        CHECK(write(to_context[1], token, sizeof(token)) == sizeof(token));
        for (volatile uint32_t spin = mixed >> 20; spin > 0; spin--) {
        }
        bool hit = interrupt_send(context, token);
        CHECK(read(from_context[0], &seen, 1) == 1);
        CHECK_INT(seen, hit ? 1 : 0);
    }
    close(to_context[1]);
    CHECK(waitpid(context, &status, 0) == context);
    CHECK_INT(status, 0);
    close(from_context[0]);
}
