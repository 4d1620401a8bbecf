/* SPDX-License-Identifier: Apache-2.0 */
/* How a run ends: status, cause, exit code and limit, for everything that can end a program. */
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "tap.h"

TEST(a_program_that_ends_well_completes)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r = fixture_script(engine, "print('hi')");

    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->out, "hi\n");
    CHECK_INT(r->out_len, 3);
    CHECK_STR(r->err, "");
    CHECK(!r->out_truncated && !r->err_truncated);
    CHECK_STR(r->termination.detail, "");
    CHECK_STR(r->value, NULL);
    CHECK_STR(r->error.type, NULL);
    CHECK(r->metrics.cpu_time_ms > 0 && r->metrics.peak_memory_mb > 0);
}

TEST(the_receipt_names_every_layer_and_limit)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "pass");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.limits = (struct husk_limits){.memory_bytes = 128 * MIB, .pids = 7, .cpu_milli = 500};
    r = fixture_run(engine, &spec);
    CHECK_STR(r->receipt.backend, "native");
    CHECK_STR(r->receipt.isolation, "full");
    CHECK_STR(r->receipt.missing, "");
    CHECK_STR(r->receipt.namespaces, "user,mount,pid,net,ipc,uts,cgroup");
    CHECK_HAS(r->receipt.seccomp, "default:");
    CHECK(strspn(strchr(r->receipt.seccomp, ':') + 1, "0123456789abcdef") >= 8); /* the digest */
    CHECK(str_eq(r->receipt.cgroup, "v1") || str_eq(r->receipt.cgroup, "v2") ||
          str_eq(r->receipt.cgroup, "hybrid"));
    CHECK(r->receipt.landlock_abi > 0);
    CHECK_STR(r->receipt.template_name, "python");
    CHECK_STR(r->receipt.network, "none");
    CHECK(r->receipt.id_block_start >= 2147483648u);
    CHECK_INT(r->receipt.id_block_size, 65536);
    CHECK(!r->receipt.warm);
    CHECK_INT(r->receipt.limits.memory_bytes, 128 * MIB);
    CHECK_INT(r->receipt.limits.disk_bytes, 64 * MIB); /* a default disk shrinks with the memory */
    CHECK_INT(r->receipt.limits.timeout_ms, 30000);
    CHECK_INT(r->receipt.limits.pids, 7);
    CHECK_INT(r->receipt.limits.cpu_milli, 500);
}

TEST(exit_codes_are_those_of_the_interpreter)
{
    static const struct {
        const char *code;
        const char *want;
    } rows[] = {
        {"import sys; sys.exit()", "completed exit 0"},
        {"import sys; sys.exit(0)", "completed exit 0"},
        {"import sys; sys.exit(3)", "failed exit 3"},
        {"import sys; sys.exit(-1)", "failed exit 255"},
        {"import sys; sys.exit('told you')", "failed exit 1"},
        {"import os; os._exit(7)", "failed exit 7"},
        {"raise ValueError('no')", "failed exit 1"},
        {"import threading, sys\n"
         "threading.Thread(target=sys.exit, args=(5,)).start()",
         "completed exit 0"},
        {"import atexit, os; atexit.register(os._exit, 9)", "failed exit 9"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_script(engine, rows[i].code);
        CHECK_END(r, rows[i].want);
    }
}

TEST(the_text_of_sys_exit_goes_to_stderr)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r =
        fixture_script(engine, "import sys; print('out'); sys.exit('told you')");

    CHECK_STR(r->out, "out\n");
    CHECK_STR(r->err, "told you\n");
}

TEST(time_is_up_for_programs_that_do_not_end)
{
    static const char *const codes[] = {
        "print('before')\nwhile True: pass",
        "print('before')\nimport time; time.sleep(100)",
        ("print('before')\nimport signal, time\n"
         "for s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)\ntime.sleep(100)"),
        "print('before')\nimport threading\nthreading.Event().wait()",
        "print('before')\nimport subprocess\nsubprocess.run(['/usr/bin/sleep', '100'])",
        "print('before')\nimport atexit, time\natexit.register(time.sleep, 100)",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, codes[i]);
        spec.limits.timeout_ms = 300;
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "timeout timeout 124: timeout 300 ms");
        CHECK_STR(r->out, "before\n");
        CHECK(r->metrics.duration_ms >= 299 && r->metrics.duration_ms < 5000);
    }
}

TEST(more_memory_than_allowed_ends_the_run)
{
    static const char *const codes[] = {
        "print('before')\nx = []\nwhile True: x.append(bytearray(1 << 20))",
        "print('before')\nbytearray(1 << 50)",
        /* A helper is killed, and the program ends badly because of it. */
        "print('before')\nimport os, sys\n"
        "if os.fork() == 0:\n    x = []\n    while True: x.append(bytearray(1 << 20))\n"
        "sys.exit(os.wait()[1] != 0)",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, codes[i]);
        spec.limits.memory_bytes = 64 * MIB;
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "memory_exceeded oom 137: memory 64 MiB");
        CHECK_STR(r->out, "before\n");
        CHECK(r->metrics.peak_memory_mb <= 65);
    }
}

static void raise_event(void *user)
{
    CHECK_INT(eventfd_write(*(int *)user, 1), 0);
}

TEST(a_readable_cancel_descriptor_cancels)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_CLOSE int cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct husk_spec spec =
        fixture_spec("python", HUSK_SCRIPT, "print('before')\nimport time; time.sleep(100)");
    AUTO_RESULT struct husk_result *r = NULL;

    CHECK(cancel >= 0);
    spec.cancel_fd = cancel;
    fixture_at_output(&spec, raise_event, &cancel);
    r = fixture_run(engine, &spec);
    CHECK_END(r, "cancelled signal 130");
    CHECK_STR(r->out, "before\n");
    CHECK_STR(r->termination.detail, "cancelled by the caller");
}

TEST(a_run_that_was_cancelled_before_it_began_is_cancelled)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_CLOSE int cancel = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "import time; time.sleep(100)");
    AUTO_RESULT struct husk_result *r = NULL;

    CHECK(cancel >= 0);
    spec.cancel_fd = cancel;
    r = fixture_run(engine, &spec);
    CHECK_END(r, "cancelled signal 130");
}

TEST(a_crash_is_told_by_its_signal)
{
    static const struct {
        const char *code;
        const char *want;
        const char *detail;
    } rows[] = {
        {"import ctypes; ctypes.string_at(0)", "crashed signal 139", "killed by SIGSEGV"},
        {"import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)", "crashed seccomp 159",
         "made a system call that no program in a box may make"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_script(engine, rows[i].code);
        CHECK_END(r, rows[i].want);
        CHECK_STR(r->termination.detail, rows[i].detail);
    }
}

TEST(more_output_than_allowed_ends_the_run)
{
    static const char *const codes[] = {
        "while True: print('x' * 1000)",
        "import sys\nwhile True: print('x' * 1000, file=sys.stderr)",
        "import subprocess\nsubprocess.run(['/usr/bin/yes'])",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, codes[i]);
        spec.limits.output_bytes = 100 * 1024;
        spec.keep_bytes = 1000;
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "failed output_limit 153: output 100 KiB");
        CHECK_INT(r->out_len + r->err_len, 1000);
        CHECK(r->out_truncated != r->err_truncated);
    }
}

TEST(a_full_disk_is_told_apart_from_other_failures)
{
    static const struct {
        const char *code;
        const char *want;
    } rows[] = {
        {"open('a', 'wb').write(b'x' * (9 << 20))", "failed disk 1: disk 8 MiB"},
        {"for i in range(16): open(str(i), 'wb').write(b'x' * (1 << 20))",
         "failed disk 1: disk 8 MiB"},
        {"open('/tmp/a', 'wb').write(b'x' * (9 << 20))", "failed disk 1: disk 8 MiB"},
        {"open('/dev/shm/a', 'wb').write(b'x' * (9 << 20))", "failed disk 1: disk 8 MiB"},
        {"for i in range(100): open(str(i), 'w')", "failed disk 1: inodes 64"},
        {"open('a', 'wb').write(b'x' * (7 << 20))", "completed exit 0"},
        {"open('a', 'wb').write(b'x' * (7 << 20)); raise SystemExit(2)", "failed exit 2"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, rows[i].code);
        spec.limits =
            (struct husk_limits){.memory_bytes = 64 * MIB, .disk_bytes = 8 * MIB, .inodes = 64};
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, rows[i].want);
    }
}

TEST(processes_are_limited_and_the_program_sees_it)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT,
                                         "import os, time\nn = 0\n"
                                         "try:\n"
                                         "    while True:\n"
                                         "        if os.fork() == 0: time.sleep(100)\n"
                                         "        n += 1\n"
                                         "except BlockingIOError:\n"
                                         "    print(n)");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.limits.pids = 10;
    r = fixture_run(engine, &spec);
    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->out, "9\n");
}

TEST(a_forked_child_does_not_answer_for_the_run)
{
    static const struct {
        const char *code;
        const char *out;
        const char *want;
    } rows[] = {
        {"import os\np = os.fork()\nif p: os.waitpid(p, 0)\nprint('parent' if p else 'child')",
         "child\nparent\n", "completed exit 0"},
        {"import os, sys\np = os.fork()\nif not p: sys.exit(5)\n"
         "print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))",
         "5\n", "completed exit 0"},
        {"import os, sys\np = os.fork()\nif not p: 1 / 0\n"
         "print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))\nsys.exit(3)",
         "1\n", "failed exit 3"},
        {"import atexit, os\np = os.fork()\nif p: os.waitpid(p, 0)\n"
         "atexit.register(print, 'parent ends' if p else 'child ends')",
         "child ends\nparent ends\n", "completed exit 0"},
        {"import os\np = os.fork()\nif p: os.waitpid(p, 0)\nprint(bool(p), end=';')", "False;True;",
         "completed exit 0"},
    };
    static const enum husk_kind kinds[] = {HUSK_SCRIPT, HUSK_CELL};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(kinds); i++) {
        struct husk_spec spec = fixture_spec("python", kinds[i % 2], rows[i / 2].code);
        CASE("%s", rows[i / 2].code);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, rows[i / 2].want);
        CHECK_STR(r->out, rows[i / 2].out);
    }
}

TEST(exit_functions_and_threads_end_after_every_end_of_a_program)
{
    static const struct {
        const char *end;
        const char *want;
    } rows[] = {
        {"pass", "completed exit 0"},
        {"raise SystemExit(3)", "failed exit 3"},
        {"1 / 0", "failed exit 1"},
        {"raise KeyboardInterrupt", "failed exit 130"},
        {"atexit.register(lambda: 1 / 0)", "completed exit 0"},
        {"atexit.register(exit, 4)", "completed exit 0"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char code[512];
        CASE("%s", rows[i].end);
        CHECK_INT(str_format(code, sizeof(code),
                             "import atexit, threading\natexit.register(print, 'exit function')\n"
                             "def f():\n    threading.main_thread().join(0.05); print('thread')\n"
                             "threading.Thread(target=f).start()\n%s",
                             rows[i].end),
                  0);
        AUTO_RESULT struct husk_result *r = fixture_script(engine, code);
        CHECK_END(r, rows[i].want);
        CHECK_STR(r->out, "thread\nexit function\n");
        CHECK(strstr(r->err, "runner.py") == NULL);
    }
}

TEST(what_a_program_leaves_behind_is_finalised)
{
    static const struct {
        const char *code;
        const char *out;
    } rows[] = {
        {"class A:\n    def __del__(self): print('gone')\na = A()", "gone\n"},
        {"class A:\n    def __del__(self): print('gone')\na = A(); a.a = a", "gone\n"},
        /* What it needs of the program is still there. */
        {"import os\nlog = []\ndef tell(x): log.append(x); print(os.sep, log)\n"
         "class A:\n    def __del__(self): tell(n)\nn = 7\na = A()",
         "/ [7]\n"},
        {"class A:\n    def __del__(self): print('gone'); 1 / 0\na = A()", "gone\n"},
        {"class A:\n    def __del__(self): print('gone'); raise SystemExit(4)\na = A()", "gone\n"},
        {"import atexit\nclass A:\n    def __del__(self): print('gone')\na = A()\n"
         "atexit.register(lambda: print(type(a).__name__))",
         "A\ngone\n"},
        {"import json, os\njson.f = os.fdopen(os.dup(1), 'w'); json.f.write('all')", "all"},
        /* Daemon threads keep what they use. */
        {"import threading, time\nn = 1\ndef f():\n    while n: time.sleep(0.0001)\n"
         "threading.Thread(target=f, daemon=True).start()\nx = [1]",
         ""},
        /* A file that one of them holds, because its pipe has no reader, is not flushed. */
        {"import os, select, threading\nr, w = os.pipe()\nclass A: f = os.fdopen(w, 'wb')\n"
         "threading.Thread(target=A.f.write, args=[bytes(1 << 20)], daemon=True).start()\n"
         "while select.select([], [w], [], 0)[1]: pass\nprint('end')",
         "end\n"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_script(engine, rows[i].code);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->out, rows[i].out);
        CHECK(strstr(r->err, "NameError") == NULL);
    }
}

/* No line of the program runs then, and one of ours would be of no use. */
TEST(warnings_about_what_is_left_behind_name_no_file)
{
    static const char *const ends[] = {"", "import atexit\natexit.register(int)", "1 / 0"};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        char code[200];
        CASE("%s", ends[i]);
        CHECK_INT(str_format(code, sizeof(code),
                             "import warnings\nwarnings.simplefilter('always')\n"
                             "f = open('f', 'w')\n%s",
                             ends[i]),
                  0);
        AUTO_RESULT struct husk_result *r = fixture_script(engine, code);
        CHECK_HAS(r->err, "sys:1: ResourceWarning: unclosed file <_io.TextIOWrapper name='f'");
        CHECK(strstr(r->err, "/husk") == NULL);
    }
}

TEST(names_of_ends_are_complete)
{
    CHECK_STR(husk_status_name(HUSK_COMPLETED), "completed");
    CHECK_STR(husk_status_name(HUSK_CRASHED), "crashed");
    CHECK_STR(husk_cause_name(HUSK_CAUSE_EXIT), "exit");
    CHECK_STR(husk_cause_name(HUSK_CAUSE_INTERNAL), "internal");
}
