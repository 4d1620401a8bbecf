/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zygotes that lie, break or stop: a template's preloads run in them, so the launcher must not
 * trust what they say. Here the template's program is a few lines of Python that speak in its
 * name.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
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
#include "wire/zygote_msg.h"

/* say(event, box, fd) sends what a zygote would; the rest of a program follows. */
static const char prologue[] =
    "import os, socket, struct, time\n"
    "s = socket.socket(fileno=3)\n"
    "def say(event, box=0, fd=-1, text=b''):\n"
    "    r = struct.pack('IIi4xQQii400s', event, box, 9, 0, 0, 6, 0, text)\n"
    "    assert len(r) == %zu\n"
    "    socket.send_fds(s, [r], [fd] if fd >= 0 else [])\n";

/* A template whose zygote is that program; not started. */
static uint32_t lying_template(struct launcher_client *c, const char *program)
{
    char code[LAUNCHER_TEXT_MAX];
    char head[LAUNCHER_TEXT_MAX];
    uint32_t id = launcher_template(c, 64);

    CHECK_INT(str_format(head, sizeof(head), prologue, sizeof(struct zygote_rep)), 0);
    CHECK_INT(str_format(code, sizeof(code), "%s%s", head, program), 0);
    launcher_fill(c, id);
    launcher_text(c, id, LAUNCHER_ARG, "/usr/bin/python3");
    launcher_text(c, id, LAUNCHER_ARG, "-ISc");
    launcher_text(c, id, LAUNCHER_ARG, code);
    return id;
}

static struct launcher_rep start(struct launcher_client *c, uint32_t id, enum launcher_event want)
{
    struct launcher_req req = {.op = LAUNCHER_START, .template_id = id};

    return launcher_call(c, &req, NULL, 0, want);
}

TEST(a_zygote_that_starts_with_nonsense_is_broken)
{
    static const struct {
        const char *program;
        const char *message;
    } rows[] = {
        {"os.write(3, b'x' * 100)\ntime.sleep(100)", "died while starting"},
        {"os.write(3, b'\\0' * 1000)\ntime.sleep(100)", "died while starting"},
        {"say(0)\ntime.sleep(100)", "died while starting"},
        {"say(77)\ntime.sleep(100)", "died while starting"},
        {"say(1, 0, 0)\ntime.sleep(100)", "died while starting"}, /* READY brings no descriptor */
        {"say(3)\ntime.sleep(100)", "died while starting"},       /* SPAWNED must bring one */
        {"say(1, 0, -1, b'x' * 400)\ntime.sleep(100)", "died while starting"},
        {"say(2, 0, -1, b'no such module')", "no such module"},
        {"s.close()\ntime.sleep(100)", "died while starting"},
        {"os._exit(0)", "died while starting"},
        {"os.write(2, b'one\\nno lib\\x1b[2J\\n\\n')\nos._exit(127)",
         "died while starting (exit status 127): one no lib\\x1b[2J"},
        {"os.write(2, b'x' * 100000)\nos._exit(1)",
         "died while starting (exit status 1): xxxxxxxx"},
        {"os.ftruncate(2, 1 << 40)\nos._exit(1)", "died while starting"},
        {"os.kill(os.getpid(), 11)\nos.abort()", "died while starting"},
    };
    AUTO_LAUNCHER struct launcher_client c = launcher_open();

    launcher_greet(&c);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].program);
        launcher_wait_place(&c); /* of the one before nothing is left */
        uint32_t id = lying_template(&c, rows[i].program);
        struct launcher_rep rep = start(&c, id, LAUNCHER_EV_ERROR);
        CHECK_INT(rep.err.code, ERR_TEMPLATE);
        CHECK_HAS(rep.err.msg, rows[i].message);
    }
}

/* A preload that never ends must not block the client, nor keep the place of the template. */
TEST(a_zygote_that_does_not_become_ready_is_broken)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open_impatient();

    launcher_greet(&c);
    for (int i = 0; i < 2; i++) {
        launcher_wait_place(&c); /* of the one before nothing is left */
        uint32_t id = lying_template(&c, "os.write(2, b'looking for a license\\n')\n"
                                         "time.sleep(1000)");
        struct launcher_rep rep = start(&c, id, LAUNCHER_EV_ERROR);
        CHECK_INT(rep.err.code, ERR_TEMPLATE);
        CHECK_HAS(rep.err.msg, "was not ready after");
        CHECK_HAS(rep.err.msg, "s: looking for a license");
    }
}

TEST(a_zygote_that_breaks_later_takes_only_its_own_with_it)
{
    static const char *const programs[] = {
        "say(1)\ns.recv(1)\nos.write(3, b'nonsense')\ntime.sleep(100)",
        "say(1)\ns.recv(1)\nos._exit(0)",
        "say(1)\ns.recv(1)\nsay(4, 0, 0)\ntime.sleep(100)",
    };
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_rep rep;

    launcher_greet(&c);
    uint32_t honest = launcher_shell_template(&c, 2);
    struct launcher_box bystander = launcher_box(&c, honest, 0);
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        CASE("%s", programs[i]);
        uint32_t id = lying_template(&c, programs[i]);
        start(&c, id, LAUNCHER_EV_OK);
        struct launcher_box box = launcher_box(&c, id, 0);
        bool gone = false;
        bool ended = false;
        while (!gone || !ended) {
            CHECK(launcher_next(&c, &rep));
            gone = gone || (rep.event == LAUNCHER_EV_GONE && rep.template_id == id);
            if (rep.event == LAUNCHER_EV_EXIT) {
                CHECK_INT(rep.box_id, box.id);
                CHECK_INT(rep.box.end, LAUNCHER_END_ZYGOTE);
                ended = true;
            }
        }
        launcher_box_release(&box);
    }
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = bystander.id};
    launcher_call(&c, &usage, NULL, 0, LAUNCHER_EV_USAGE);
    launcher_box_release(&bystander);
}

/* Each takes less than the launcher's patience, all of them more. */
TEST_TIMEOUT(a_zygote_that_is_slow_is_not_stuck, 60)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_box boxes[16];
    struct launcher_rep rep;

    launcher_greet(&c);
    uint32_t id = lying_template(&c, "say(1)\n"
                                     "while True:\n"
                                     "    m = s.recv(999)\n"
                                     "    time.sleep(0.4)\n"
                                     "    say(4, struct.unpack('I', m[:4])[0])");
    start(&c, id, LAUNCHER_EV_OK);
    for (size_t i = 0; i < ARRAY_LEN(boxes); i++) {
        boxes[i] = launcher_box(&c, id, 0);
    }
    for (size_t ended = 0; ended < ARRAY_LEN(boxes); ended += rep.event == LAUNCHER_EV_EXIT) {
        CHECK(launcher_next(&c, &rep));
        CHECK(rep.event != LAUNCHER_EV_GONE);
    }
    for (size_t i = 0; i < ARRAY_LEN(boxes); i++) {
        launcher_box_release(&boxes[i]);
    }
}

/*
 * SPAWNED, REFUSED and EXITED about a box of another template, one that is not there, and its own.
 */
TEST(a_zygote_may_speak_of_its_own_boxes_only)
{
    char program[300];
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_rep rep;

    launcher_greet(&c);
    uint32_t honest = launcher_shell_template(&c, 2);
    struct launcher_box foreign = launcher_box(&c, honest, 0);
    CHECK_INT(str_format(program, sizeof(program),
                         "say(1)\nm = s.recv(999)\n"
                         "own = struct.unpack('I', m[:4])[0]\n"
                         "for b in (%u, %u, 0xffffffff):\n"
                         "    say(3, b, os.open('/dev/null', 0)); say(4, b); say(5, b)\n"
                         "say(4, own)\ntime.sleep(100)",
                         foreign.id, foreign.id + 1),
              0);
    uint32_t id = lying_template(&c, program);
    start(&c, id, LAUNCHER_EV_OK);
    struct launcher_box own = launcher_box(&c, id, 0);
    do {
        CHECK(launcher_next(&c, &rep));
    } while (rep.event != LAUNCHER_EV_EXIT);
    CHECK_INT(rep.box_id, own.id); /* the last of its words came after all the others */
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = foreign.id};
    launcher_call(&c, &usage, NULL, 0, LAUNCHER_EV_USAGE);
    launcher_box_release(&own);
    launcher_box_release(&foreign);
}

/*
 * Runs a zygote that says something about its first box, and refuses the second: the only one that
 * may end.
 */
static void check_first_stays(const char *words)
{
    char program[500];
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_rep rep;

    CHECK_INT(str_format(program, sizeof(program),
                         "say(1)\n"
                         "own = struct.unpack('I', s.recv(999)[:4])[0]\n"
                         "import ctypes\n" /* clone3() with NEWUSER and NEWPID: a zygote may */
                         "a = struct.pack('11Q', 0x30000000, 0, 0, 0, 17, *[0] * 6)\n"
                         "pid = ctypes.CDLL(None).syscall(435, a, 88)\n"
                         "if pid == 0: time.sleep(100)\n"
                         "child = os.pidfd_open(pid)\n%s\n"
                         "say(4, struct.unpack('I', s.recv(999)[:4])[0])\ntime.sleep(100)",
                         words),
              0);
    launcher_greet(&c);
    uint32_t id = lying_template(&c, program);
    start(&c, id, LAUNCHER_EV_OK);
    struct launcher_box own = launcher_box(&c, id, 0);
    struct launcher_box second = launcher_box(&c, id, 0);
    do {
        CHECK(launcher_next(&c, &rep));
    } while (rep.event != LAUNCHER_EV_EXIT);
    CHECK_INT(rep.box_id, second.id);
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = own.id};
    launcher_call(&c, &usage, NULL, 0, LAUNCHER_EV_USAGE);
    launcher_box_release(&own);
    launcher_box_release(&second);
}

/* The place in the launcher's table is the same; whose it was or will be is another box. */
TEST(a_zygote_speaks_of_boxes_by_their_whole_number)
{
    check_first_stays("for b in (own + 4096, own - 4096): say(4, b); say(5, b)");
}

/* Starts a zygote that lies about its boxes; it is ended for that, and others are served on. */
static void check_is_ended(const char *words, unsigned boxes)
{
    char program[600];
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_rep rep = {0};

    CHECK_INT(str_format(program, sizeof(program), "say(1)\n%s\ntime.sleep(100)", words), 0);
    launcher_greet(&c);
    uint32_t honest = launcher_shell_template(&c, 2);
    uint32_t id = lying_template(&c, program);
    start(&c, id, LAUNCHER_EV_OK);
    for (unsigned i = 0; i < boxes && rep.event != LAUNCHER_EV_GONE; i++) {
        struct launcher_req req = {
            .op = LAUNCHER_BOX, .template_id = id, .box = {.limits = limits_default()}};
        int ours[LAUNCHER_BOX_FDS];
        int theirs[LAUNCHER_BOX_FDS];
        launcher_ends(ours, theirs);
        launcher_send(&c, &req, theirs, LAUNCHER_BOX_FDS);
        do {
            CHECK(launcher_next(&c, &rep));
        } while (rep.seq != c.seq && rep.event != LAUNCHER_EV_GONE);
        for (int k = 0; k < LAUNCHER_BOX_FDS; k++) {
            close(ours[k]);
            close(theirs[k]);
        }
    }
    while (rep.event != LAUNCHER_EV_GONE) {
        CHECK(launcher_next(&c, &rep));
    }
    CHECK_INT(rep.template_id, id);
    struct launcher_box other = launcher_box(&c, honest, 0);
    launcher_box_release(&other);
}

/*
 * The launcher counts births: with a wrong count it would read no more requests. Each
 * brings a descriptor, which may be dear to look at or to close.
 */
TEST(a_zygote_that_tells_a_birth_twice_is_ended)
{
    check_is_ended("own = struct.unpack('I', s.recv(999)[:4])[0]\n"
                   "for i in range(3): say(3, own, 0)",
                   1);
}

TEST(a_zygote_that_tells_births_of_no_box_is_ended)
{
    check_is_ended("s.recv(999)\nfor i in range(300): say(3, 4096 * 9 + i, 0)", 1);
}

/* Each READY would leave descriptors open, and a box that no client knows. */
TEST(a_zygote_that_is_ready_twice_is_ended)
{
    check_is_ended("say(1)", 0);
}

/* It would give its ids and its cgroup to the next box, and outlive its deadline. */
TEST(a_box_that_lives_cannot_be_buried)
{
    check_is_ended("own = struct.unpack('I', s.recv(999)[:4])[0]\n"
                   "import ctypes\n"
                   "a = struct.pack('11Q', 0x30000000, 0, 0, 0, 17, *[0] * 6)\n"
                   "pid = ctypes.CDLL(None).syscall(435, a, 88)\n"
                   "if pid == 0: time.sleep(100)\n"
                   "say(3, own, os.pidfd_open(pid))\nsay(5, own)",
                   1);
}

TEST(a_box_that_was_not_born_cannot_be_buried)
{
    check_is_ended("say(5, struct.unpack('I', s.recv(999)[:4])[0])", 1);
}

/* It refuses boxes by guessing. The launcher must not wait for it: all clients would wait, too. */
TEST(a_zygote_that_reads_no_requests_is_ended)
{
    check_is_ended("while True:\n"
                   "    for b in range(5):\n"
                   "        for g in range(1, 400): say(4, b + 4096 * g)\n"
                   "    time.sleep(0.01)",
                   1000);
}

/* What it gives as the box's pidfd is not one: the launcher must not fall over it. */
TEST(a_false_pidfd_does_no_harm)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_rep rep;

    launcher_greet(&c);
    uint32_t id =
        lying_template(&c, "say(1)\nm = s.recv(999)\n"
                           "say(3, struct.unpack('I', m[:4])[0], os.open('/dev/null', 0))\n"
                           "time.sleep(100)");
    start(&c, id, LAUNCHER_EV_OK);
    struct launcher_box box = launcher_box(&c, id, 0);
    struct launcher_req kill = {.op = LAUNCHER_KILL, .box_id = box.id};
    struct launcher_req stop = {.op = LAUNCHER_STOP, .template_id = id};
    launcher_send(&c, &kill, NULL, 0);
    launcher_send(&c, &stop, NULL, 0);
    do {
        CHECK(launcher_next(&c, &rep));
    } while (rep.event != LAUNCHER_EV_OK || rep.seq != c.seq);
    uint32_t honest = launcher_shell_template(&c, 1);
    struct launcher_box next = launcher_box(&c, honest, 0);
    launcher_box_release(&next);
    launcher_box_release(&box);
}

/*
 * A socket gives a pidfd of its maker. As the pidfd of a box it would have the launcher end
 * itself. 77 is SO_PEERPIDFD.
 */
TEST(only_a_process_below_its_zygote_is_taken_for_a_box)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_rep rep;

    launcher_greet(&c);
    uint32_t id = lying_template(&c, "say(1)\n"
                                     "own, other = (s.recv(999)[:4] for i in 'ab')\n"
                                     "try: them = s.getsockopt(socket.SOL_SOCKET, 77)\n"
                                     "except OSError: them = 0\n"
                                     "say(3, struct.unpack('I', own)[0], them)\n"
                                     "say(4, struct.unpack('I', other)[0])\n"
                                     "time.sleep(100)");
    start(&c, id, LAUNCHER_EV_OK);
    struct launcher_box box = launcher_box(&c, id, 0);
    struct launcher_box other = launcher_box(&c, id, 0);
    do {
        CHECK(launcher_next(&c, &rep));
    } while (rep.event != LAUNCHER_EV_EXIT || rep.box_id != other.id);
    struct launcher_req end = {.op = LAUNCHER_FINISH, .box_id = box.id};
    launcher_call(&c, &end, NULL, 0, LAUNCHER_EV_USAGE);
    struct launcher_req stop = {.op = LAUNCHER_STOP, .template_id = id};
    launcher_call(&c, &stop, NULL, 0, LAUNCHER_EV_OK);
    launcher_box_release(&box);
    launcher_box_release(&other);
}

/* One that talks without end gets no more of the launcher's time than others. */
TEST(who_talks_much_is_not_heard_out_before_others)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_rep rep;
    char byte = 0;

    launcher_greet(&c);
    uint32_t id = lying_template(&c, "say(1)\n"
                                     "m, fds = socket.recv_fds(s, 999, 20)[:2]\n"
                                     "os.read(fds[0], 1)\n"
                                     "for i in range(100): say(5)\n"
                                     "say(4, struct.unpack('I', m[:4])[0])\n"
                                     "os.write(fds[0], b'x')\n"
                                     "time.sleep(100)");
    start(&c, id, LAUNCHER_EV_OK);
    struct launcher_box box = launcher_box(&c, id, 0);
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = box.id};
    CHECK_INT(kill(c.pid, SIGSTOP), 0);
    CHECK_INT(waitpid(c.pid, NULL, WUNTRACED), c.pid); /* it may have been running */
    CHECK_INT(write(box.ends[0], &byte, 1), 1);
    CHECK_INT(read(box.ends[0], &byte, 1), 1); /* all is said, and nothing heard */
    launcher_send(&c, &usage, NULL, 0);
    CHECK_INT(kill(c.pid, SIGCONT), 0);
    CHECK(launcher_next(&c, &rep));
    CHECK_INT(rep.event, LAUNCHER_EV_USAGE); /* for the box that has not ended yet */
    launcher_box_release(&box);
}

/*
 * A stuck zygote does not read the end of its socket. The guard, or any later launcher, would kill
 * it a little later, so only the zygote's own setting proves it: 2 is PR_GET_PDEATHSIG.
 */
TEST(the_kernel_ends_a_zygote_with_its_launcher)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();

    launcher_greet(&c);
    uint32_t id = lying_template(&c, "import ctypes\nsig = ctypes.c_int()\n"
                                     "ctypes.CDLL(None).prctl(2, ctypes.byref(sig))\n"
                                     "say(2, 0, -1, b'signal %d' % sig.value)");
    struct launcher_rep rep = start(&c, id, LAUNCHER_EV_ERROR);
    CHECK_HAS(rep.err.msg, "signal 9");
}

/*
 * Looked at from inside and at once: a zygote that is idle makes networks for its boxes, and is in
 * the last of them then.
 */
TEST(preloads_run_in_no_namespace_of_the_hosts)
{
    static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    char path[32];
    char host[64];

    launcher_greet(&c);
    uint32_t id = lying_template(&c, "names = 'user mnt pid net ipc uts cgroup'.split()\n"
                                     "links = [os.readlink('/proc/self/ns/' + n) for n in names]\n"
                                     "say(2, 0, -1, ' '.join(links).encode())");
    struct launcher_rep rep = start(&c, id, LAUNCHER_EV_ERROR);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CASE("%s in %s", names[i], rep.err.msg);
        CHECK_INT(str_format(path, sizeof(path), "ns/%s", names[i]), 0);
        proc_link(getpid(), path, host, sizeof(host));
        CHECK_INT(str_format(path, sizeof(path), "%s:[", names[i]), 0);
        CHECK_HAS(rep.err.msg, path);
        CHECK(strstr(rep.err.msg, host) == NULL);
    }
}

/*
 * The client closes descriptors that are not for its launcher. One that was started with more
 * passes none of them on.
 */
TEST(a_zygote_has_no_descriptor_of_who_started_its_launcher)
{
    AUTO_CLOSE int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int stray = fcntl(root, F_DUPFD, 50); /* NOLINT(android-cloexec-dup): a careless caller's */
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    char path[64];
    char link[64];

    CHECK(stray >= 50);
    CHECK_INT(str_format(path, sizeof(path), "/proc/%d/fd/%d", c.pid, stray), 0);
    close(stray);
    launcher_greet(&c);
    (void)launcher_shell_template(&c, 1);
    CHECK_INT(readlink(path, link, sizeof(link)), 1); /* "/": the launcher itself has it */
    pid_t zygote = proc_zygote(c.pid);
    for (int fd = 0; fd <= stray; fd++) {
        CASE("descriptor %d", fd);
        CHECK_INT(str_format(path, sizeof(path), "/proc/%d/fd/%d", zygote, fd), 0);
        ssize_t n = readlink(path, link, sizeof(link) - 1);
        CHECK(n != 1);
        link[n > 0 ? n : 0] = '\0';
        CHECK(fd > STDERR_FILENO || str_eq(link, "/dev/null")); /* its terminal, most of all */
    }
}

TEST(a_preload_that_fails_is_told_by_name)
{
    char dir[] = "/tmp/husk-test-XXXXXX";
    char path[64];
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec = fixture_spec("broken", HUSK_CELL, "1");
    struct husk_result *r = NULL;
    struct husk_error e;

    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(str_format(path, sizeof(path), "%s/broken.template", dir), 0);
    FILE *f = fopen(path, "we");
    CHECK(f != NULL && fputs("language = python\npreload = json no_such_module\n", f) >= 0);
    CHECK_INT(fclose(f), 0);
    fixture_paths();
    const struct husk_options options = {.template_dir = dir};
    CHECK_OK(husk_open(&options, &engine, &e), &e);
    CHECK_INT(husk_run(engine, &spec, &r, &e), -1);
    CHECK_STR(e.type, "template_broken");
    CHECK_HAS(e.message, "no_such_module");
    CHECK_HAS(e.message, "broken");
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(dir), 0);
}

TEST(a_zygote_that_died_is_replaced_when_it_is_needed)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_error e;

    for (int i = 0; i < 3; i++) {
        CASE("time %d", i);
        AUTO_RESULT struct husk_result *r = fixture_cell(engine, "6 * 7");
        CHECK_STR(r->value, "42");
        proc_kill(proc_zygote(proc_launcher()));
    }
    CHECK_OK(husk_pool_set(engine, "python", NULL, 2, 2, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", 2, &e), &e);
    proc_kill(proc_zygote(proc_launcher()));
    AUTO_RESULT struct husk_result *r = fixture_cell(engine, "6 * 7");
    CHECK_STR(r->value, "42");
}

static void kill_zygote(void *user)
{
    (void)user;
    CHECK_INT(kill(proc_zygote(proc_launcher()), SIGKILL), 0);
}

TEST(a_run_whose_zygote_dies_says_so)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec =
        fixture_spec("python", HUSK_SCRIPT, "print('on')\nimport time; time.sleep(100)");
    AUTO_RESULT struct husk_result *r = NULL;

    fixture_at_output(&spec, kill_zygote, NULL);
    r = fixture_run(engine, &spec);
    CHECK_END(r, "crashed internal 125");
    CHECK_HAS(r->termination.detail, "zygote");
    AUTO_RESULT struct husk_result *next = fixture_cell(engine, "6 * 7");
    CHECK_STR(next->value, "42");
}

/* The run ends by its own time limit; a zygote that owes a birth for 5 s is replaced. */
TEST_TIMEOUT(a_zygote_that_is_stuck_is_replaced, 60)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, "6 * 7");
    struct husk_result *r = NULL;
    struct husk_error e;

    husk_result_free(fixture_cell(engine, "1")); /* the zygote is up */
    pid_t zygote = proc_zygote(proc_launcher());
    CHECK_INT(kill(zygote, SIGSTOP), 0);
    spec.limits.timeout_ms = 1000;
    if (husk_run(engine, &spec, &r, &e) == 0) { /* whichever it is: it must come to an end */
        CHECK(r->status == HUSK_CRASHED || r->status == HUSK_TIMEOUT);
        husk_result_free(r);
    }
    const struct proc_list stuck = {.pids = {zygote}, .n = 1};
    proc_wait_gone(&stuck);
    AUTO_RESULT struct husk_result *next = fixture_cell(engine, "6 * 7");
    CHECK_STR(next->value, "42");
}

static void stop_zygote(void *user)
{
    (void)user;
    CHECK_INT(kill(proc_zygote(proc_launcher()), SIGSTOP), 0);
}

/* No zygote is left to report the end of the box; its time is up all the same. */
TEST_TIMEOUT(a_run_ends_in_time_though_its_zygote_is_stuck, 40)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec =
        fixture_spec("python", HUSK_SCRIPT, "print('on')\nimport time; time.sleep(100)");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.limits.timeout_ms = 500;
    fixture_at_output(&spec, stop_zygote, NULL);
    r = fixture_run(engine, &spec);
    CHECK(r->status == HUSK_TIMEOUT || r->status == HUSK_CRASHED);
    AUTO_RESULT struct husk_result *next = fixture_cell(engine, "6 * 7");
    CHECK_STR(next->value, "42");
}
