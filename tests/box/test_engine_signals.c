/* SPDX-License-Identifier: Apache-2.0 */
/* A user of the library may ignore or block signals: that is its own business, and stays there. */
#include <signal.h>
#include <unistd.h>

#include "base/str.h"
#include "engine_fixture.h"
#include "tap.h"

static void ignore(int sig)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};

    CHECK_INT(sigaction(sig, &ignored, NULL), 0);
}

static bool is_ignored(int sig)
{
    struct sigaction now;

    CHECK_INT(sigaction(sig, NULL, &now), 0);
    return now.sa_handler == SIG_IGN;
}

/* What a program of an engine of its own ignores and blocks. */
static struct husk_result *show_signals(void)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec =
        fixture_spec("shell", HUSK_SCRIPT, "grep -E '^Sig(Ign|Blk)' /proc/self/status");

    return fixture_run(engine, &spec);
}

TEST(what_the_caller_ignores_and_blocks_does_not_reach_a_box)
{
    static const int signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE,
                                  SIGALRM, SIGTERM, SIGCHLD, SIGUSR1};
    AUTO_RESULT struct husk_result *before = show_signals();
    AUTO_RESULT struct husk_result *after = NULL;
    sigset_t mask;

    sigemptyset(&mask);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        ignore(signals[i]);
        sigaddset(&mask, signals[i]);
    }
    CHECK_INT(sigprocmask(SIG_BLOCK, &mask, NULL), 0);
    after = show_signals();
    CHECK_END(after, "completed exit 0");
    CHECK_STR(after->out, before->out);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        CHECK(is_ignored(signals[i]));
    }
}

TEST(programs_can_wait_for_children_though_the_caller_cannot)
{
    AUTO_ENGINE struct husk_engine *engine = NULL;

    ignore(SIGCHLD);
    engine = fixture_open();
    struct husk_spec spec = fixture_spec("shell", HUSK_SCRIPT, "false; echo $?; exit 3");
    spec.limits.timeout_ms = 5000;
    AUTO_RESULT struct husk_result *shell = fixture_run(engine, &spec);
    CHECK_END(shell, "failed exit 3");
    CHECK_STR(shell->out, "1\n");
    AUTO_RESULT struct husk_result *python =
        fixture_cell(engine, "import subprocess\nsubprocess.run(['false']).returncode");
    CHECK_STR(python->value, "1");
    CHECK(is_ignored(SIGCHLD));
}

TEST(what_the_host_offers_is_the_same_for_a_caller_that_cannot_wait)
{
    struct husk_layer plain[32];
    struct husk_layer rows[32];
    size_t n = husk_doctor(plain, ARRAY_LEN(plain));

    ignore(SIGCHLD);
    CHECK_INT(husk_doctor(rows, ARRAY_LEN(rows)), n);
    for (size_t i = 0; i < n; i++) {
        CASE("%s", rows[i].name);
        CHECK_STR(rows[i].fact, plain[i].fact);
    }
    CHECK(is_ignored(SIGCHLD));
}

/* So that a value that is never set looks like a failure. */
static __attribute__((noinline)) void soil_stack(void)
{
    volatile char deep[65536];

    for (size_t i = 0; i < sizeof(deep); i++) {
        deep[i] = (char)0xff;
    }
}

TEST(a_template_can_be_added_by_a_caller_that_cannot_wait)
{
    char dir[] = "/tmp/husk-test-XXXXXX";
    struct husk_error e;
    char path[256];

    fixture_template_dir(dir);
    ignore(SIGCHLD);
    soil_stack();
    CHECK_OK(husk_template_add("mine", "/usr/bin/python3", NULL, path, sizeof(path), &e), &e);
    CHECK_INT(husk_template_add("other", "/bin/false", NULL, path, sizeof(path), &e), -1);
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(dir), 0);
}
