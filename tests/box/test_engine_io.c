/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into a run and what comes out of it: streams, arguments, variables, files, mounts. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "tap.h"

#define CODE_MAX (4 << 20)
#define FILES_MAX 256

struct seen {
    size_t out;
    size_t err;
};

static void count_output(void *user, enum husk_stream stream, const char *data, size_t n)
{
    struct seen *seen = user;

    CHECK(data[0] == (stream == HUSK_STDOUT ? 'o' : 'e'));
    *(stream == HUSK_STDOUT ? &seen->out : &seen->err) += n;
}

TEST(output_is_kept_up_to_a_bound_and_streamed_whole)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT,
                                         "import sys\nsys.stdout.write('o' * 300000)\n"
                                         "sys.stderr.write('e' * 50)");
    AUTO_RESULT struct husk_result *r = NULL;
    struct seen seen = {0};

    spec.keep_bytes = 100;
    spec.on_output = count_output;
    spec.user = &seen;
    r = fixture_run(engine, &spec);
    CHECK_END(r, "completed exit 0");
    CHECK_INT(r->out_len, 100);
    CHECK_INT(strlen(r->out), 100);
    CHECK(r->out_truncated);
    CHECK_INT(r->err_len, 50);
    CHECK(!r->err_truncated);
    CHECK_INT(seen.out, 300000);
    CHECK_INT(seen.err, 50);
}

TEST(output_that_just_fits_is_not_truncated)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "print('x' * 99)");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.keep_bytes = 100;
    r = fixture_run(engine, &spec);
    CHECK_INT(r->out_len, 100);
    CHECK(!r->out_truncated);
}

TEST(output_may_hold_any_bytes)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r =
        fixture_script(engine, "import os; os.write(1, bytes(range(256)))");

    CHECK_INT(r->out_len, 256);
    for (int i = 0; i < 256; i++) {
        CHECK_INT((unsigned char)r->out[i], i);
    }
}

TEST(output_of_helpers_counts_as_the_programs)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r =
        fixture_script(engine, "import subprocess\nprint('one', flush=True)\n"
                               "subprocess.run(['/bin/sh', '-c', 'echo two; echo three >&2'])");

    CHECK_STR(r->out, "one\ntwo\n");
    CHECK_STR(r->err, "three\n");
}

TEST(stdin_is_empty_by_default)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r =
        fixture_script(engine, "import sys; print(repr(sys.stdin.read()))");

    CHECK_STR(r->out, "''\n");
}

TEST(stdin_data_arrives_whole)
{
    static char data[3 << 20]; /* more than any pipe holds */
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec =
        fixture_spec("python", HUSK_CELL,
                     "import sys\n"
                     "d = sys.stdin.buffer.read()\n[len(d), d.count(b'a'), d[-1:].decode()]");
    AUTO_RESULT struct husk_result *r = NULL;

    memset(data, 'a', sizeof(data) - 1);
    data[sizeof(data) - 1] = 'z';
    spec.stdin_data = data;
    spec.stdin_len = sizeof(data);
    r = fixture_run(engine, &spec);
    CHECK_STR(r->value_json, "[3145728, 3145727, \"z\"]");
}

TEST(stdin_data_that_nobody_reads_does_no_harm)
{
    static char data[1 << 20];
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "import os; os.close(0); print(1)");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.stdin_data = data;
    spec.stdin_len = sizeof(data);
    r = fixture_run(engine, &spec);
    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->out, "1\n");
}

TEST(stdin_can_be_a_descriptor)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "print(input(), input())");
    AUTO_RESULT struct husk_result *r = NULL;
    int pipe_fds[2];

    CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
    CHECK_INT(fd_write_all(pipe_fds[1], "one\ntwo\n", 8), 0);
    close(pipe_fds[1]);
    spec.stdin_fd = pipe_fds[0];
    r = fixture_run(engine, &spec);
    close(pipe_fds[0]);
    CHECK_STR(r->out, "one two\n");
}

TEST(arguments_and_variables_reach_the_program)
{
    static const char *const args[] = {"one", "two words", "", "\xc3\xa4", NULL};
    static const char *const env[] = {"FOO=bar", "EMPTY=", "EQ=a=b", NULL};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec =
        fixture_spec("python", HUSK_CELL,
                     "import os, sys\n[sys.argv, [os.environ[n] for n in ('FOO', 'EMPTY', 'EQ')]]");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.name = "prog.py";
    spec.args = args;
    spec.env = env;
    r = fixture_run(engine, &spec);
    CHECK_STR(r->value_json, "[[\"prog.py\", \"one\", \"two words\", \"\", \"\\u00e4\"], "
                             "[\"bar\", \"\", \"a=b\"]]");
}

TEST(without_arguments_there_is_the_programs_name)
{
    static const struct {
        const char *name;
        const char *out;
    } rows[] = {
        {NULL, "['<cell>']\n"}, {"prog.py", "['prog.py']\n"}, {"\xc3\xa4.py", "['\xc3\xa4.py']\n"}};
    static const char *const codes[] = {"import sys; print(sys.argv)",
                                        "print(__import__('sys').argv)"};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(codes); i++) {
        struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, codes[i % 2]);
        CASE("%s", rows[i / 2].out);
        spec.name = rows[i / 2].name;
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_STR(r->out, rows[i / 2].out);
    }
}

TEST(the_callers_environment_stays_outside)
{
    AUTO_ENGINE struct husk_engine *engine = NULL;
    AUTO_RESULT struct husk_result *r = NULL;

    CHECK_INT(setenv("HUSK_TEST_SECRET", "do-not-tell", 1), 0);
    engine = fixture_open();
    r = fixture_script(engine, "import os; print(dict(os.environ))");
    CHECK_HAS(r->out, "'HOME': '/workspace'");
    CHECK(strstr(r->out, "do-not-tell") == NULL);
    CHECK(strstr(r->out, "HUSK_LIB_DIR") == NULL);
}

TEST(files_go_in_before_the_program_starts)
{
    static const struct husk_file files[] = {
        {"data.txt", "hello", 5},
        {"deep/er/empty", "", 0},
        {"helper.py", "answer = 42\n", 12},
        {"bin", "\0\1\377", 3},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec(
        "python", HUSK_CELL,
        "import helper, os\n[open('data.txt').read(), os.path.getsize('deep/er/empty'), "
        "helper.answer, list(open('bin', 'rb').read()), os.getcwd()]");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.files = files;
    spec.n_files = ARRAY_LEN(files);
    r = fixture_run(engine, &spec);
    CHECK_STR(r->value_json, "[\"hello\", 0, 42, [0, 1, 255], \"/workspace\"]");
}

static const struct husk_output_file *find(const struct husk_result *r, const char *name)
{
    for (size_t i = 0; i < r->n_files; i++) {
        if (str_eq(r->files[i].name, name)) {
            return &r->files[i];
        }
    }
    tap_fail(__FILE__, __LINE__, "the result does not speak of %s", name);
}

TEST(files_that_were_asked_for_come_back)
{
    static const char *const outputs[] = {"a", "d/b", "empty", "missing", "d", "fifo", "big", NULL};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec =
        fixture_spec("python", HUSK_SCRIPT,
                     "import os\nos.mkdir('d'); os.mkfifo('fifo')\n"
                     "open('a', 'wb').write(b'\\0x\\xff')\nopen('d/b', 'w').write('b')\n"
                     "open('empty', 'w')\nopen('unasked', 'w').write('u')\n"
                     "open('big', 'wb').truncate(25 << 20)");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.outputs = outputs;
    r = fixture_run(engine, &spec);
    CHECK_END(r, "completed exit 0");
    CHECK_INT(r->n_files, ARRAY_LEN(outputs) - 1);
    CHECK_INT(find(r, "a")->len, 3);
    CHECK(memcmp(find(r, "a")->data, "\0x\377", 3) == 0);
    CHECK_STR(find(r, "d/b")->data, "b");
    CHECK_INT(find(r, "empty")->len, 0);
    CHECK(find(r, "empty")->data != NULL && find(r, "empty")->error == NULL);
    for (size_t i = 3; outputs[i] != NULL; i++) {
        CASE("%s", outputs[i]);
        CHECK(find(r, outputs[i])->data == NULL);
        CHECK(find(r, outputs[i])->error != NULL);
    }
    CHECK_STR(find(r, "missing")->error, "No such file or directory");
    CHECK_STR(find(r, "big")->error, "larger than 24 MiB");
}

TEST(files_come_back_from_a_program_that_failed)
{
    static const char *const outputs[] = {"log", NULL};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec =
        fixture_spec("python", HUSK_SCRIPT, "open('log', 'w').write('why')\n1 / 0");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.outputs = outputs;
    r = fixture_run(engine, &spec);
    CHECK_END(r, "failed exit 1");
    CHECK_STR(find(r, "log")->data, "why");
}

TEST(files_that_are_still_open_at_the_end_hold_all_that_was_written)
{
    static const char *const outputs[] = {"f", NULL};
    static const char *const codes[] = {
        "f = open('f', 'w'); f.write('all')",
        "f = [{'a': open('f', 'w')}]; f[0]['a'].write('all')",
        "def g():\n    f = open('f', 'w')\n    return lambda: f.write('all')\ng = g(); g()",
        "class C: f = open('f', 'w')\nC.f.write('all')",
        "f = open('f', 'w'); f.write('all')\nraise SystemExit(0)",
        "def g():\n    f = open('f', 'w'); f.write('all')\n    raise SystemExit(0)\ng()",
        "import threading\nf = open('f', 'w'); f.write('all')\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "def handler(event):\n    global f\n    f = open('f', 'w'); f.write('all')",
        /* Held by what is not the program's own namespace. */
        "import mod\nmod.f.write('all')",
        "__import__('mod').f.write('all')",
        "import json\njson.f = open('f', 'w'); json.f.write('all')",
        "import mod\nmod.f.write('all')\nraise SystemExit(0)",
        "import mod\nclass A:\n    def __del__(self): mod.f.write('all')\na = A()",
        "import threading\nclass A: f = open('f', 'w')\nA.f.write('all')\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "import mod\ndef handler(event): mod.f.write('all')",
        /* One that cannot be flushed does not keep the others. */
        "import io, mod\nclass A(io.IOBase):\n    def flush(self): raise SystemExit(3)\n"
        "mod.a = A(); mod.f.write('all'); mod.b = A()",
    };
    static const struct husk_file mod = {"mod.py", "f = open('f', 'w')", 18};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        bool is_handler = strstr(codes[i], "handler") != NULL;
        struct husk_spec spec =
            fixture_spec("python", is_handler ? HUSK_HANDLER : HUSK_SCRIPT, codes[i]);
        CASE("%s", codes[i]);
        spec.files = &mod;
        spec.n_files = 1;
        spec.outputs = outputs;
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(find(r, "f")->data, "all");
    }
}

TEST(code_of_four_mebibytes_runs_and_more_is_refused)
{
    static char code[CODE_MAX + 1];
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = {.code = code, .code_len = CODE_MAX};
    AUTO_RESULT struct husk_result *r = NULL;

    memset(code, '#', sizeof(code));
    memcpy(code + CODE_MAX - 11, "\nprint('k')", 11);
    r = fixture_run(engine, &spec);
    CHECK_STR(r->out, "k\n");
    spec.code_len = CODE_MAX + 1;
    CHECK_STR(fixture_refusal(engine, &spec), "invalid_argument");
}

TEST(code_is_taken_by_its_length_not_to_a_nul)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = {.code = "print(1)GARBAGE", .code_len = 8};
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);

    CHECK_STR(r->out, "1\n");
}

static void refused(struct husk_engine *engine, const char *what, const struct husk_spec *spec,
                    const char *want)
{
    CASE("%s", what);
    CHECK_STR(fixture_refusal(engine, spec), want);
}

TEST(impossible_requests_are_refused_before_anything_starts)
{
    static const char *const names[] = {"/etc/x", "../x", "a/../b", "", "a//b", "./a", "a/"};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "pass");

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct husk_file file = {names[i], "", 0};
        const char *const outputs[] = {names[i], NULL};
        spec.files = &file;
        spec.n_files = 1;
        refused(engine, names[i], &spec, "invalid_argument");
        spec.n_files = 0;
        spec.outputs = outputs;
        refused(engine, names[i], &spec, "invalid_argument");
        spec.outputs = NULL;
    }
    static const char *const bad_env[] = {"NOVALUE", "=noname", "="};
    for (size_t i = 0; i < ARRAY_LEN(bad_env); i++) {
        const char *const env[] = {"GOOD=1", bad_env[i], NULL};
        spec.env = env;
        refused(engine, bad_env[i], &spec, "invalid_argument");
    }
    spec.env = NULL;
    spec.code = NULL;
    refused(engine, "no code", &spec, "invalid_argument");
    spec.code = "pass";
    spec.template_name = "no-such";
    refused(engine, "an unknown template", &spec, "not_found");
    spec.template_name = "../python";
    refused(engine, "a path as template", &spec, "invalid_argument");
    spec.template_name = "python";
    spec.limits.memory_bytes = 1 * MIB;
    refused(engine, "too little memory", &spec, "invalid_argument");
    spec.limits.memory_bytes = 64 * MIB;
    spec.limits.disk_bytes = 64 * MIB;
    refused(engine, "more disk than fits into the memory", &spec, "invalid_argument");
    spec.limits = (struct husk_limits){0};
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec); /* and it still works */
    CHECK_END(r, "completed exit 0");
}

TEST(no_more_files_are_asked_for_than_come_back)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "open('a', 'w')");
    const char *outputs[FILES_MAX + 2] = {NULL};

    for (size_t i = 0; i < FILES_MAX + 1; i++) {
        outputs[i] = "a";
    }
    spec.outputs = outputs;
    refused(engine, "one file too many", &spec, "invalid_argument");
    outputs[FILES_MAX] = NULL;
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
    CHECK_INT(r->n_files, FILES_MAX);
}

TEST(a_read_only_mount_can_be_read_and_nothing_else)
{
    char dir[] = "/tmp/husk-test-XXXXXX";
    char file[64];
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT,
                                         "print(open('/data/f').read())\n"
                                         "try: open('/data/g', 'w')\n"
                                         "except OSError as e: print(e.errno)");
    AUTO_RESULT struct husk_result *r = NULL;

    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(chmod(dir, 0755), 0);
    CHECK_INT(str_format(file, sizeof(file), "%s/f", dir), 0);
    AUTO_CLOSE int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK_INT(fd_write_all(fd, "text", 4), 0);
    const struct husk_mount mount = {.host = dir, .box = "/data", .read_only = true};
    const struct husk_mount writable = {.host = dir, .box = "/data"};
    const struct husk_mount missing = {.host = "/nonexistent", .box = "/data", .read_only = true};
    const struct husk_mount hiding = {.host = dir, .box = "/husk", .read_only = true};
    spec.mounts = &mount;
    spec.n_mounts = 1;
    r = fixture_run(engine, &spec);
    CHECK_STR(r->out, "text\n30\n");
    spec.mounts = &writable;
    refused(engine, "root's directory for writing", &spec, "invalid_argument");
    spec.mounts = &missing;
    refused(engine, "a source that is not there", &spec, "not_found");
    spec.mounts = &hiding;
    (void)fixture_refusal(engine, &spec);
    CHECK_INT(unlink(file), 0);
    CHECK_INT(rmdir(dir), 0);
}
