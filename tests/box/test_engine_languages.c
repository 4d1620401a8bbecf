/* SPDX-License-Identifier: Apache-2.0 */
/* Shell and JavaScript: the same ends, streams and files as Python, as far as they apply. */
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "tap.h"

#define CODE_MAX (4 << 20)

static void need_node(void)
{
    if (access("/usr/bin/node", X_OK) < 0) {
        SKIP("node is not installed");
    }
}

struct row {
    const char *code;
    const char *end;
    const char *out; /* NULL: not looked at */
};

static void check_rows(const char *template_name, const struct husk_limits *limits,
                       const struct row *rows, size_t n)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < n; i++) {
        struct husk_spec spec = fixture_spec(template_name, HUSK_SCRIPT, rows[i].code);
        spec.limits = *limits;
        spec.keep_bytes = 4096;
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, rows[i].end);
        if (rows[i].out != NULL) {
            CHECK_STR(r->out, rows[i].out);
        }
    }
}

TEST(shell_programs_end_in_every_way)
{
    static const struct row rows[] = {
        {"echo hi", "completed exit 0", "hi\n"},
        {"echo a; exit 3", "failed exit 3", "a\n"},
        {"no-such-command", "failed exit 127", ""},
        {"if", "failed exit 2", ""},
        {"kill -SEGV $$", "crashed signal 139", ""},
        {"kill -KILL $$", "crashed signal 137", ""},
        {"kill -TERM $$", "crashed signal 143", ""},
        {"echo before; sleep 100", "timeout timeout 124: timeout 400 ms", "before\n"},
        {"trap '' TERM INT HUP; echo before; while :; do :; done",
         "timeout timeout 124: timeout 400 ms", "before\n"},
        {"sleep 100 & echo on", "completed exit 0", "on\n"},
        {"(setsid sleep 100 &) ; echo on", "completed exit 0", "on\n"},
    };
    const struct husk_limits limits = {.timeout_ms = 400};

    check_rows("shell", &limits, rows, ARRAY_LEN(rows));
}

TEST(shell_programs_meet_their_limits)
{
    static const struct row rows[] = {
        {"yes", "failed output_limit 153: output 100 KiB", NULL},
        {"head -c 9M /dev/zero > a", "failed disk 1: disk 8 MiB", ""},
        {"truncate -s 1G a && echo x >> a && stat -c %s a", "completed exit 0", "1073741826\n"},
        {"for i in 1 2 3; do head -c 3M /dev/zero > $i; done", "failed disk 1: disk 8 MiB", ""},
        {"set -e; for i in $(seq 100); do : > f$i; done", "failed disk 1: inodes 64", ""},
        {"a=$(head -c 100M /dev/zero | tr '\\0' x); echo no",
         "memory_exceeded oom 137: memory 64 MiB", ""},
    };
    const struct husk_limits limits = {
        .memory_bytes = 64 * MIB, .disk_bytes = 8 * MIB, .inodes = 64, .output_bytes = 100 * 1024};

    check_rows("shell", &limits, rows, ARRAY_LEN(rows));
}

TEST(javascript_programs_end_in_every_way)
{
    static const struct row rows[] = {
        {"console.log('hi')", "completed exit 0", "hi\n"},
        {"console.log('a'); process.exit(3)", "failed exit 3", "a\n"},
        {"process.exitCode = 4", "failed exit 4", ""},
        {"throw new Error('no')", "failed exit 1", ""},
        {"if (", "failed exit 1", ""},
        {"Promise.reject(new Error('late'))", "failed exit 1", ""},
        {"process.on('uncaughtException', (e) => console.log(e.message)); throw new Error('no')",
         "completed exit 0", "no\n"},
        {"process.once('uncaughtException', (e) => console.log(e.message));\n"
         "setTimeout(() => { throw new Error('no') }, 1); setTimeout(() => { throw 2 }, 9)",
         "failed exit 1", "no\n"},
        {"process.abort()", "crashed signal 134", ""},
        {"process.kill(process.pid, 'SIGKILL')", "crashed signal 137", ""},
        {"console.log('before'); for (;;);", "timeout timeout 124: timeout 2000 ms", "before\n"},
        {"setTimeout(() => console.log('later'), 50)", "completed exit 0", "later\n"},
        {"setInterval(() => {}, 1000)", "timeout timeout 124: timeout 2000 ms", ""},
        {"console.log(require('os').hostname())", "completed exit 0", "husk\n"},
        /* Before 20.12 node has no loader for code that is in no file. */
        {"require('fs').writeFileSync('m.mjs', 'export const x = 5');\n"
         "(require('vm').constants ? import('./m.mjs') : Promise.resolve({ x: 5 }))\n"
         ".then((m) => console.log(m.x))",
         "completed exit 0", "5\n"},
    };
    const struct husk_limits limits = {.timeout_ms = 2000};

    need_node();
    check_rows("node", &limits, rows, ARRAY_LEN(rows));
}

/*
 * Node near its memory limit reads its own text again and again: on a busy machine that takes long.
 */
TEST_TIMEOUT(javascript_programs_meet_their_limits, 120)
{
    static const struct row rows[] = {
        {"for (;;) require('fs').writeSync(1, 'x'.repeat(1000))",
         "failed output_limit 153: output 100 KiB", NULL},
        {"require('fs').writeFileSync('a', Buffer.alloc(9 << 20))", "failed disk 1: disk 8 MiB",
         ""},
        {"for (let i = 0; i < 100; i++) require('fs').writeFileSync('f' + i, '')",
         "failed disk 1: inodes 64", ""},
        {"const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1))",
         "memory_exceeded oom 137: memory 128 MiB", ""},
    };
    const struct husk_limits limits = {
        .memory_bytes = 128 * MIB, .disk_bytes = 8 * MIB, .inodes = 64, .output_bytes = 100 * 1024};

    need_node();
    check_rows("node", &limits, rows, ARRAY_LEN(rows));
}

static void raise_event(void *user)
{
    CHECK_INT(eventfd_write(*(int *)user, 1), 0);
}

static void check_cancel(const char *template_name, const char *code)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_CLOSE int cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct husk_spec spec = fixture_spec(template_name, HUSK_SCRIPT, code);
    AUTO_RESULT struct husk_result *r = NULL;

    spec.cancel_fd = cancel;
    fixture_at_output(&spec, raise_event, &cancel);
    r = fixture_run(engine, &spec);
    CHECK_END(r, "cancelled signal 130");
    CHECK_STR(r->out, "on\n");
}

TEST(shell_programs_can_be_cancelled)
{
    check_cancel("shell", "echo on; sleep 100");
}

TEST(javascript_programs_can_be_cancelled)
{
    need_node();
    check_cancel("node", "console.log('on'); setInterval(() => {}, 1000)");
}

static void check_in_and_out(const char *template_name, const char *code)
{
    static const char *const args[] = {"one", "two words", NULL};
    static const char *const env[] = {"FOO=bar", NULL};
    static const char *const outputs[] = {"out", "missing", NULL};
    static const struct husk_file file = {"in", "text", 4};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec(template_name, HUSK_SCRIPT, code);
    AUTO_RESULT struct husk_result *r = NULL;

    spec.args = args;
    spec.env = env;
    spec.outputs = outputs;
    spec.files = &file;
    spec.n_files = 1;
    spec.stdin_data = "fed";
    spec.stdin_len = 3;
    r = fixture_run(engine, &spec);
    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->out, "one|two words|bar|text|fed\n");
    CHECK_STR(r->err, "to stderr\n");
    CHECK_INT(r->n_files, 2);
    CHECK_STR(r->files[0].data, "made\n");
    CHECK_STR(r->files[1].error, "No such file or directory");
}

TEST(shell_programs_have_all_that_goes_in_and_out)
{
    check_in_and_out("shell", "echo \"$1|$2|$FOO|$(cat in)|$(cat)\"; echo to stderr >&2; "
                              "echo made > out");
}

TEST(javascript_programs_have_all_that_goes_in_and_out)
{
    need_node();
    check_in_and_out("node", "const fs = require('fs');\n"
                             "console.log([...process.argv.slice(2), process.env.FOO,\n"
                             "  fs.readFileSync('in'), fs.readFileSync(0)].join('|'));\n"
                             "console.error('to stderr'); fs.writeFileSync('out', 'made\\n');");
}

static void check_code_size(const char *template_name, char comment, const char *last, size_t n)
{
    static char code[CODE_MAX];
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = {.template_name = template_name, .code = code, .code_len = CODE_MAX};
    AUTO_RESULT struct husk_result *r = NULL;

    memset(code, comment, sizeof(code));
    memcpy(code + sizeof(code) - n, last, n);
    r = fixture_run(engine, &spec);
    CHECK_STR(r->out, "k\n");
    spec.code_len++;
    CHECK_STR(fixture_refusal(engine, &spec), "invalid_argument");
}

TEST(shell_code_may_be_four_mebibytes)
{
    static const char last[] = "\necho k";

    check_code_size("shell", '#', last, sizeof(last) - 1);
}

TEST(javascript_code_may_be_four_mebibytes)
{
    static const char last[] = "\nconsole.log('k')";

    need_node();
    check_code_size("node", '/', last, sizeof(last) - 1);
}

TEST(javascript_cells_report_values)
{
    static const struct {
        const char *code;
        const char *value;
        const char *json;
    } rows[] = {
        {"1 + 1", "2", "2"},          {"({a: [1, 'x']})", "{ a: [ 1, 'x' ] }", "{\"a\":[1,\"x\"]}"},
        {"const x = 1;", NULL, NULL}, {"undefined", NULL, NULL},
        {"10n", "10n", NULL},
    };
    AUTO_ENGINE struct husk_engine *engine = NULL;

    need_node();
    engine = fixture_open();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct husk_spec spec = fixture_spec("node", HUSK_CELL, rows[i].code);
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->value, rows[i].value);
        CHECK_STR(r->value_json, rows[i].json);
    }
}

/* More than a socket holds: neither side may wait for the other to read. */
TEST(javascript_values_may_be_large)
{
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec = fixture_spec("node", HUSK_CELL, "'x'.repeat(900000)");
    AUTO_RESULT struct husk_result *r = NULL;

    need_node();
    engine = fixture_open();
    spec.limits.timeout_ms = 10000;
    r = fixture_run(engine, &spec);
    CHECK_END(r, "completed exit 0");
    CHECK(r->value != NULL); /* node shortens it to be read */
    CHECK(r->value_json != NULL);
    CHECK_INT(strlen(r->value_json), 900002); /* with its quotes */
}

TEST(javascript_exceptions_are_told_from_the_users_line_on)
{
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec =
        fixture_spec("node", HUSK_CELL, "function f() { throw new TypeError('bad'); }\nf();");
    AUTO_RESULT struct husk_result *r = NULL;

    need_node();
    engine = fixture_open();
    spec.name = "task.js";
    r = fixture_run(engine, &spec);
    CHECK_END(r, "failed exit 1");
    CHECK_STR(r->error.type, "TypeError");
    CHECK_STR(r->error.message, "bad");
    CHECK_HAS(r->error.traceback, "TypeError: bad\n    at f (task.js:1:");
    CHECK(strstr(r->error.traceback, "runner.js") == NULL);
    CHECK_STR(r->err, "");
}

static struct husk_result *handle(struct husk_engine *engine, const char *code, const char *event,
                                  const char *context)
{
    struct husk_spec spec = fixture_spec("node", HUSK_HANDLER, code);

    spec.event = event;
    spec.context = context;
    spec.limits.timeout_ms = 9000;
    return fixture_run(engine, &spec);
}

TEST(a_javascript_handler_answers_its_event)
{
    static const struct {
        const char *code;
        const char *event;
        const char *json;
    } rows[] = {
        {"function handler(event) { return event.n + 1; }", "{\"n\": 41}", "42"},
        {"const handler = (event) => event;", "[1, 2]", "[1,2]"},
        {"exports.handler = (event, context) => [event, context.function_name]", NULL,
         "[{},\"unknown-function\"]"},
        {"module.exports = (...all) => all.length", NULL, "2"},
        {"module.exports = {handler: () => 'in an object'}", NULL, "\"in an object\""},
        {"async function handler() { await null; return 'later'; }", NULL, "\"later\""},
        {"handler = () => new Promise((done) => setTimeout(done, 20, 'timer'))", NULL, "\"timer\""},
        {"handler = async () => (require('vm').constants ? await import('path') : { sep: '/' "
         "}).sep",
         NULL, "\"/\""},
        {"function handler() {}", NULL, "null"},
        {"function handler() { return {a: [NaN, 1.5], b: -Infinity}; }", NULL,
         "{\"a\":[null,1.5],\"b\":null}"},
        {"function handler() { return '\\u00e4\\ud83d\\ude00\\\\ud800'; }", NULL,
         "\"\xc3\xa4\xf0\x9f\x98\x80\\\\ud800\""},
        {"JSON.stringify = () => '\"forged\"'; globalThis.Buffer = null;\n"
         "require('fs').writeSync = () => 0; handler = () => 'own'",
         NULL, "\"own\""},
    };
    AUTO_ENGINE struct husk_engine *engine = NULL;

    need_node();
    engine = fixture_open();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = handle(engine, rows[i].code, rows[i].event, NULL);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->value_json, rows[i].json);
    }
}

TEST(a_javascript_handler_that_cannot_answer_fails_with_a_reason)
{
    static const struct {
        const char *code;
        const char *type;
        const char *message;
    } rows[] = {
        {"const x = 1", "NoHandler", "<cell> defines no function handler(event, context)"},
        {"const handler = 5", "NoHandler", "<cell> defines no function handler(event, context)"},
        {"if (", "SyntaxError", "Unexpected end of input"},
        {"handler = () => { throw new RangeError('now'); }", "RangeError", "now"},
        {"handler = async () => { await null; throw new RangeError('later'); }", "RangeError",
         "later"},
        {"handler = () => Promise.reject('text')", "string", "'text'"},
        {"handler = () => new Promise(() => {})", "Error",
         "all work is done, but the promise of the handler is open"},
        {"handler = () => 10n", "TypeError",
         "the handler's answer cannot be said in JSON: Do not know how to serialize a BigInt"},
        {"handler = () => () => 1", "TypeError",
         "the handler's answer cannot be said in JSON: it is a function"},
        {"handler = () => '\\ud800'", "TypeError",
         "the handler's answer cannot be said in JSON: it has a lone surrogate"},
        {"handler = () => 'x'.repeat(17 << 20)", "RangeError",
         "the handler's answer is 17825794 bytes long, at most 16777216 are possible"},
    };
    AUTO_ENGINE struct husk_engine *engine = NULL;

    need_node();
    engine = fixture_open();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = handle(engine, rows[i].code, NULL, NULL);
        CHECK_END(r, "failed exit 1");
        CHECK_STR(r->error.type, rows[i].type);
        CHECK_STR(r->error.message, rows[i].message);
        CHECK(r->error.traceback == NULL || strstr(r->error.traceback, "runtimes/node") == NULL);
        CHECK_STR(r->value_json, NULL);
        CHECK_STR(r->err, "");
    }
}

TEST(a_javascript_handlers_context_is_that_of_a_python_handler)
{
    static const char code[] =
        "handler = (event, c) => [c.function_name, c.request_id, c.aws_request_id,\n"
        "  c.memory_limit_in_mb, c.get_remaining_time_in_millis() > 0,\n"
        "  c.remaining_time_in_millis <= 9000, c.remaining_time_in_millis <= 4000]";
    static const struct {
        const char *event;
        const char *context;
        const char *json;
    } rows[] = {
        {"{}", "{\"function_name\": \"f\", \"request_id\": \"r-1\"}",
         "[\"f\",\"r-1\",\"r-1\",256,true,true,false]"},
        {"{\"__timeout\": 4}", "{\"request_id\": \"a\", \"aws_request_id\": \"b\"}",
         "[\"unknown-function\",\"a\",\"b\",256,true,true,true]"},
        {"null", "{\"request_id\": \"a\", \"remaining_time_in_millis\": 4000}",
         "[\"unknown-function\",\"a\",\"a\",256,true,true,true]"},
        {"{}", "{\"no_such_field\": 1}", NULL},
    };
    AUTO_ENGINE struct husk_engine *engine = NULL;

    need_node();
    engine = fixture_open();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].context);
        AUTO_RESULT struct husk_result *r = handle(engine, code, rows[i].event, rows[i].context);
        CHECK_STR(r->value_json, rows[i].json);
        if (rows[i].json == NULL) {
            CHECK_END(r, "failed exit 1");
            CHECK_STR(r->error.message, "unknown context field: no_such_field");
        }
    }
}

/* Work that it has left behind does not delay its answer, nor change it. */
TEST(a_javascript_handler_that_leaves_work_has_answered)
{
    static const char *const codes[] = {
        "handler = () => { setInterval(() => {}, 1000); return 1; }",
        "handler = async () => { setTimeout(() => { throw new Error('late'); }, 0); return 1; }",
        "handler = () => { process.on('exit', () => { throw new Error('late'); }); return 1; }",
        "handler = () => { Promise.reject(new Error('late')); return 1; }",
        "handler = () => { process.stdout.end(); setInterval(() => {}, 1000); return 1; }",
    };
    AUTO_ENGINE struct husk_engine *engine = NULL;

    need_node();
    engine = fixture_open();
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = handle(engine, codes[i], NULL, NULL);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->value_json, "1");
        CHECK_STR(r->error.type, NULL);
        CHECK_STR(r->err, "");
    }
    AUTO_RESULT struct husk_result *r =
        handle(engine,
               "handler = () => { console.log('x'.repeat(900000));\n"
               "setTimeout(() => { throw new Error('late'); }, 0); return 1; }",
               NULL, NULL);
    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->error.type, NULL);
    CHECK_INT(r->out_len, 900001);
}

/* As much as a Python handler may answer. */
TEST(a_javascript_handlers_answer_may_be_large)
{
    static const size_t size = 16 << 20;
    AUTO_ENGINE struct husk_engine *engine = NULL;
    AUTO_RESULT struct husk_result *r = NULL;

    need_node();
    engine = fixture_open();
    r = handle(engine, "handler = () => 'x'.repeat((16 << 20) - 2)", NULL, NULL);
    CHECK_END(r, "completed exit 0");
    CHECK(r->value_json != NULL);
    CHECK_INT(strlen(r->value_json), size);
}

/* A part of it would be no JSON. */
TEST(javascript_values_that_are_too_large_are_cut_and_have_no_json)
{
    static const struct {
        const char *code;
        bool cut;
    } rows[] = {
        {"'x'.repeat((1 << 20) - 2)", false}, /* and two quotes */
        {"'x'.repeat((1 << 20) - 1)", true},
        {"'x'.repeat(2 << 20)", true},
    };
    AUTO_ENGINE struct husk_engine *engine = NULL;

    need_node();
    engine = fixture_open();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct husk_spec spec = fixture_spec("node", HUSK_CELL, rows[i].code);
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "completed exit 0");
        CHECK_INT(strlen(r->value), 1 << 20);
        CHECK_INT(r->displays_dropped, rows[i].cut);
        CHECK_INT(r->value_json == NULL, rows[i].cut);
    }
}

TEST(a_shell_has_no_handlers)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("shell", HUSK_HANDLER, "true");

    CHECK_STR(fixture_refusal(engine, &spec), "invalid_argument");
}
