/* SPDX-License-Identifier: Apache-2.0 */
/* Whichever process dies: no process and no cgroup is left, and the caller is told. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "launcher_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

static const char sleeper[] = "import subprocess, time\n"
                              "subprocess.Popen(['/usr/bin/sleep', '100'])\n"
                              "print('on')\ntime.sleep(100)\n";

/*
 * The launcher is dead: so is all that was below it. Its guard goes last, and when it is gone,
 * nothing is left in any hierarchy, not even for a moment: another launcher might clean up a
 * little later.
 */
static void check_nothing_left(const struct proc_list *tree)
{
    proc_wait_gone(tree);
    CHECK_INT(proc_count_cgroups(tree->pids[0]), 0);
}

static void check_engine_says_gone(struct husk_engine *engine)
{
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, "1");

    for (int i = 0; i < 2; i++) {
        CHECK_STR(fixture_refusal(engine, &spec), "launcher_gone");
    }
}

TEST(a_launcher_killed_with_parked_boxes_leaves_nothing)
{
    static const int signals[] = {SIGKILL, SIGTERM, SIGSEGV};
    static struct proc_list tree;
    struct husk_error e;

    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        AUTO_ENGINE struct husk_engine *engine = fixture_open();
        CASE("SIG%s", sigabbrev_np(signals[i]));
        CHECK_OK(husk_pool_set(engine, "python", NULL, 4, 4, &e), &e);
        CHECK_OK(husk_pool_wait(engine, "python", 4, &e), &e);
        proc_tree(proc_launcher(), &tree);
        CHECK_INT(tree.n, 8); /* launcher, guard, closer, zygote, four boxes */
        CHECK(proc_count_cgroups(tree.pids[0]) > 4);
        CHECK_INT(kill(tree.pids[0], signals[i]), 0);
        check_nothing_left(&tree);
        check_engine_says_gone(engine);
    }
}

static void kill_launcher(void *user)
{
    struct proc_list *tree = user;

    proc_tree(proc_launcher(), tree);
    CHECK_INT(kill(tree->pids[0], SIGKILL), 0);
}

TEST(a_launcher_killed_during_a_run_leaves_nothing)
{
    static const struct {
        const char *template_name;
        const char *code;
        size_t processes;
    } rows[] = {
        {"python", sleeper, 6}, /* launcher, guard, closer, zygote, python, sleep */
        {"shell", "sleep 100 & echo on; wait", 7}, /* PID 1 and bash instead of python */
    };
    static struct proc_list tree;
    struct husk_error e;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_ENGINE struct husk_engine *engine = fixture_open();
        struct husk_spec spec = fixture_spec(rows[i].template_name, HUSK_SCRIPT, rows[i].code);
        struct husk_result *r = NULL;
        CASE("%s", rows[i].template_name);
        fixture_at_output(&spec, kill_launcher, &tree);
        CHECK_INT(husk_run(engine, &spec, &r, &e), -1);
        CHECK_STR(e.type, "launcher_gone");
        CHECK_INT(tree.n, rows[i].processes);
        check_nothing_left(&tree);
    }
}

TEST(a_launcher_killed_during_a_session_leaves_nothing)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, sleeper);
    static struct proc_list tree;
    struct husk_result *r = NULL;
    struct husk_error e;

    fixture_at_output(&spec, kill_launcher, &tree);
    CHECK_INT(husk_session_run(s, 0, &spec, &r, &e), -1);
    CHECK_STR(e.type, "launcher_gone");
    CHECK_INT(tree.n, 7); /* launcher, guard, closer, zygote, PID 1, context, sleep */
    check_nothing_left(&tree);
}

TEST_TIMEOUT(a_launcher_killed_while_boxes_start_leaves_nothing, 120)
{
    static struct proc_list tree;
    struct husk_error e;

    for (int i = 0; i < 10; i++) {
        AUTO_ENGINE struct husk_engine *engine = fixture_open();
        husk_result_free(fixture_cell(engine, "1")); /* the zygote is up */
        pid_t launcher = proc_launcher();
        CASE("time %d", i);
        CHECK_OK(husk_pool_set(engine, "python", NULL, 20, 20, &e), &e);
        CHECK_INT(kill(launcher, SIGSTOP), 0); /* so that the tree stands still */
        proc_tree(launcher, &tree);
        CHECK_INT(kill(launcher, SIGKILL), 0);
        check_nothing_left(&tree);
        CHECK_INT(husk_pool_wait(engine, "python", 20, &e), -1);
        CHECK_STR(e.type, "launcher_gone");
    }
}

TEST(a_launcher_killed_while_a_zygote_starts_leaves_nothing)
{
    static struct proc_list tree;

    for (int i = 0; i < 10; i++) {
        struct launcher_client c = launcher_open();
        struct launcher_req start = {.op = LAUNCHER_START};
        CASE("time %d", i);
        launcher_greet(&c);
        start.template_id = launcher_template(&c, 1);
        launcher_fill(&c, start.template_id);
        launcher_text(&c, start.template_id, LAUNCHER_ARG, "/usr/bin/sleep");
        launcher_text(&c, start.template_id, LAUNCHER_ARG, "100");
        launcher_send(&c, &start, NULL, 0);
        CHECK_INT(usleep((useconds_t)i * 500), 0); /* another moment of the start each time */
        CHECK_INT(kill(c.pid, SIGSTOP), 0);
        proc_tree(c.pid, &tree);
        CHECK_INT(kill(c.pid, SIGKILL), 0);
        check_nothing_left(&tree);
        launcher_close(&c);
    }
}

/* Its client has time to save files, and no more: one that was taken over would stay for ever. */
TEST(a_launcher_whose_supervisor_is_gone_ends_although_its_client_stays)
{
    static struct proc_list tree;
    struct launcher_client c = launcher_open_impatient_for(getuid());
    struct launcher_rep rep;

    launcher_greet(&c);
    uint32_t id = launcher_shell_template(&c, 2);
    struct launcher_box boxes[] = {launcher_box(&c, id, 0), launcher_box(&c, id, 600000)};
    struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = boxes[0].id};
    launcher_send(&c, &keep, &boxes[0].ends[0], 1);
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = boxes[0].id};
    launcher_call(&c, &usage, NULL, 0, LAUNCHER_EV_USAGE);
    AWAIT((proc_children(proc_zygote(c.pid), &tree), tree.n == 2)); /* both have started */
    proc_tree(c.pid, &tree); /* with launcher, guard and zygote */

    fd_close(&c.supervisor);
    launcher_call(&c, &usage, NULL, 0, LAUNCHER_EV_USAGE); /* it may still finish */
    while (launcher_next(&c, &rep)) {
    }
    check_nothing_left(&tree);
    launcher_box_release(&boxes[0]);
    launcher_box_release(&boxes[1]);
    launcher_close(&c);
}

TEST(a_caller_that_dies_takes_everything_along)
{
    static struct proc_list tree;
    int pipe_fds[2];

    CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t caller = fork();
    if (caller == 0) {
        struct husk_error e;
        struct husk_engine *engine = fixture_open();
        CHECK_OK(husk_pool_set(engine, "python", NULL, 3, 3, &e), &e);
        CHECK_OK(husk_pool_wait(engine, "python", 3, &e), &e);
        CHECK_INT(write(pipe_fds[1], "", 1), 1);
        pause();
        _exit(0);
    }
    char byte;
    close(pipe_fds[1]);
    CHECK_INT(read(pipe_fds[0], &byte, 1), 1);
    close(pipe_fds[0]);
    proc_tree(caller, &tree);
    CHECK_INT(tree.n, 8); /* caller, launcher, guard, closer, zygote, three boxes */
    CHECK_INT(kill(caller, SIGKILL), 0);
    CHECK_INT(waitpid(caller, NULL, 0), caller);
    memmove(tree.pids, tree.pids + 1, --tree.n * sizeof(tree.pids[0]));
    check_nothing_left(&tree);
}

static void kill_box(void *user)
{
    static struct proc_list boxes;

    proc_children(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, *(size_t *)user);
    for (size_t i = 0; i < boxes.n; i++) { /* the one that runs has started a sleep */
        static struct proc_list below;
        proc_children(boxes.pids[i], &below);
        if (below.n > 0) {
            CHECK_INT(kill(boxes.pids[i], SIGKILL), 0);
        }
    }
}

TEST(a_box_killed_from_outside_has_crashed_and_its_neighbours_have_not)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, sleeper);
    AUTO_RESULT struct husk_result *r = NULL;
    struct husk_pool_stats stats;
    struct husk_error e;
    size_t alive = 3;

    CHECK_OK(husk_pool_set(engine, "python", NULL, 3, 3, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", 3, &e), &e);
    fixture_at_output(&spec, kill_box, &alive);
    r = fixture_run(engine, &spec);
    CHECK_END(r, "crashed signal 137");
    CHECK_STR(r->termination.detail, "killed by SIGKILL");
    CHECK_OK(husk_pool_stats(engine, "python", &stats, &e), &e);
    CHECK_INT(stats.dead, 0);
    CHECK_INT(stats.parked + stats.starting, 3);
}

TEST(what_a_dead_launcher_and_a_dead_guard_leave_the_next_launcher_removes)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_ENGINE struct husk_engine *next = NULL;
    static struct proc_list tree;
    struct husk_error e;

    CHECK_OK(husk_pool_set(engine, "python", NULL, 3, 3, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", 3, &e), &e);
    proc_tree(proc_launcher(), &tree);
    proc_kill(proc_guard(tree.pids[0]));
    CHECK_INT(kill(tree.pids[0], SIGKILL), 0);
    proc_wait_gone(&tree); /* boxes need no guard */
    check_engine_says_gone(engine);
    husk_close(engine); /* reaps the launcher */
    engine = NULL;
    next = fixture_open();
    proc_wait_no_cgroups(tree.pids[0]);
}

/* Writes the number after which the kernel looks for a free process id. */
static bool set_last_pid(pid_t pid)
{
    char text[16];

    CHECK_INT(str_format(text, sizeof(text), "%d", pid), 0);
    return fd_write_file(AT_FDCWD, "/proc/sys/kernel/ns_last_pid", text) == 0;
}

/* A child with just that id, which sleeps; 0: another process of the machine has it by now. */
static pid_t child_with_pid(pid_t want)
{
    for (int tries = 0; tries < 200; tries++) {
        if (!set_last_pid(want - 1)) {
            SKIP("this kernel has no ns_last_pid");
        }
        pid_t pid = fork();
        if (pid == 0) {
            pause();
            _exit(0);
        }
        if (pid == want) {
            return pid;
        }
        CHECK_INT(kill(pid, SIGKILL), 0); /* another process was faster, or it is still taken */
        CHECK_INT(waitpid(pid, NULL, 0), pid);
    }
    return 0;
}

TEST(a_stranger_that_gets_the_id_of_a_dead_box_is_left_alone)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    static struct proc_list boxes;
    struct husk_error e;
    int strangers = 0;

    for (int i = 0; i < 20; i++) {
        CASE("time %d", i);
        CHECK_OK(husk_pool_set(engine, "python", NULL, 1, 1, &e), &e);
        CHECK_OK(husk_pool_wait(engine, "python", 1, &e), &e);
        proc_children(proc_zygote(proc_launcher()), &boxes);
        CHECK_INT(boxes.n, 1);
        proc_kill(boxes.pids[0]);
        pid_t stranger = child_with_pid(boxes.pids[0]);
        /* Everything that might be done about the old box happens now. */
        CHECK_OK(husk_pool_set(engine, "python", NULL, 0, 0, &e), &e);
        (void)husk_pool_wait(engine, "python", 0, &e);
        AUTO_RESULT struct husk_result *r = fixture_cell(engine, "1");
        CHECK_END(r, "completed exit 0");
        proc_children(proc_zygote(proc_launcher()), &boxes);
        proc_wait_gone(&boxes); /* the run's own */
        if (stranger > 0) {
            CHECK(proc_is_alive(stranger));
            CHECK_INT(kill(stranger, SIGKILL), 0);
            CHECK_INT(waitpid(stranger, NULL, 0), stranger);
            strangers++;
        }
    }
    CHECK(strangers > 0);
}
