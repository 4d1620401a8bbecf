/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Python run does on request: auto_print, variables, and all extras together on every
 * interpreter.
 */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "engine_fixture.h"
#include "tap.h"

TEST(auto_print_prints_the_last_expression)
{
    static const struct {
        const char *code;
        const char *out;
    } rows[] = {
        {"2 + 3", "5\n"},
        {"x = 5\nx + 10", "15\n"},
        {"'text'", "text\n"},
        {"x = 5\nprint(f'The value is {x}')\nx + 10", "The value is 5\n15\n"},
        {"print(1)", "1\n"},
        {"x = print('Hello')\nx", "Hello\n"},
        {"None", ""},
        {"x = 10\ny = x * 2", ""},
        {"def f(x):\n    return x", ""},
        {"class A:\n    1", ""},
        {"if True:\n    x = 5\n    x + 10", ""},
        {"for i in range(3):\n    i", ""},
        {"import math", ""},
        {"", ""},
        {"   \n\t", ""},
        {"x = 5\n(x +\n 10 +\n 20)", "35\n"},
        {"v = [1, 2, 3, 4, 5]\nsum(v) + \\\nlen(v) * \\\n2", "25\n"},
        {"{k: v for k, v in {'a': 1, 'b': 2}.items() if k != 'b'}", "{'a': 1}\n"},
        {"x = 1; x", "1\n"},
    };
    static const enum husk_kind kinds[] = {HUSK_SCRIPT, HUSK_CELL};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(kinds); i++) {
        struct husk_spec spec = fixture_spec("python", kinds[i % 2], rows[i / 2].code);
        CASE("%s", rows[i / 2].code);
        spec.auto_print = true;
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->out, rows[i / 2].out);
    }
}

TEST(without_auto_print_nothing_is_printed)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *script = fixture_script(engine, "2 + 3");
    AUTO_RESULT struct husk_result *cell = fixture_cell(engine, "x = 1\nx");

    CHECK_STR(script->out, "");
    CHECK_STR(cell->out, "");
}

TEST(auto_print_of_failing_code_fails)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "print('a')\n1 / 0");
    AUTO_RESULT struct husk_result *r = NULL;

    spec.auto_print = true;
    r = fixture_run(engine, &spec);
    CHECK_END(r, "failed exit 1");
    CHECK_STR(r->out, "a\n");
    CHECK_HAS(r->err, "ZeroDivisionError");
    CHECK_HAS(r->err, "line 2");
    spec.kind = HUSK_HANDLER;
    CHECK_STR(fixture_refusal(engine, &spec), "invalid_argument");
}

TEST(variables_are_reported_as_json)
{
    static const char *const names[] = {"x", "y", "missing", "x", NULL};
    static const struct {
        const char *code;
        const char *json;
        bool dropped;
    } rows[] = {
        {"x = 1", "{\"x\": 1}", false},
        {"y = 2\nx = [1, 'a', None]", "{\"x\": [1, \"a\", null], \"y\": 2}", false},
        {"z = 1", "{}", false},
        {"x = {1}\ny = len", "{\"x\": \"{1}\", \"y\": \"<built-in function len>\"}", false},
        {"x = float('nan')\ny = {'a': [float('inf')]}", "{\"x\": \"nan\", \"y\": \"{'a': [inf]}\"}",
         false},
        {"x = []\nx.append(x)", "{\"x\": \"[[...]]\"}", false},
        {"x = (1, 2)\ny = {1: 2}", "{\"x\": [1, 2], \"y\": {\"1\": 2}}", false},
        {"x = '\\u00e4\\ud800'", "{\"x\": \"\xc3\xa4?\"}", false},
        {"x = 10 ** 5000", "{\"x\": \"<int>\"}", false},
        {"class A:\n    def __str__(self): 1 / 0\nx = A()", "{\"x\": \"<A>\"}", false},
        {"x = None\nfor i in range(100000): x = [x]", "{\"x\": \"<list>\"}", false},
        {"x = 'x' * (1 << 20)\ny = 1", "{\"y\": 1}", true},
        {"x = 1\nraise SystemExit(3)", "{\"x\": 1}", false},
        {"x = 1\n1 / 0", "{\"x\": 1}", false},
        {"def f(): x = 1\nf()", "{}", false},
        {"x = {'a\\0': 1}", NULL, true}, /* no name for a JSON parser in C */
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, rows[i].code);
        CASE("%s", rows[i].code);
        spec.variables = names;
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_STR(r->variables_json, rows[i].json);
        CHECK_INT(r->variables_dropped, rows[i].dropped);
    }
}

TEST(variables_that_cannot_be_asked_for_are_refused)
{
    static const char *const empty[] = {"", NULL};
    const char *many[300] = {NULL};
    char long_name[300] = "";
    const char *too_long[] = {long_name, NULL};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "1");

    for (size_t i = 0; i < 299; i++) {
        many[i] = "x";
    }
    memset(long_name, 'x', sizeof(long_name) - 1);
    spec.variables = empty;
    CHECK_STR(fixture_refusal(engine, &spec), "invalid_argument");
    spec.variables = many;
    CHECK_STR(fixture_refusal(engine, &spec), "invalid_argument");
    spec.variables = too_long;
    CHECK_STR(fixture_refusal(engine, &spec), "invalid_argument");
}

TEST(a_sessions_cells_have_all_extras)
{
    static const char *const names[] = {"x", NULL};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, "x += 1\ndisplay('d')\nx");
    struct husk_error e;

    CHECK_CELL(s, 0, "x = 1", NULL);
    spec.rich = true;
    spec.auto_print = true;
    spec.policy = HUSK_POLICY_PYRUNNER;
    spec.variables = names;
    for (int i = 2; i < 5; i++) {
        char want[32];
        AUTO_RESULT struct husk_result *r = NULL;
        CHECK_OK(husk_session_run(s, 0, &spec, &r, &e), &e);
        CHECK_INT(str_format(want, sizeof(want), "{\"x\": %d}", i), 0);
        CHECK_STR(r->variables_json, want);
        CHECK_INT(str_format(want, sizeof(want), "%d\n", i), 0);
        CHECK_STR(r->out, want);
        CHECK_INT(r->n_displays, 2);
    }
    CHECK_CELL(s, 0, "x", "4");
}

static struct husk_result *judge(struct husk_engine *engine, enum husk_kind kind, const char *code)
{
    struct husk_spec spec = fixture_spec("python", kind, code);

    spec.policy = HUSK_POLICY_PYRUNNER;
    return fixture_run(engine, &spec);
}

TEST(a_policy_judges_cells_handlers_and_sessions)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *cell = judge(engine, HUSK_CELL, "eval('1')");
    AUTO_RESULT struct husk_result *handler =
        judge(engine, HUSK_HANDLER, "def handler(event): return open('x')");
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, "x = 2\nimport os");
    AUTO_RESULT struct husk_result *in_session = NULL;
    struct husk_error e;

    CHECK_STR(cell->error.message, "Call to 'eval' is not allowed");
    CHECK_STR(handler->error.message, "Call to 'open' is not allowed");
    CHECK_CELL(s, 0, "x = 1", NULL);
    spec.policy = HUSK_POLICY_PYRUNNER;
    CHECK_OK(husk_session_run(s, 0, &spec, &in_session, &e), &e);
    CHECK_STR(in_session->error.message, "Import of 'os' is not allowed");
    CHECK_CELL(s, 0, "import os; x", "1"); /* the session lives, and only that cell was judged */
}

TEST(an_unknown_policy_is_refused)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "1");

    spec.policy = (enum husk_policy)7;
    CHECK_STR(fixture_refusal(engine, &spec), "invalid_argument");
}

/* All at once, and a refusal, with one interpreter. */
static void check_python(const char *name)
{
    static const char code[] = "import math\ndisplay(math.floor(2.5))\nx = [1]\nx + [float('nan')]";
    static const char *const names[] = {"x", NULL};
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec = fixture_spec(name, HUSK_CELL, code);
    struct husk_spec bad = fixture_spec(name, HUSK_SCRIPT, "().__class__");
    struct husk_error e;

    CHECK_OK(husk_open(NULL, &engine, &e), &e);
    spec.rich = spec.auto_print = true;
    spec.policy = bad.policy = HUSK_POLICY_PYRUNNER;
    spec.variables = names;
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->out, "[1, nan]\n");
    CHECK_STR(r->variables_json, "{\"x\": [1]}");
    CHECK_INT(r->n_displays, 2);
    CHECK_STR(r->displays[0].forms[0].data, "2");
    AUTO_RESULT struct husk_result *refused = fixture_run(engine, &bad);
    CHECK_STR(refused->error.message, "Access to '__class__' attribute is not allowed");
}

TEST_TIMEOUT(extras_work_with_every_cpython, 120)
{
    char dir[] = "/var/lib/husk-extras-XXXXXX"; /* a box has a /tmp of its own */
    const char *home = getenv("HOME");
    struct husk_error e;
    glob_t found;

    fixture_template_dir(dir);
    CHECK_INT(glob("/usr/bin/python3", 0, NULL, &found), 0);
    if (home != NULL) {
        char pattern[PATH_MAX];
        CHECK_INT(str_format(pattern, sizeof(pattern), "%s/.pyenv/versions/3.*/bin/python3", home),
                  0);
        int r = glob(pattern, GLOB_APPEND, NULL, &found);
        CHECK(r == 0 || r == GLOB_NOMATCH);
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char name[32];
        char path[PATH_MAX];
        CASE("%s", found.gl_pathv[i]);
        CHECK_INT(str_format(name, sizeof(name), "py-%zu", i), 0);
        if (husk_template_add(name, found.gl_pathv[i], NULL, path, sizeof(path), &e) < 0) {
            CHECK_STR(e.type, "template_broken"); /* older than 3.9 */
            continue;
        }
        check_python(name);
        CHECK_INT(unlink(path), 0);
    }
    globfree(&found);
    CHECK_INT(rmdir(dir), 0);
}

TEST(boxes_can_be_parked_with_the_checks_of_run_rehearsed)
{
    char dir[] = "/var/lib/husk-extras-XXXXXX";
    char path[PATH_MAX];
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec = fixture_spec("mine", HUSK_SCRIPT, "import math\n[x for x in (1, 2)]");
    struct husk_error e;

    fixture_template_dir(dir);
    CHECK_INT(str_format(path, sizeof(path), "%s/mine.template", dir), 0);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    CHECK(fputs("language = python\nruntime = /usr/bin/python3\nwarm = rehearse()\n", file) >= 0);
    CHECK_INT(fclose(file), 0);
    CHECK_OK(husk_open(NULL, &engine, &e), &e);
    CHECK_OK(husk_pool_set(engine, "mine", NULL, 1, 1, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "mine", 1, &e), &e);
    spec.auto_print = true;
    spec.policy = HUSK_POLICY_PYRUNNER;
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
    CHECK(r->receipt.warm);
    CHECK_STR(r->out, "[1, 2]\n"); /* and nothing of the rehearsal */
    CHECK_OK(husk_pool_wait(engine, "mine", 1, &e), &e);
    struct husk_spec plain = fixture_spec("mine", HUSK_CELL, "'x' in globals()");
    AUTO_RESULT struct husk_result *clean = fixture_run(engine, &plain);
    CHECK_STR(clean->value, "False");
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(dir), 0);
}
