/* SPDX-License-Identifier: Apache-2.0 */
/* What a Python program answers: values of cells, exceptions with tracebacks, handlers. */
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"
#include "tap.h"

TEST(a_cell_reports_the_value_of_its_last_expression)
{
    static const struct {
        const char *code;
        const char *value;
        const char *json;
    } rows[] = {
        {"1 + 1", "2", "2"},
        {"x = 20\nx * 2 + 2", "42", "42"},
        {"'a\\u00e4'", "'a\xc3\xa4'", "\"a\\u00e4\""},
        {"[1, None, {'k': 2.5}]", "[1, None, {'k': 2.5}]", "[1, null, {\"k\": 2.5}]"},
        {"{1, 2}", "{1, 2}", NULL},
        {"float('nan')", "nan", NULL},
        {"x = 1", NULL, NULL},
        {"None", NULL, NULL},
        {"", NULL, NULL},
        {"# only this", NULL, NULL},
        {"for i in range(3): i", NULL, NULL},
        {"def f(): return 7\nf()", "7", "7"},
        {"1; 2", "2", "2"},
        {"l = []\nl.append(l)\nl", "[[...]]", NULL},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_cell(engine, rows[i].code);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->value, rows[i].value);
        CHECK_STR(r->value_json, rows[i].json);
    }
}

TEST(a_script_reports_no_value)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r = fixture_script(engine, "42");

    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->value, NULL);
}

TEST(a_value_of_more_than_a_megabyte_is_cut_not_lost)
{
    static const struct {
        const char *code;
        bool cut;
    } rows[] = {
        {"'x' * ((1 << 20) - 2)", false}, /* and two quotes */
        {"'x' * ((1 << 20) - 1)", true},
        {"'x' * (3 << 20)", true},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_cell(engine, rows[i].code);
        CHECK_END(r, "completed exit 0");
        CHECK_INT(strlen(r->value), 1 << 20);
        CHECK_INT(r->displays_dropped, rows[i].cut);
        CHECK_INT(r->value_json == NULL, rows[i].cut);
    }
}

TEST(an_exception_is_told_from_the_users_first_line_on)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, "def f():\n    return 1 / 0\nf()");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.name = "task.py";
    r = fixture_run(engine, &spec);
    CHECK_END(r, "failed exit 1");
    CHECK_STR(r->error.type, "ZeroDivisionError");
    CHECK_STR(r->error.message, "division by zero");
    CHECK_STR(r->error.traceback, "Traceback (most recent call last):\n"
                                  "  File \"task.py\", line 3, in <module>\n"
                                  "    f()\n"
                                  "  File \"task.py\", line 2, in f\n"
                                  "    return 1 / 0\n"
                                  "           ~~^~~\n"
                                  "ZeroDivisionError: division by zero\n");
    CHECK_STR(r->err, ""); /* a cell reports it, a script prints it */
}

TEST(a_traceback_shows_the_line_that_failed)
{
    static const char *const codes[] = {
        "1 / 0",
        "x = '\xe2\x80\xa8'\n1 / 0",
        "x = '\x0c\x1c\x1d\xc2\x85'\n1 / 0\n",
        "x = 1\r\n1 / 0\r\n",
        "x = 1\r1 / 0\rx = 2",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = fixture_script(engine, codes[i]);
        CHECK_HAS(r->err, ", in <module>\n"
                          "    1 / 0\n"
                          "    ~~^~~\n"
                          "ZeroDivisionError: division by zero\n");
    }
}

TEST(a_script_prints_its_exception_as_well)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r = fixture_script(engine, "nonsense");

    CHECK_END(r, "failed exit 1");
    CHECK_STR(r->error.type, "NameError");
    CHECK_STR(r->error.message, "name 'nonsense' is not defined");
    CHECK_STR(r->err, r->error.traceback);
    CHECK_HAS(r->err, "  File \"<cell>\", line 1, in <module>\n    nonsense\n");
}

TEST(a_program_finds_its_own_source)
{
    static const char code[] = "import inspect, logging, threading, traceback\n"
                               "def f(x):\n"
                               "    return 1 / x  # shown\n"
                               "try: f(0)\n"
                               "except ZeroDivisionError:\n"
                               "    traceback.print_exc()\n"
                               "    logging.exception('')\n"
                               "t = threading.Thread(target=f, args=(0,))\n"
                               "t.start()\n"
                               "t.join()\n"
                               "print(inspect.getsource(f), end='')";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < 2; i++) {
        CASE("%zu", i);
        struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, code);
        spec.name = i == 0 ? NULL : "prog.py";
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->out, "def f(x):\n    return 1 / x  # shown\n");
        const char *at = r->err;
        for (int shown = 0; shown < 3; shown++) {
            at = strstr(at, "line 3, in f\n    return 1 / x  # shown\n");
            CHECK(at != NULL);
            at++;
        }
        CHECK_HAS(r->err, "line 4, in <module>\n    try: f(0)\n");
        CHECK_HAS(r->err, "Exception in thread Thread-1 (f):\n");
    }
}

TEST(what_was_written_before_an_exception_comes_before_its_traceback)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r =
        fixture_script(engine, "import sys\nsys.stderr.write('before ')\nnonsense");

    CHECK_HAS(r->err, "before Traceback (most recent call last):\n");
}

TEST(a_syntax_error_shows_the_line_and_nothing_of_ours)
{
    static const enum husk_kind kinds[] = {HUSK_SCRIPT, HUSK_CELL, HUSK_HANDLER};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct husk_spec spec = fixture_spec("python", kinds[i], "x = 1\nif x\n");
        CASE("kind %d", kinds[i]);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "failed exit 1");
        CHECK_STR(r->error.type, "SyntaxError");
        CHECK_STR(r->error.traceback, "  File \"<cell>\", line 2\n"
                                      "    if x\n"
                                      "        ^\n"
                                      "SyntaxError: expected ':'\n");
    }
}

/* These are found after the text has been read, when the compiler no longer knows it. */
TEST(a_syntax_error_of_the_compiler_shows_the_line)
{
    static const enum husk_kind kinds[] = {HUSK_SCRIPT, HUSK_CELL, HUSK_HANDLER};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct husk_spec spec = fixture_spec("python", kinds[i], "x = 1\nreturn x\n");
        CASE("kind %d", kinds[i]);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "failed exit 1");
        CHECK_STR(r->error.traceback, "  File \"<cell>\", line 2\n"
                                      "    return x\n"
                                      "    ^^^^^^^^\n"
                                      "SyntaxError: 'return' outside function\n");
        CHECK_STR(r->err, kinds[i] == HUSK_SCRIPT ? r->error.traceback : "");
    }
}

TEST(strange_exceptions_are_reported_all_the_same)
{
    static const struct {
        const char *code;
        const char *type;
        const char *want;
    } rows[] = {
        {"class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E", "E",
         "failed exit 1"},
        {"class E(BaseException): pass\nraise E('x')", "E", "failed exit 1"},
        {"raise KeyboardInterrupt", "KeyboardInterrupt", "failed exit 130"},
        {"def f(): f()\nf()", "RecursionError", "failed exit 1"},
        {"class R:\n    def __repr__(self): raise OSError('no')\nR()", "OSError", "failed exit 1"},
        {"'\\ud800'.encode()", "UnicodeEncodeError", "failed exit 1"},
        {"raise ValueError('\\ud800 alone')", "ValueError", "failed exit 1"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_cell(engine, rows[i].code);
        CHECK_END(r, rows[i].want);
        CHECK_STR(r->error.type, rows[i].type);
        CHECK(r->error.traceback != NULL);
    }
}

TEST(strange_ends_of_a_script_are_those_of_the_interpreter)
{
    static const struct {
        const char *code;
        const char *want;
        const char *err;
    } rows[] = {
        {"class O:\n    def __str__(self): 1 / 0\nraise SystemExit(O())", "failed exit 1", NULL},
        {"class I(int):\n    def __and__(self, other): 1 / 0\nraise SystemExit(I(300))",
         "failed exit 44", NULL},
        {"raise SystemExit(1 << 70)", "failed exit 255", NULL},
        {"import sys\nsys.stderr.close()\nsys.exit('x')", "failed exit 1", NULL},
        {"import sys\nsys.stderr.close()\n1 / 0", "failed exit 1", NULL},
        {"import sys\ndel sys.stdout, sys.stderr\n1 / 0", "failed exit 1", NULL},
        {"import os\nos.close(2)\n1 / 0", "failed exit 1", NULL},
        {"import sys\ndel sys.excepthook\n1 / 0", "failed exit 1", "ZeroDivisionError: "},
        {"import sys\nsys.excepthook = lambda *a: sys.exit(7)\n1 / 0", "failed exit 7", NULL},
        {"import sys\ndef hook(*a): raise KeyError('h')\nsys.excepthook = hook\n1 / 0",
         "failed exit 1",
         "Error in sys.excepthook:\n"
         "Traceback (most recent call last):\n"
         "  File \"<cell>\", line 2, in hook\n"
         "    def hook(*a): raise KeyError('h')\n"
         "                  ^^^^^^^^^^^^^^^^^^^\n"
         "KeyError: 'h'\n"
         "\n"
         "Original exception was:\n"
         "Traceback (most recent call last):\n"
         "  File \"<cell>\", line 4, in <module>\n"},
        {"import json, sys, traceback\n"
         "sys.excepthook = lambda t, e, tb: traceback.print_exception(e)\njson.loads(1)",
         "failed exit 1", "TypeError: "},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_script(engine, rows[i].code);
        CHECK_END(r, rows[i].want);
        CHECK_HAS(r->err, rows[i].err != NULL ? rows[i].err : "");
        CHECK(strstr(r->err, "/husk/") == NULL && strstr(r->err, "lost sys.stderr") == NULL);
    }
}

TEST(the_name_of_our_runner_is_not_in_any_traceback)
{
    static const char *const codes[] = {
        "1 / 0",
        "import traceback; traceback.print_stack()",
        "raise ValueError from KeyError('inner')",
        "try:\n    1 / 0\nexcept Exception:\n    raise TypeError('second')",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = fixture_script(engine, codes[i]);
        const char *shown = r->error.traceback != NULL ? r->error.traceback : "";
        CHECK(strstr(shown, "runner.py") == NULL);
    }
}

static struct husk_result *handle(struct husk_engine *engine, const char *code, const char *event,
                                  const char *context)
{
    struct husk_spec spec = fixture_spec("python", HUSK_HANDLER, code);

    spec.event = event;
    spec.context = context;
    return fixture_run(engine, &spec);
}

TEST(a_handler_answers_its_event)
{
    static const struct {
        const char *code;
        const char *event;
        const char *json;
    } rows[] = {
        {"def handler(event): return event['n'] + 1", "{\"n\": 41}", "42"},
        {"def handler(event, context): return [event, context.function_name]", NULL,
         "[{}, \"unknown-function\"]"},
        {"def handler(event, context=None): return context is not None", NULL, "true"},
        {"def handler(*args): return len(args)", NULL, "2"},
        {"handler = lambda event: event", "[1, 2]", "[1, 2]"},
        {"async def handler(event): return 'later'", NULL, "\"later\""},
        {"class H:\n    def __call__(self, event): return 'called'\nhandler = H()", NULL,
         "\"called\""},
        {"def handler(event): return None", NULL, "null"},
        {"def handler(event): return float('inf')", NULL, "null"},
        {"def handler(event): return {'a': [float('nan'), 1.5], 'b': -float('inf')}", NULL,
         "{\"a\": [null, 1.5], \"b\": null}"},
        {"from functools import partial\nhandler = partial(lambda n, event: n, 7)", NULL, "7"},
        {"def handler(event): return '\\u00e4'", NULL, "\"\xc3\xa4\""},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = handle(engine, rows[i].code, rows[i].event, NULL);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->value_json, rows[i].json);
    }
}

TEST(a_handler_that_cannot_answer_fails_with_a_reason)
{
    static const struct {
        const char *code;
        const char *type;
    } rows[] = {
        {"x = 1", "NoHandler"},
        {"handler = 5", "NoHandler"},
        {"def handler(event): return {1, 2}", "TypeError"},
        {"def handler(event):\n    l = [float('nan')]\n    l.append(l)\n    return l", "TypeError"},
        {"def handler(event): return '\\ud800'", "TypeError"},
        {"def handler(event): return 'x' * (17 << 20)", "ValueError"},
        {"def handler(): return 1", "TypeError"},
        {"def handler(a, b, c): return 1", "TypeError"},
        {"def handler(event): return event['missing']", "KeyError"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = handle(engine, rows[i].code, NULL, NULL);
        CHECK_END(r, "failed exit 1");
        CHECK_STR(r->error.type, rows[i].type);
        CHECK_STR(r->value_json, NULL);
    }
}

TEST(a_handler_that_leaves_threads_has_answered)
{
    static const char *const codes[] = {
        "import threading\ndef handler(event):\n"
        "    threading.Thread(target=threading.Event().wait).start()\n    return 1",
        "from concurrent.futures import ThreadPoolExecutor\nimport threading\n"
        "def handler(event):\n"
        "    ThreadPoolExecutor().submit(threading.Event().wait)\n    return 1",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = handle(engine, codes[i], NULL, NULL);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->value_json, "1");
    }
}

TEST(a_handlers_context_has_the_fields_that_were_given)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r =
        handle(engine,
               "def handler(event, c):\n"
               "    return [c.function_name, c.request_id, c.aws_request_id, c.memory_limit_in_mb]",
               "{}", "{\"function_name\": \"f\", \"request_id\": \"r-1\"}");

    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->value_json, "[\"f\", \"r-1\", \"r-1\", 256]");
}

TEST(an_unknown_context_field_is_refused)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r =
        handle(engine, "def handler(event): return 1", "{}", "{\"no_such_field\": 1}");

    CHECK_END(r, "failed exit 1");
    CHECK_HAS(r->error.message, "no_such_field");
}

TEST(a_handlers_remaining_time_counts_down)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_HANDLER,
                                         "import time\n"
                                         "def handler(event, c):\n"
                                         "    a = c.get_remaining_time_in_millis()\n"
                                         "    time.sleep(0.05)\n"
                                         "    b = c.get_remaining_time_in_millis()\n"
                                         "    return [0 < a <= 9000, 40 < a - b < 5000]\n");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.limits.timeout_ms = 9000;
    r = fixture_run(engine, &spec);
    CHECK_STR(r->value_json, "[true, true]");
}

TEST(a_handlers_remaining_time_follows_the_events_own_limit)
{
    static const struct {
        const char *event;
        const char *below; /* of the limits 4 s and 9 s */
    } rows[] = {
        {"{\"__timeout\": 4}", "[true, true]"},
        {"{\"__timeout\": 3.5}", "[true, true]"},
        {"{\"__timeout\": 0}", "[false, true]"},
        {"{\"__timeout\": -1}", "[false, true]"},
        {"{\"__timeout\": 100}", "[false, true]"},
        {"{\"__timeout\": true}", "[false, true]"},
        {"{\"__timeout\": \"4\"}", "[false, true]"},
        {"{}", "[false, true]"},
        {"[]", "[false, true]"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct husk_spec spec = fixture_spec("python", HUSK_HANDLER,
                                             "def handler(event, c):\n"
                                             "    left = c.get_remaining_time_in_millis()\n"
                                             "    return [left <= 4000, 0 < left <= 9000]\n");
        CASE("%s", rows[i].event);
        spec.event = rows[i].event;
        spec.limits.timeout_ms = 9000;
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_STR(r->value_json, rows[i].below);
    }
}
