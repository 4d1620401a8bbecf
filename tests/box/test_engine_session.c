/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: contexts, branches and checkpoints, and the walls around them. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define SUID_DUMPABLE "/proc/sys/fs/suid_dumpable"

TEST(a_branch_has_all_variables_and_shares_none)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_error e;
    uint32_t b;

    CHECK_CELL(s, 0, "x = [1]\ndef f(): return sum(x)", NULL);
    CHECK_OK(husk_session_branch(s, 0, &b, &e), &e);
    CHECK(b != 0);
    CHECK_CELL(s, b, "x.append(10)\nf()", "11");
    CHECK_CELL(s, 0, "x.append(100)\nf()", "101");
    CHECK_CELL(s, b, "x", "[1, 10]");
    CHECK_CELL(s, 0, "x", "[1, 100]");
}

TEST(a_branch_of_a_branch_outlives_what_it_came_from)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_error e;
    uint32_t b;
    uint32_t c;

    CHECK_CELL(s, 0, "x = 1", NULL);
    CHECK_OK(husk_session_branch(s, 0, &b, &e), &e);
    CHECK_CELL(s, b, "x = 2", NULL);
    CHECK_OK(husk_session_branch(s, b, &c, &e), &e);
    AUTO_RESULT struct husk_result *dead = fixture_in(s, b, 0, "import os; os._exit(1)");
    CHECK_END(dead, "failed exit 1");
    CHECK_CELL(s, c, "x", "2");
    CHECK_CELL(s, b, "'x' in globals()", "False");
    CHECK_CELL(s, 0, "x", "1");
}

/* Goes on with the process when it had time to miss something. */
static pid_t stop_for_a_while(pid_t pid)
{
    CHECK_INT(kill(pid, SIGSTOP), 0);
    pid_t helper = fork();
    if (helper == 0) {
        const struct timespec moment = {.tv_nsec = 300000000};
        nanosleep(&moment, NULL);
        kill(pid, SIGCONT);
        _exit(0);
    }
    CHECK(helper > 0);
    return helper;
}

/* PID 1 hears of the branch and of its end at the same time. */
TEST(how_a_branch_ended_is_known_however_soon_it_did)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    static struct proc_list boxes;
    struct husk_error e;
    uint32_t b;

    CHECK_CELL(s, 0, "import os", NULL);
    proc_children(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, 1);
    pid_t helper = stop_for_a_while(boxes.pids[0]);
    CHECK_OK(husk_session_branch(s, 0, &b, &e), &e);
    AUTO_RESULT struct husk_result *r = fixture_in(s, b, 0, "os._exit(7)");
    CHECK_INT(waitpid(helper, NULL, 0), helper);
    CHECK_END(r, "failed exit 7");
}

/* Its process is the copy's only thread, also while others work, allocate and hold locks. */
TEST(a_context_with_busy_threads_can_be_branched)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_error e;
    uint32_t b;

    CHECK_CELL(s, 0,
               "import threading\n"
               "x, stop = 41, False\n"
               "def work():\n"
               "    while not stop: bytes(100000), str(threading.current_thread())\n"
               "for _ in range(3): threading.Thread(target=work).start()",
               NULL);
    for (int i = 0; i < 5; i++) {
        CHECK_OK(husk_session_branch(s, 0, &b, &e), &e);
        CHECK_CELL(s, b, "[x + 1, threading.active_count(), len(bytes(100000))]",
                   "[42, 1, 100000]");
        CHECK_CELL(s, b, "t = threading.Thread(target=print, args=(1,)); t.start(); t.join()",
                   NULL);
    }
    CHECK_CELL(s, 0, "stop = True; threading.active_count()", "4");
}

/* The caller gets an error; the original lives on with its variables. */
TEST(a_session_that_is_full_of_processes_cannot_be_branched_and_loses_nothing)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_limits limits = {.pids = 16};
    AUTO_SESSION struct husk_session *s = fixture_session(engine, &limits);
    struct husk_error e;
    uint32_t b;

    for (int free = 0; free < 2; free++) { /* none for the process between, or one for it alone */
        CASE("%d free", free);
        CHECK_CELL(s, 0,
                   "import os, signal\n"
                   "x, sleepers = 42, []\n"
                   "while True:\n"
                   "    try: pid = os.fork()\n"
                   "    except OSError: break\n"
                   "    if pid == 0: signal.pause()\n"
                   "    sleepers.append(pid)",
                   NULL);
        CHECK_CELL(s, 0, free == 0 ? "" : "os.kill(sleepers[0], 9), os.wait()[1]",
                   free == 0 ? NULL : "(None, 9)");
        CHECK_INT(husk_session_branch(s, 0, &b, &e), -1);
        CHECK_HAS(e.message, "process limit");
        CHECK_CELL(s, 0, "x", "42");
        CHECK_CELL(s, 0,
                   "for p in sleepers:\n"
                   "    try: os.kill(p, 9); os.waitpid(p, 0)\n"
                   "    except OSError: pass",
                   NULL);
    }
    CHECK_OK(husk_session_branch(s, 0, &b, &e), &e);
    CHECK_CELL(s, b, "x", "42");
}

TEST(branches_draw_different_numbers)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_error e;
    uint32_t b;

    CHECK_CELL(s, 0, "import ctypes, random, ssl\n_ = random.random(), ssl.RAND_bytes(8)", NULL);
    CHECK_OK(husk_session_branch(s, 0, &b, &e), &e);
    static const char *const draws[] = {"random.random()", "ssl.RAND_bytes(8).hex()",
                                        "ctypes.CDLL(None).rand()"};
    for (size_t i = 0; i < ARRAY_LEN(draws); i++) {
        CASE("%s", draws[i]);
        AUTO_RESULT struct husk_result *one = fixture_in(s, 0, 0, draws[i]);
        AUTO_RESULT struct husk_result *two = fixture_in(s, b, 0, draws[i]);
        CHECK(one->value != NULL && two->value != NULL);
        CHECK(!str_eq(one->value, two->value));
    }
}

TEST(a_checkpoint_can_be_gone_back_to_any_number_of_times)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_error e;
    uint32_t point;

    CHECK_CELL(s, 0, "x = [1]", NULL);
    CHECK_OK(husk_session_checkpoint(s, 0, &point, &e), &e);
    for (int i = 0; i < 3; i++) {
        CASE("time %d", i);
        CHECK_CELL(s, 0, "x.append(2)\nx", "[1, 2]");
        CHECK_OK(husk_session_restore(s, 0, point, &e), &e);
        CHECK_CELL(s, 0, "x", "[1]");
    }
    AUTO_RESULT struct husk_result *dead = fixture_in(s, 0, 0, "import os; os._exit(1)");
    CHECK_END(dead, "failed exit 1");
    CHECK_OK(husk_session_restore(s, 0, point, &e), &e);
    CHECK_CELL(s, 0, "x", "[1]");
}

TEST(contexts_and_checkpoints_are_told_apart)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, "1");
    struct husk_result *r = NULL;
    struct husk_error e;
    uint32_t point;
    uint32_t id;

    CHECK_OK(husk_session_checkpoint(s, 0, &point, &e), &e);
    CHECK_INT(husk_session_run(s, point, &spec, &r, &e), -1);
    CHECK_STR(e.type, "not_found");
    CHECK_INT(husk_session_restore(s, 0, 0, &e), -1);
    CHECK_STR(e.type, "not_found");
    CHECK_INT(husk_session_branch(s, point, &id, &e), -1);
    CHECK_STR(e.type, "not_found");
    CHECK_INT(husk_session_run(s, 4000000000u, &spec, &r, &e), -1);
    CHECK_STR(e.type, "not_found");
}

TEST(the_number_of_contexts_is_bounded)
{
    const struct husk_limits limits = {.pids = 100};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, &limits);
    struct husk_error e;
    uint32_t id;

    for (int i = 1; i < 64; i++) {
        CASE("context %d", i);
        CHECK_OK(husk_session_branch(s, 0, &id, &e), &e);
    }
    CHECK_INT(husk_session_branch(s, 0, &id, &e), -1);
    CHECK_STR(e.type, "limit_reached");
    CHECK_CELL(s, 0, "1 + 1", "2");
}

TEST(limits_hold_for_the_session_as_a_whole)
{
    static const struct {
        const char *code;
        const char *end;
    } rows[] = {
        {"open('a', 'wb').write(b'x' * (9 << 20))", "failed disk 1: disk 8 MiB"},
        {"x = []\nwhile True: x.append(bytearray(1 << 20))",
         "memory_exceeded oom 137: memory 64 MiB"},
        {"while True: print('x' * 1000)", "failed output_limit 153: output 100 KiB"},
    };
    const struct husk_limits limits = {
        .memory_bytes = 64 * MIB, .disk_bytes = 8 * MIB, .pids = 8, .output_bytes = 100 * 1024};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_SESSION struct husk_session *s = fixture_session(engine, &limits);
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 0, rows[i].code);
        CHECK_END(r, rows[i].end);
        CASE("the cell after: %s", rows[i].code);
        CHECK_CELL(s, 0, "1 + 1", "2");
    }
    AUTO_SESSION struct husk_session *s = fixture_session(engine, &limits);
    CASE("processes");
    CHECK_CELL(s, 0,
               "import os, time\nn = 0\n"
               "try:\n    while True:\n        if os.fork() == 0: time.sleep(100)\n"
               "        n += 1\nexcept BlockingIOError: pass\nn",
               "6"); /* PID 1 and the context are the other two */
}

TEST(the_first_process_can_be_neither_killed_nor_read)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    CHECK_CELL(s, 0, "import os, signal\n[os.getpid() != 1, os.getppid()]", "[True, 1]");
    CHECK_CELL(s, 0,
               "for n in range(1, 65):\n"
               "    if n not in (32, 33):\n        os.kill(1, n)\n"
               "os.path.exists('/proc/1')",
               "True");
    CHECK_CELL(s, 0,
               "def reach(name, how):\n"
               "    try: os.close(os.open('/proc/1/' + name, how)); return name\n"
               "    except OSError: return None\n"
               "[reach('mem', os.O_RDONLY), reach('mem', os.O_RDWR), reach('maps', os.O_RDONLY),\n"
               " reach('environ', os.O_RDONLY), reach('fd', os.O_RDONLY)]",
               "[None, None, None, None, None]");
    CHECK_CELL(s, 0,
               "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n"
               "[c.ptrace(16, 1, 0, 0), c.prctl(0x59616d61, 1, 0, 0, 0)][0]",
               "-1");
    CHECK_CELL(s, 0, "6 * 7", "42");
}

/*
 * A change of ids closes a process to its own user, unless the host says otherwise: then PID 1 has
 * to close itself. Nothing is checked before the host's setting is back.
 */
TEST(the_first_process_is_closed_also_where_the_host_leaves_it_open)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec shell = fixture_spec(
        "shell", HUSK_SCRIPT, "cat /proc/1/environ /proc/1/maps /proc/1/auxv 2> /dev/null | wc -c");
    AUTO_RESULT struct husk_result *in_shell = NULL;
    AUTO_RESULT struct husk_result *in_session = NULL;
    char before[8] = "";

    CHECK(fd_read_file(AT_FDCWD, SUID_DUMPABLE, before, sizeof(before)) > 0);
    CHECK_INT(fd_write_file(AT_FDCWD, SUID_DUMPABLE, "1"), 0);
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    in_session = fixture_in(s, 0, 0,
                            "import os\n"
                            "def reach(name):\n"
                            "    try: open('/proc/1/' + name, 'rb').read(1); return True\n"
                            "    except OSError: return False\n"
                            "[n for n in ('environ', 'maps', 'auxv', 'mem', 'fd/0') if reach(n)]");
    in_shell = fixture_run(engine, &shell);
    CHECK_INT(fd_write_file(AT_FDCWD, SUID_DUMPABLE, before), 0);
    CHECK_STR(in_session->value, "[]");
    CHECK_STR(in_shell->out, "0\n");
}

TEST(another_context_of_the_session_can_be_killed_and_is_made_anew)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_error e;
    uint32_t b;

    CHECK_CELL(s, 0, "import os\nx = 1\nos.getpid() > 1", "True");
    CHECK_OK(husk_session_branch(s, 0, &b, &e), &e);
    AUTO_RESULT struct husk_result *who = fixture_in(s, 0, 0, "os.getpid()");
    char code[64];
    CHECK_INT(str_format(code, sizeof(code), "os.kill(%s, 9)", who->value), 0);
    CHECK_CELL(s, b, code, NULL);
    AUTO_RESULT struct husk_result *hit = fixture_in(s, 0, 0, "x");
    CHECK_END(hit, "crashed signal 137");
    CHECK_CELL(s, 0, "'x' in globals()", "False");
    CHECK_CELL(s, b, "x", "1");
}

TEST(a_session_whose_box_was_killed_says_so)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, "1");
    static struct proc_list boxes;
    struct husk_result *r = NULL;
    struct husk_error e;

    proc_children(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, 1);
    proc_kill(boxes.pids[0]);
    for (int i = 0; i < 2; i++) {
        if (husk_session_run(s, 0, &spec, &r, &e) == 0) { /* the news may come with the cell */
            CHECK_END(r, "crashed signal 137");
            husk_result_free(r);
            r = NULL;
        }
    }
    CHECK_INT(husk_session_run(s, 0, &spec, &r, &e), -1);
    CHECK_STR(e.type, "not_found");
    AUTO_RESULT struct husk_result *other = fixture_cell(engine, "1"); /* the engine works on */
    CHECK_END(other, "completed exit 0");
}

TEST(closing_a_session_ends_its_box)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_session *s = fixture_session(engine, NULL);
    static struct proc_list boxes;

    CHECK_CELL(s, 0, "import subprocess\n_ = subprocess.Popen(['/usr/bin/sleep', '100'])", NULL);
    proc_tree(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, 4); /* zygote, PID 1, context, sleep */
    boxes.pids[0] = boxes.pids[--boxes.n];
    husk_session_close(s);
    proc_wait_gone(&boxes);
}

/*
 * A box that died can leave sockets in a message that its reader has not taken yet, where the
 * kernel lets it send one. The network namespace that they live in must not become another box's;
 * see test_netns.c, too.
 */
TEST(sockets_that_outlive_their_box_are_in_nobody_elses_way)
{
    static const char leave[] =
        "import array, os, resource, socket, threading, time\n"
        "control = socket.socket(fileno=os.dup(3))\n"
        "left = [socket.create_server(('127.0.0.1', port)) for port in (5555, 8000)]\n"
        "def end():\n"
        "    time.sleep(0.3)\n" /* the cell is over, and this has no reader */
        "    fds = array.array('i', [s.fileno() for s in left])\n"
        "    try: control.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])\n"
        "    except PermissionError: pass\n" /* from Linux 6.16 on the socket takes none */
        /* ends PID 1 at its next poll() */
        "    resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0: time.sleep(0.1)\n"
        "        os._exit(0)\n"
        "threading.Thread(target=end).start()";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *first = fixture_session(engine, NULL);
    static struct proc_list boxes;

    AUTO_RESULT struct husk_result *r = fixture_in(first, 0, 0, leave);
    CHECK_END(r, "completed exit 0");
    pid_t zygote = proc_zygote(proc_launcher());
    proc_children(zygote, &boxes);
    CHECK_INT(boxes.n, 1);
    proc_wait_gone(&boxes);
    AUTO_SESSION struct husk_session *next = fixture_session(engine, NULL);
    CHECK_CELL(next, 0,
               "import socket\n"
               "[socket.create_server(('127.0.0.1', port)) and port for port in (5555, 8000)]",
               "[5555, 8000]");
}

/*
 * Counters, ports that are not free yet, what a peer remembers: none of it becomes another box's.
 */
TEST(a_network_that_was_used_is_no_other_boxs)
{
    static const char use[] =
        "import socket\n"
        "for line in open('/proc/net/dev'):\n"
        "    if 'lo:' in line: print(sum(map(int, line.split()[1:])))\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))\n";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    static struct proc_list boxes;

    for (int i = 0; i < 4; i++) {
        CASE("box %d", i);
        AUTO_RESULT struct husk_result *r = fixture_script(engine, use);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->out, "0\n");
        do { /* until it is buried, which is when its network would be kept */
            proc_children(proc_zygote(proc_launcher()), &boxes);
        } while (boxes.n > 0);
    }
}
