/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every isolation step that fails keeps the program from running.
 *
 * strace attaches to a zygote and makes the n-th call of one kind fail in each box that it forks,
 * for every n that there is. As long as n lies within the set-up, the run must be refused by an
 * error that names the step; once a failure does not matter any more, none behind it may either, or
 * a step in between would have been skipped.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define STRACE "/usr/bin/strace"

extern char **environ;

static void need_strace(void)
{
    if (access(STRACE, X_OK) < 0) {
        SKIP("strace is not installed");
    }
}

/* Waits until exactly that process (0: none) traces the other. */
static void wait_tracer(pid_t traced, pid_t tracer)
{
    char text[32];

    AWAIT((proc_status(traced, "TracerPid", text, sizeof(text)), strtol(text, NULL, 10) == tracer));
}

/* From now on the n-th call of that name fails in the process, and in each one that it forks. */
static pid_t make_fail(pid_t target, const char *call, const char *error, int n)
{
    char inject[128];
    char trace[64];
    char pid_text[16];
    char *argv[] = {STRACE,   "-f", "-qq", "-o", "/dev/null", "-p",
                    pid_text, "-e", trace, "-e", inject,      NULL};
    pid_t pid;

    CHECK_INT(str_format(pid_text, sizeof(pid_text), "%d", target), 0);
    CHECK_INT(str_format(trace, sizeof(trace), "trace=%s", call), 0);
    CHECK_INT(str_format(inject, sizeof(inject), "inject=%s:error=%s:when=%d", call, error, n), 0);
    CHECK_INT(posix_spawn(&pid, STRACE, NULL, NULL, argv, environ), 0);
    wait_tracer(target, pid);
    return pid;
}

static void let_work(pid_t strace, pid_t target)
{
    CHECK_INT(kill(strace, SIGTERM), 0); /* it detaches */
    CHECK_INT(waitpid(strace, NULL, 0), strace);
    if (proc_is_alive(target)) {
        wait_tracer(target, 0);
    }
}

enum outcome { RAN, REFUSED, BROKE };

/* Runs a program that would show that it ran. *step is set for REFUSED. */
static enum outcome try_run(struct husk_engine *engine, char *step, size_t size)
{
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "print('ran')");
    struct husk_result *r = NULL;
    struct husk_error e;
    static const char intro[] = "isolation step \"";

    spec.limits.timeout_ms = 5000;
    if (husk_run(engine, &spec, &r, &e) < 0) {
        const char *at = strstr(e.message, intro);
        if (at == NULL) {
            return BROKE;
        }
        CHECK_STR(e.type, "isolation_missing");
        at += strlen(intro);
        CHECK_INT(str_format(step, size, "%.*s", (int)strcspn(at, "\""), at), 0);
        return REFUSED;
    }
    bool ran = r->out_len > 0;
    CHECK(ran == (r->status == HUSK_COMPLETED));
    husk_result_free(r);
    return ran ? RAN : BROKE;
}

struct row {
    const char *call;
    int tries;         /* at least as many as the set-up makes */
    const char *steps; /* that must refuse, in this order */
};

static void check_row(const struct row *row, const char *error)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    char seen[256] = "";
    char step[64] = "";
    char last[64] = "";
    int ran_at = 0;

    CHECK_INT(try_run(engine, step, sizeof(step)), RAN); /* now there is a zygote */
    for (int n = 1; n <= row->tries; n++) {
        CASE("call %d of %s fails with %s; refused so far by: %s", n, row->call, error, seen);
        CHECK_INT(try_run(engine, step, sizeof(step)), RAN); /* also after a zygote was lost */
        pid_t zygote = proc_zygote(proc_launcher());
        pid_t strace = make_fail(zygote, row->call, error, n);
        enum outcome outcome = try_run(engine, step, sizeof(step));
        let_work(strace, zygote);
        if (outcome == RAN && ran_at == 0) {
            ran_at = n;
        }
        if (outcome != REFUSED) {
            continue;
        }
        if (ran_at != 0) {
            tap_fail(__FILE__, __LINE__, "the failure of call %d was ignored", ran_at);
        }
        if (!str_eq(step, last)) {
            size_t used = strlen(seen);
            CHECK_INT(
                str_format(seen + used, sizeof(seen) - used, "%s%s", used > 0 ? ", " : "", step),
                0);
            CHECK_INT(str_copy(last, sizeof(last), step), 0);
        }
    }
    CASE("%s fails with %s", row->call, error);
    CHECK_STR(seen, row->steps);
}

/* The numbers of tries leave room for a mount or a limit more. */
TEST_TIMEOUT(a_call_that_is_not_permitted_is_never_passed_over, 120)
{
    static const struct row rows[] = {
        {"unshare", 2, "cgroup"},
        {"setgroups", 2, "ids"},
        {"setresgid", 2, "ids"},
        {"setresuid", 2, "ids"},
        {"setsid", 2, "identity"},
        {"sethostname", 2, "identity"},
        {"mount", 36, "disk, proc, proc masks, devpts"},
        {"mkdir", 3, "disk"},
        {"prlimit64", 26, "rlimits, descriptors"},
        {"capset", 2, "capabilities"},
        {"landlock_create_ruleset", 2, "landlock"},
        {"landlock_add_rule", 5, "landlock"},
        {"landlock_restrict_self", 2, "landlock"},
        {"close_range", 2, "descriptors"},
        {"dup3", 5, "descriptors"},
        {"chdir", 3, "proc masks, descriptors"},
        {"seccomp", 2, "seccomp"},
    };

    need_strace();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        check_row(&rows[i], "EPERM");
    }
}

/*
 * Capabilities one by one, then the secure bits, no_new_privs, and the look at it before the
 * filter.
 */
TEST_TIMEOUT(a_right_that_cannot_be_dropped_is_never_passed_over, 120)
{
    static const struct row row = {"prctl", 48, "bounding set, capabilities, seccomp"};

    need_strace();
    check_row(&row, "EPERM");
}

TEST_TIMEOUT(other_errors_are_not_passed_over_either, 120)
{
    static const struct row rows[] = {
        {"mount", 4, "disk, proc"},
        {"seccomp", 1, "seccomp"},
        {"landlock_restrict_self", 1, "landlock"},
        {"capset", 1, "capabilities"},
    };
    static const char *const errors[] = {"EAGAIN", "ENOMEM", "ENOSPC", "EINVAL"};

    need_strace();
    for (size_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(errors); i++) {
        check_row(&rows[i / ARRAY_LEN(errors)], errors[i % ARRAY_LEN(errors)]);
    }
}

/* Joining the cgroups is the box's first write; the zygote itself writes id maps before. */
TEST_TIMEOUT(a_box_that_cannot_join_its_cgroups_or_get_its_ids_never_runs, 60)
{
    AUTO_ENGINE struct husk_engine *engine = NULL;
    char step[64] = "";

    need_strace();
    engine = fixture_open();
    for (int n = 1; n <= 4; n++) {
        CASE("write %d fails", n);
        CHECK_INT(try_run(engine, step, sizeof(step)), RAN);
        pid_t zygote = proc_zygote(proc_launcher());
        pid_t strace = make_fail(zygote, "write", "EPERM", n);
        enum outcome outcome = try_run(engine, step, sizeof(step));
        let_work(strace, zygote);
        CHECK(outcome != RAN);
        CHECK(outcome == BROKE || str_eq(step, "cgroup"));
    }
}

static void await_burials(pid_t zygote)
{
    static struct proc_list boxes;

    AWAIT((proc_children(zygote, &boxes), boxes.n == 0));
}

/* What goes wrong before there is a box is an error of ours, and the next run works. */
TEST(a_zygote_that_cannot_make_a_box_says_why)
{
    static const struct {
        const char *call;
        const char *error;
        const char *type;
    } rows[] = {
        {"clone3", "EAGAIN", "system"},
        {"clone3", "ENOMEM", "system"},
        {"clone3", "EMFILE", "limit_reached"},
        {"setns", "EPERM", "system"},
    };
    AUTO_ENGINE struct husk_engine *engine = NULL;
    char step[64] = "";

    need_strace();
    engine = fixture_open();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "print('ran')");
        struct husk_result *r = NULL;
        struct husk_error e = {.type = "none"};
        CASE("%s fails with %s", rows[i].call, rows[i].error);
        CHECK_INT(try_run(engine, step, sizeof(step)), RAN);
        pid_t zygote = proc_zygote(proc_launcher());
        await_burials(zygote); /* which enter network namespaces, too */
        pid_t strace = make_fail(zygote, rows[i].call, rows[i].error, 1);
        int failed = husk_run(engine, &spec, &r, &e);
        let_work(strace, zygote);
        CHECK_INT(failed, -1);
        CHECK_STR(e.type, rows[i].type);
        CHECK(proc_is_alive(zygote));
    }
}

/* The zygote asks once what Landlock there is. An error is no "none": the launcher has found it. */
TEST(a_zygote_that_cannot_ask_for_landlock_does_not_go_without)
{
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "print('ran')");
    struct husk_result *r = NULL;
    struct husk_error e;

    need_strace();
    engine = fixture_open();
    pid_t launcher = proc_launcher();
    pid_t strace = make_fail(launcher, "landlock_create_ruleset", "EPERM", 1);
    if (husk_run(engine, &spec, &r, &e) == 0) {
        CHECK_STR(r->out, "");
        husk_result_free(r);
    }
    let_work(strace, launcher);
}
