/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: what lives on from cell to cell, and what a cell that goes wrong does to it. */
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "tap.h"

TEST(variables_modules_and_files_live_on)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    CHECK_CELL(s, 0, "x = 41\nimport json\nopen('f', 'w').write('kept')", "4");
    CHECK_CELL(s, 0, "def f(): return x + 1\nf()", "42");
    CHECK_CELL(s, 0, "[f(), json.dumps(x), open('f').read()]", "[42, '41', 'kept']");
    CHECK_CELL(s, 0, "__name__", "'__main__'");
}

TEST(an_exception_leaves_the_state_alone)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    CHECK_CELL(s, 0, "x = 1", NULL);
    AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 0, "x = 2\n1 / 0\nx = 3");
    CHECK_END(r, "failed exit 1");
    CHECK_STR(r->error.type, "ZeroDivisionError");
    CHECK_HAS(r->error.traceback, "line 2, in <module>");
    CHECK_CELL(s, 0, "x", "2");
    AUTO_RESULT struct husk_result *syntax = fixture_in(s, 0, 0, "x = 4\nif");
    CHECK_STR(syntax->error.type, "SyntaxError");
    CHECK_CELL(s, 0, "x", "2");
    AUTO_RESULT struct husk_result *exit = fixture_in(s, 0, 0, "import sys; sys.exit(3)");
    CHECK_END(exit, "failed exit 3");
    CHECK_CELL(s, 0, "x", "2");
}

/* Without the lines that point at a part of the line above. */
static char *without_marks(char *text)
{
    char *to = text;

    for (char *line = text, *next; *line != '\0'; line = next) {
        next = strchrnul(line, '\n');
        next += *next != '\0';
        size_t n = (size_t)(next - line);
        if (strspn(line, " ~^\n") < n) {
            memmove(to, line, n);
            to += n;
        }
    }
    *to = '\0';
    return text;
}

TEST(a_traceback_shows_the_lines_of_each_cell)
{
    static const struct {
        const char *code;
        const char *traceback;
    } rows[] = {
        {"f(0)", "in <module>\n    f(0)\n"
                 "  File \"<cell>\", line 2, in f\n    return 1 / x\n"
                 "ZeroDivisionError: division by zero\n"},
        {"y = 1\n'innocent'\nf(0)", "line 3, in <module>\n    f(0)\n"
                                    "  File \"<cell>\", line 2, in f\n    return 1 / x\n"},
        {"raise KeyError(1) from saved\n'innocent'",
         "line 4, in <module>\n    f(0)\n  File \"<cell>\", line 2, in f\n    return 1 / x\n"},
        {"def g(x):\n    return f(x)\ng(0)",
         "in <module>\n    g(0)\n  File \"<cell 5>\", line 2, in g\n    return f(x)\n"},
        {"def h(x):\n    class C:\n        y = 1 / x\nfor x in (1, 0): h(x)",
         "line 3, in C\n    y = 1 / x\n"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    CHECK_CELL(s, 0,
               "def f(x):\n    return 1 / x\ntry:\n    f(0)\n"
               "except ZeroDivisionError as e: saved = e",
               NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 0, rows[i].code);
        CHECK_END(r, "failed exit 1");
        CHECK_HAS(without_marks(r->error.traceback), rows[i].traceback);
    }
}

TEST(a_session_finds_the_source_of_what_its_cells_define)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    CHECK_CELL(s, 0, "def f(x):\n    return 1 / x", NULL); /* with a value, and without one */
    CHECK_CELL(s, 0, "exec('import inspect, traceback')", NULL);
    CHECK_CELL(s, 0, "def g(x):\n    # calls\n    return f(x)\n1", "1");
    CHECK_CELL(s, 0, "inspect.getsource(f), inspect.getsource(g)",
               "('def f(x):\\n    return 1 / x\\n', "
               "'def g(x):\\n    # calls\\n    return f(x)\\n')");
    AUTO_RESULT struct husk_result *r =
        fixture_in(s, 0, 0, "'other'\ntry: g(0)\nexcept ZeroDivisionError: traceback.print_exc()");
    CHECK_STR(without_marks(r->err), "Traceback (most recent call last):\n"
                                     "  File \"<cell 5>\", line 2, in <module>\n"
                                     "    try: g(0)\n"
                                     "  File \"<cell 3>\", line 3, in g\n"
                                     "    return f(x)\n"
                                     "  File \"<cell>\", line 2, in f\n"
                                     "    return 1 / x\n"
                                     "ZeroDivisionError: division by zero\n");
}

TEST(a_crash_costs_the_state_and_not_the_session)
{
    static const struct {
        const char *code;
        const char *end;
    } rows[] = {
        {"import ctypes; ctypes.string_at(0)", "crashed signal 139"},
        {"import os; os.abort()", "crashed signal 134"},
        {"import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "crashed signal 137"},
        {"import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)", "crashed seccomp 159"},
        {"import os; os._exit(3)", "failed exit 3"},
        {"import os; os._exit(0)", "completed exit 0"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        CHECK_CELL(s, 0, "x = 1", NULL);
        AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 0, rows[i].code);
        CHECK_END(r, rows[i].end);
        CHECK_CELL(s, 0, "'x' in globals()", "False");
    }
}

TEST(reset_gives_a_fresh_interpreter_in_the_same_box)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_error e;

    CHECK_CELL(s, 0, "x = 1\nimport json; json.left = 1\nopen('f', 'w').write('kept')", "4");
    CHECK_OK(husk_session_reset(s, 0, &e), &e);
    CHECK_CELL(s, 0, "import json\n['x' in globals(), hasattr(json, 'left'), open('f').read()]",
               "[False, False, 'kept']");
    CHECK_INT(husk_session_reset(s, 7, &e), -1);
    CHECK_STR(e.type, "not_found");
}

/*
 * They hold its sockets and pipes open, and write: its end is known all the same, and they live on.
 */
TEST(a_crash_is_seen_although_forked_children_live)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 10000,
                                                   "import os, time\n"
                                                   "if os.fork() == 0:\n"
                                                   "    os.setsid()\n"
                                                   "    while True:\n"
                                                   "        print('child', flush=True)\n"
                                                   "        time.sleep(0.01)\n"
                                                   "print('crashing', flush=True)\n"
                                                   "os.kill(os.getpid(), 9)");
    CHECK_END(r, "crashed signal 137");
    CHECK_HAS(r->out, "crashing");
    CHECK_CELL(s, 0, "'os' in globals()", "False");
}

/* What the old interpreter has left takes every place that becomes free. */
TEST(an_interpreter_is_made_anew_also_where_no_process_has_room)
{
    static const char fill[] = "import os, time\n"
                               "def fill():\n"
                               "    os.setsid()\n"
                               "    while True:\n"
                               "        try:\n"
                               "            if os.fork() == 0: time.sleep(100)\n"
                               "        except OSError: pass\n"
                               "if os.fork() == 0: fill()\n"
                               "full = 0\n"
                               "while full < 100:\n"
                               "    try:\n"
                               "        if os.fork() == 0: os._exit(0)\n"
                               "        os.wait()\n"
                               "    except OSError: full += 1\n";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_limits limits = {.pids = 32};
    AUTO_SESSION struct husk_session *s = fixture_session(engine, &limits);
    struct husk_error e;

    CHECK_CELL(s, 0, "open('f', 'w').write('kept')", "4");
    CHECK_CELL(s, 0, fill, NULL);
    CHECK_OK(husk_session_reset(s, 0, &e), &e);
    CHECK_CELL(s, 0, "open('f').read()", "'kept'");
}

TEST(output_belongs_to_the_cell_that_wrote_it)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_RESULT struct husk_result *one =
        fixture_in(s, 0, 0, "import sys\nprint('one')\nprint('uno', file=sys.stderr)");
    AUTO_RESULT struct husk_result *two = fixture_in(s, 0, 0, "sys.stdout.write('two')");
    AUTO_RESULT struct husk_result *three = fixture_in(s, 0, 0, "1");
    AUTO_RESULT struct husk_result *four =
        fixture_in(s, 0, 0, "import subprocess; _ = subprocess.run(['/bin/echo', 'four'])");

    CHECK_STR(one->out, "one\n");
    CHECK_STR(one->err, "uno\n");
    CHECK_STR(two->out, "two");
    CHECK_STR(three->out, "");
    CHECK_STR(three->err, "");
    CHECK_STR(four->out, "four\n");
}

static bool has_spoken(struct husk_session *s, uint32_t context)
{
    AUTO_RESULT struct husk_result *r = fixture_in(s, context, 0, "os.path.exists('spoken')");

    return str_eq(r->value, "True");
}

/*
 * While a cell runs, all output of the interpreter is its output; between cells there is no reader.
 */
TEST(what_a_background_thread_writes_between_cells_is_nobodys)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_error e;
    uint32_t other;

    CHECK_CELL(s, 0, "import os, threading, time", NULL);
    CHECK_OK(husk_session_branch(s, 0, &other, &e), &e);
    AUTO_RESULT struct husk_result *first =
        fixture_in(s, 0, 0,
                   "def talk():\n"
                   "    while not os.path.exists('go'): time.sleep(0.001)\n"
                   "    print('noise', flush=True)\n"
                   "    open('spoken', 'w')\n"
                   "t = threading.Thread(target=talk, daemon=True)\nt.start()");
    CHECK_CELL(s, other, "f = open('go', 'w')", NULL); /* no cell of the thread's context runs */
    AWAIT(has_spoken(s, other));
    AUTO_RESULT struct husk_result *next =
        fixture_in(s, 0, 0, "t.join()\nprint('mine')\nt.is_alive()");
    CHECK_STR(first->out, "");
    CHECK_STR(next->value, "False");
    CHECK_STR(next->out, "mine\n");
}

/*
 * After a quick row of cells the next one is awaited awake, but only for a moment: counted in
 * processor time.
 */
TEST(a_session_that_waits_sleeps)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct timespec pause = {.tv_nsec = 500000000};

    for (int i = 0; i < 50; i++) {
        CHECK_CELL(s, 0, "import time\nbegan = time.process_time()", NULL);
    }
    nanosleep(&pause, NULL);
    CHECK_CELL(s, 0, "time.process_time() - began < 0.1", "True");
}

TEST(a_background_process_keeps_no_cell_waiting)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_RESULT struct husk_result *r = fixture_in(
        s, 0, 0, "import subprocess; p = subprocess.Popen(['/usr/bin/sleep', '100']); print('on')");

    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->out, "on\n");
    CHECK_CELL(s, 0, "p.poll()", NULL);
}

static void raise_event(void *user)
{
    CHECK_INT(eventfd_write(*(int *)user, 1), 0);
}

TEST(a_cell_can_be_cancelled)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_CLOSE int cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct husk_spec spec =
        fixture_spec("python", HUSK_CELL, "print('on')\nimport time; time.sleep(100)");
    AUTO_RESULT struct husk_result *r = NULL;
    struct husk_error e;

    spec.cancel_fd = cancel;
    fixture_at_output(&spec, raise_event, &cancel);
    CHECK_OK(husk_session_run(s, 0, &spec, &r, &e), &e);
    CHECK_END(r, "cancelled signal 130");
    CHECK_CELL(s, 0, "1 + 1", "2");
}

TEST(stdin_files_and_arguments_are_the_cells)
{
    static const char *const args[] = {"a", NULL};
    static const char *const outputs[] = {"out", NULL};
    static const struct husk_file file = {"in", "text", 4};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_spec spec = fixture_spec("python", HUSK_CELL,
                                         "import sys\nopen('out', 'w').write('made')\n"
                                         "[input(), open('in').read(), sys.argv[1:]]");
    AUTO_RESULT struct husk_result *r = NULL;
    struct husk_error e;

    spec.args = args;
    spec.outputs = outputs;
    spec.files = &file;
    spec.n_files = 1;
    spec.stdin_data = "fed\n";
    spec.stdin_len = 4;
    CHECK_OK(husk_session_run(s, 0, &spec, &r, &e), &e);
    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->value, "['fed', 'text', ['a']]");
    CHECK_INT(r->n_files, 1);
    CHECK_STR(r->files[0].data, "made");
    CHECK_CELL(s, 0, "[sys.stdin.read(), sys.argv[1:]]", "['', []]");
}

/*
 * However the cell ends; the cell that looks is one expression, which runs without Python of ours.
 */
TEST(variables_of_the_environment_are_the_cells)
{
    static const char *const codes[] = {
        "os.environ['GIVEN']",
        "print(os.environ['GIVEN'])",
        "os.environ['GIVEN'] = os.environ['OLD'] = 'changed'",
        "del os.environ['GIVEN'], os.environ['OLD']",
        "1 / 0",
        "import sys; sys.exit(1)",
        "if",
        "while True: pass",
    };
    static const char *const env[] = {"GIVEN=secret", "OLD=new", NULL};
    static const char look[] = "[os.environ.get(k) for k in ('GIVEN', 'OLD', 'OWN')]";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    CHECK_CELL(s, 0, "import os\nos.environ['OLD'] = 'old'\nos.environ['OWN'] = '0'", NULL);
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        struct husk_spec spec = fixture_spec("python", HUSK_CELL, codes[i]);
        AUTO_RESULT struct husk_result *r = NULL;
        struct husk_error e;

        CASE("%s", codes[i]);
        spec.env = env;
        spec.limits.timeout_ms = 500;
        CHECK_OK(husk_session_run(s, 0, &spec, &r, &e), &e);
        CHECK_CELL(s, 0, look, "[None, 'old', '0']");
    }
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, look);
    AUTO_RESULT struct husk_result *r = NULL;
    struct husk_error e;
    spec.env = env;
    CHECK_OK(husk_session_run(s, 0, &spec, &r, &e), &e);
    CHECK_STR(r->value, "['secret', 'new', '0']");
    CHECK_CELL(s, 0, "os.environ['OWN'] = os.environ['GIVEN'] = 'set'", NULL);
    CHECK_CELL(s, 0, look, "['set', 'old', 'set']");
}

static void check_shell(struct husk_session *s, uint32_t context, const char *code, const char *out)
{
    struct husk_spec spec = {.kind = HUSK_CELL, .code = code, .code_len = strlen(code)};
    struct husk_result *r = NULL;
    struct husk_error e;

    CHECK_OK(husk_session_run(s, context, &spec, &r, &e), &e);
    CHECK_STR(r->out, out);
    husk_result_free(r);
}

TEST(a_shell_has_sessions_and_copies)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = {.template_name = "shell"};
    AUTO_SESSION struct husk_session *s = NULL;
    uint32_t copy = 0;
    struct husk_error e;

    CHECK_OK(husk_session_open(engine, &spec, &s, &e), &e);
    check_shell(s, 0, "x=1; cd /tmp", "");
    CHECK_OK(husk_session_branch(s, 0, &copy, &e), &e);
    check_shell(s, 0, "x=2; echo $x $PWD", "2 /tmp\n");
    check_shell(s, copy, "echo $x $PWD", "1 /tmp\n");
    CHECK_OK(husk_session_reset(s, 0, &e), &e);
    check_shell(s, 0, "echo [$x]", "[]\n");
}

TEST(a_session_needs_a_template)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = {.template_name = "no-such"};
    struct husk_session *s = NULL;
    struct husk_error e;

    CHECK_INT(husk_session_open(engine, &spec, &s, &e), -1);
    CHECK_STR(e.type, "not_found");
    CHECK(s == NULL);
}
