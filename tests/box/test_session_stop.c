/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: a cell is interrupted, killed, or stopped with everything that it has started. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "core/core.h"
#include "core/husk_impl.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

TEST(a_cell_that_takes_too_long_is_interrupted_and_the_state_lives_on)
{
    static const char *const codes[] = {
        "n += 1\nwhile True: pass",
        "n += 1\nimport time; time.sleep(100)",
        "n += 1\nimport threading; threading.Event().wait()",
        "n += 1\nimport subprocess; subprocess.run(['/usr/bin/sleep', '100'])",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    CHECK_CELL(s, 0, "n = 0", NULL);
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 200, codes[i]);
        CHECK_END(r, "timeout timeout 124: timeout 200 ms");
    }
    CHECK_CELL(s, 0, "n", "4");
}

TEST(a_cell_that_cleans_up_when_interrupted_can_do_so)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 200,
                                                   "import time\ntry:\n    time.sleep(100)\n"
                                                   "finally:\n    cleaned = True\n");

    CHECK_END(r, "timeout timeout 124: timeout 200 ms");
    CHECK_CELL(s, 0, "cleaned", "True");
}

TEST(a_cell_that_ignores_the_interrupt_is_killed_and_its_context_made_anew)
{
    static const char *const codes[] = {
        "import time\nwhile True:\n    try:\n        time.sleep(100)\n    except "
        "KeyboardInterrupt: pass",
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(100)",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        CASE("%s", codes[i]);
        CHECK_CELL(s, 0, "x = 1\nopen('f', 'w').write('kept')\nx", "1");
        AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 100, codes[i]);
        CHECK_END(r, "timeout timeout 124: timeout 100 ms");
        CHECK_CELL(s, 0, "['x' in globals(), open('f').read()]", "[False, 'kept']");
    }
}

static char state_of(pid_t pid)
{
    char state[32];

    proc_status(pid, "State", state, sizeof(state));
    return state[0];
}

static void wait_state(pid_t pid, char state)
{
    AWAIT(state_of(pid) == state);
}

struct slow_box {
    pid_t first;   /* PID 1 of the session, as the host knows it */
    pid_t context; /* its child */
};

/* From the cell's answer to the interrupt until its last word PID 1 does nothing. */
static void hold_up(void *user, enum husk_stream stream, const char *data, size_t n)
{
    struct slow_box *box = user;

    (void)stream;
    if (memmem(data, n, "asked", 5) != NULL) {
        CHECK_INT(kill(box->first, SIGSTOP), 0);
        wait_state(box->first, 'T');
    }
    if (memmem(data, n, "bye", 3) != NULL) {
        wait_state(box->context, 'S'); /* it waits for the next cell */
        CHECK_INT(kill(box->first, SIGCONT), 0);
    }
}

/* A session in the only box of the engine. */
static struct husk_session *open_alone(struct husk_engine *engine, struct slow_box *ret)
{
    struct husk_spec spec = {.template_name = "python", .no_pool = true};
    struct husk_session *s = NULL;
    struct proc_list found;
    struct husk_error e;

    CHECK_OK(husk_session_open(engine, &spec, &s, &e), &e);
    proc_children(proc_zygote(proc_launcher()), &found);
    CHECK_INT(found.n, 1);
    ret->first = found.pids[0];
    proc_children(ret->first, &found);
    CHECK_INT(found.n, 1);
    ret->context = found.pids[0];
    return s;
}

/* What it says then counts for nothing: it has been killed, even if PID 1 is slow to do so. */
TEST(a_cell_that_ends_when_it_is_about_to_be_killed_leaves_no_dead_context)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct slow_box box;
    AUTO_SESSION struct husk_session *s = open_alone(engine, &box);
    struct husk_error e;

    struct husk_spec spec = fixture_spec("python", HUSK_CELL,
                                         "import time\n"
                                         "try:\n"
                                         "    time.sleep(100)\n"
                                         "except KeyboardInterrupt:\n"
                                         "    print('asked', flush=True)\n"
                                         "    time.sleep(2.5)\n" /* half a second too long */
                                         "    print('bye', flush=True)");
    spec.limits.timeout_ms = 300;
    spec.on_output = hold_up;
    spec.user = &box;
    AUTO_RESULT struct husk_result *r = NULL;
    CHECK_OK(husk_session_run(s, 0, &spec, &r, &e), &e);
    CHECK_END(r, "timeout timeout 124: timeout 300 ms");
    CHECK_CELL(s, 0, "1 + 1", "2");
}

struct last_words {
    pid_t context;
    bool cancelled;
    int out;
};

/* When the run is given up and its output has been read, the cell writes more. */
static ssize_t read_slowly(void *user, enum husk_stream stream, int pipe, char *buf, size_t size)
{
    struct last_words *w = user;

    if (stream == HUSK_STDERR && w->cancelled && w->context != 0) {
        struct pollfd more = {.fd = w->out, .events = POLLIN};
        CHECK_INT(kill(w->context, SIGUSR1), 0);
        CHECK_INT(poll(&more, 1, -1), 1);
        w->context = 0;
    }
    ssize_t n = read(pipe, buf, size);
    if (stream == HUSK_STDOUT && n > 0) {
        w->out = pipe;
        w->cancelled = true;
    }
    return n;
}

TEST(what_is_written_until_a_cell_is_killed_is_in_its_output)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct slow_box box;
    AUTO_SESSION struct husk_session *s = open_alone(engine, &box);
    struct last_words w = {.context = box.context};
    struct husk_spec spec =
        fixture_spec("python", HUSK_CELL,
                     "import os, signal, time\n"
                     "signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b' more'))\n"
                     "os.write(1, b'some')\n"
                     "while True: time.sleep(1)");
    AUTO_RESULT struct husk_result *r = NULL;
    const struct run_hooks hooks = {.cancel = &w.cancelled, .read_output = read_slowly, .user = &w};
    struct err e = {0};

    CHECK_INT(notebook_run(s->inner, 0, &spec, &hooks, &r, &e), 0);
    CHECK_END(r, "cancelled signal 130");
    CHECK_STR(r->out, "some more");
}

TEST(what_is_printed_without_an_end_of_line_is_there_after_an_interrupt)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_RESULT struct husk_result *r =
        fixture_in(s, 0, 300, "import time\nprint('some', end='')\ntime.sleep(100)");

    CHECK_END(r, "timeout timeout 124: timeout 300 ms");
    CHECK_STR(r->out, "some");
}

/* Processes that are not zombies; one whose first thread alone has ended only looks like one. */
#define COUNT                                                                                      \
    "def alive(d):\n"                                                                              \
    "    state = open(f'/proc/{d}/stat').read().rsplit(')', 1)[1].split()[0]\n"                    \
    "    return state != 'Z' or len(os.listdir(f'/proc/{d}/task')) > 1\n"                          \
    "sum(alive(d) for d in os.listdir('/proc') if d.isdigit())"

/*
 * Whatever it is that hides, ignores signals or multiplies; but not what earlier cells have left
 * running.
 */
TEST(a_cell_that_is_stopped_takes_along_what_it_has_started)
{
    static const char *const codes[] = {
        "def bomb():\n"
        "    while True:\n"
        "        try: os.fork()\n"
        "        except BaseException: pass\n"
        "if os.fork() == 0: bomb()\n"
        "while True: pass",
        /* never the same process for long: a killer that lists first and kills then misses them */
        "comet = '$SIG{INT} = \"IGNORE\"; while (1) { exit if fork }'\n"
        "for _ in range(8): subprocess.Popen(['/usr/bin/perl', '-e', comet])\n"
        "while True: pass",
        "for _ in range(20):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork(): os._exit(0)\n"
        "        signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "        while True: time.sleep(1)\n"
        "time.sleep(100)",
        "import ctypes, threading\n"
        "if os.fork() == 0:\n"
        "    threading.Thread(target=time.sleep, args=(100,)).start()\n"
        "    ctypes.CDLL(None).syscall(60, 0)\n" /* exit() of the first thread */
        "while True: pass",
        /* whose name reads as if it were old and dead */
        "import ctypes\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "    ctypes.CDLL(None).prctl(15, b') Z 1 1 1 1')\n"
        "    while True: time.sleep(1)\n"
        "while True: pass",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "p = subprocess.Popen(['/usr/bin/sleep', '100'], start_new_session=True)\n"
        "while True: pass",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    CHECK_CELL(s, 0,
               "import os, signal, subprocess, time\n"
               "kept = subprocess.Popen(['/usr/bin/sleep', '100'], start_new_session=True)\n"
               "time.sleep(0.05)\n" COUNT,
               "3");
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 300, codes[i]);
        CHECK_END(r, "timeout timeout 124: timeout 300 ms");
        CHECK_CELL(s, 0, "import os, signal, subprocess, time\n" COUNT, "3");
    }
}

/*
 * Processes could escape a sweep that lists first and kills then, unless all are stopped meanwhile.
 * The kernel tells a parent that a child continues only if it had stopped: one that gets no time to
 * do so before the sweep is over stops for the next one.
 */
TEST(all_stand_still_while_what_a_cell_has_started_is_looked_for)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    bool stood = false;

    CHECK_CELL(s, 0,
               "import os, subprocess, time\n"
               "kept = subprocess.Popen(['/usr/bin/sleep', '1000'], start_new_session=True)\n"
               "time.sleep(0.05)",
               NULL);
    for (int i = 0; i < 20 && !stood; i++) {
        AUTO_RESULT struct husk_result *stopped = fixture_in(s, 0, 100,
                                                             "for _ in range(20):\n"
                                                             "    if os.fork() == 0:\n"
                                                             "        time.sleep(1000)\n"
                                                             "while True: pass");
        CHECK_END(stopped, "timeout timeout 124: timeout 100 ms");
        AUTO_RESULT struct husk_result *r = fixture_in(
            s, 0, 0, "os.WIFCONTINUED(os.waitpid(kept.pid, os.WCONTINUED | os.WNOHANG)[1])");
        stood = r->value != NULL && str_eq(r->value, "True");
    }
    CHECK(stood);
}

/* Of the same age as what is swept, but another context's. */
TEST(a_cell_that_is_stopped_leaves_alone_what_others_start)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_error e;
    uint32_t other;

    CHECK_OK(husk_session_branch(s, 0, &other, &e), &e);
    CHECK_CELL(s, other,
               "import subprocess, threading\nfound = []\n"
               "def start(): found.append(subprocess.Popen(['/usr/bin/sleep', '100']))\n"
               "timer = threading.Timer(0.4, start)\ntimer.start()",
               NULL);
    AUTO_RESULT struct husk_result *r =
        fixture_in(s, 0, 1000, "import os\nos.fork()\nwhile True: pass");
    CHECK_END(r, "timeout timeout 124: timeout 1000 ms");
    CHECK_CELL(s, other, "timer.join()\n[p.poll() for p in found]", "[None]");
}

/* PID 1 reports every end that it sees, and must not wait for a reader. */
TEST(a_thousand_orphans_keep_nobody_from_the_session)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_error error;

    CHECK_CELL(s, 0,
               "import os\n"
               "for _ in range(1000):\n"
               "    if os.fork() == 0:\n"
               "        os.fork()\n"
               "        os._exit(0)\n"
               "    os.wait()",
               NULL);
    CHECK_INT(husk_session_reset(s, 0, &error), 0);
    CHECK_CELL(s, 0, "1", "1");
    /* How a context ends is known, whatever else has ended. */
    AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 0,
                                                   "import os\n"
                                                   "for _ in range(40):\n"
                                                   "    if os.fork() == 0:\n"
                                                   "        os.fork()\n"
                                                   "        os._exit(0)\n"
                                                   "    os.wait()\n"
                                                   "os.abort()");
    CHECK_END(r, "crashed signal 134");
}
