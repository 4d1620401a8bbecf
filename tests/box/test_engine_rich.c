/* SPDX-License-Identifier: Apache-2.0 */
/* What a Python run can show besides text: values in all their forms, figures, tables. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "tap.h"

static struct husk_result *show(struct husk_engine *engine, enum husk_kind kind, const char *code)
{
    struct husk_spec spec = fixture_spec("python", kind, code);

    spec.rich = true;
    return fixture_run(engine, &spec);
}

static struct husk_result *show_in(struct husk_session *s, const char *code, uint64_t timeout_ms)
{
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, code);
    struct husk_result *r = NULL;
    struct husk_error e;

    spec.rich = true;
    spec.limits.timeout_ms = timeout_ms;
    CHECK_OK(husk_session_run(s, 0, &spec, &r, &e), &e);
    return r;
}

/* All displays on one line: "text/plain=1 text/html=<b>; text/plain=2". */
static char *told(const struct husk_result *r)
{
    struct buf b = BUF_INIT(MIB);

    CHECK_INT(buf_add_str(&b, ""), 0);
    for (size_t i = 0; i < r->n_displays; i++) {
        for (size_t j = 0; j < r->displays[i].n_forms; j++) {
            const struct husk_mime *m = &r->displays[i].forms[j];
            CHECK_INT(strlen(m->data) <= m->len, 1);
            CHECK_INT(buf_printf(&b, "%s%s=%s",
                                 j > 0   ? " "
                                 : i > 0 ? "; "
                                         : "",
                                 m->type, m->data),
                      0);
        }
    }
    return b.data != NULL ? b.data : strdup("");
}

static const struct husk_mime *form(const struct husk_result *r, size_t display, const char *type)
{
    for (size_t i = 0; display < r->n_displays && i < r->displays[display].n_forms; i++) {
        if (strcmp(r->displays[display].forms[i].type, type) == 0) {
            return &r->displays[display].forms[i];
        }
    }
    return NULL;
}

static bool is_png(const struct husk_mime *m)
{
    return m != NULL && m->len > 100 && memcmp(m->data, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static void need_module(struct husk_engine *engine, const char *name)
{
    char code[100];

    CHECK_INT(str_format(code, sizeof(code), "import %s", name), 0);
    AUTO_RESULT struct husk_result *r = fixture_script(engine, code);
    if (r->status != HUSK_COMPLETED) {
        SKIP("this machine's Python has no %s", name);
    }
}

#define CLASS(method, answer)                                                                      \
    "class A:\n    def __repr__(self): return 'A'\n    def " method ": return " answer "\nA()"

TEST(a_value_is_shown_in_all_its_forms)
{
    static const struct {
        const char *code;
        const char *want;
    } rows[] = {
        {"1 + 1", "text/plain=2"},
        {"x = 1", ""},
        {"None", ""},
        {"display(1, 'a')\ndisplay(2)\n3",
         "text/plain=1; text/plain='a'; text/plain=2; text/plain=3"},
        {"display()", ""},
        {CLASS("_repr_html_(self)", "'<b>'"), "text/plain=A text/html=<b>"},
        {CLASS("_repr_svg_(self)", "'<svg/>'"), "text/plain=A image/svg+xml=<svg/>"},
        {CLASS("_repr_png_(self)", "b'png'"), "text/plain=A image/png=png"},
        {CLASS("_repr_png_(self)", "'cG5n'"), "text/plain=A image/png=png"},
        {CLASS("_repr_jpeg_(self)", "bytearray(b'jpeg')"), "text/plain=A image/jpeg=jpeg"},
        {CLASS("_repr_latex_(self)", "'$x$'"), "text/plain=A text/latex=$x$"},
        {CLASS("_repr_markdown_(self)", "('*x*', {'meta': 1})"), "text/plain=A text/markdown=*x*"},
        {CLASS("_repr_json_(self)", "{'a': [1, float('nan')]}"),
         "text/plain=A application/json={\"a\": [1, null]}"},
        {CLASS("_repr_json_(self)", "'[1]'"), "text/plain=A application/json=[1]"},
        {CLASS("_repr_json_(self)", "'no json'"), "text/plain=A application/json=\"no json\""},
        {CLASS("_repr_html_(self)", "None"), "text/plain=A"},
        {CLASS("_repr_mimebundle_(self, include, exclude)",
               "{'text/plain': 'other', 'Text/X-Mine': 'm', 'text/html': 'h'}"),
         "text/plain=other text/x-mine=m text/html=h"},
        {CLASS("_repr_mimebundle_(self, **_)", "({'application/vnd.a.v1+json': {'b': 1}}, {})"),
         "text/plain=A application/vnd.a.v1+json={\"b\": 1}"},
        {CLASS("_repr_html_(self)", "'h'") "; A", "text/plain=<class '__main__.A'>"},
        {"display({'text/html': '<i>', 'text/plain': 'i'}, raw=True)",
         "text/html=<i> text/plain=i"},
    };
    static const enum husk_kind kinds[] = {HUSK_CELL, HUSK_SCRIPT};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(kinds); i++) {
        CASE("%s", rows[i / 2].code);
        AUTO_RESULT struct husk_result *r = show(engine, kinds[i % 2], rows[i / 2].code);
        AUTO_FREE char *got = told(r);
        CHECK_STR(got, rows[i / 2].want);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->err, "");
        CHECK(!r->displays_dropped);
    }
}

TEST(an_object_that_misbehaves_loses_one_form_at_most)
{
    static const struct {
        const char *code;
        const char *want;
        const char *said; /* on stderr */
    } rows[] = {
        {CLASS("_repr_html_(self)", "1 / 0"), "text/plain=A", "in _repr_html_"},
        {CLASS("_repr_html_(self)", "b'\\xff'"), "text/plain=A", "UnicodeDecodeError"},
        {CLASS("_repr_html_(self)", "'\\ud800'"), "text/plain=A text/html=\\ud800", ""},
        {"class T(str):\n    def encode(self, *_): return 5\n" CLASS("_repr_html_(self)",
                                                                     "T('<b>')"),
         "text/plain=A text/html=<b>", ""},
        {CLASS("_repr_png_(self)", "'?'"), "text/plain=A image/png=", ""},
        {CLASS("_repr_png_(self)", "'a'"), "text/plain=A", "binascii.Error"},
        {CLASS("_repr_json_(self)", "{1, 2}"), "text/plain=A", "TypeError"},
        {CLASS("_repr_html_(self)", "3.5"), "text/plain=A", "TypeError"},
        {CLASS("_repr_html_(self, a, b)", "''"), "text/plain=A", "TypeError"},
        {CLASS("_repr_mimebundle_(self, **_)",
               "{'x': 'y', 5: 'z', 'a b/c': 1, 'a/b/c': 1, '/': 1}"),
         "text/plain=A", ""},
        {CLASS("_repr_mimebundle_(self, **_)", "{'text/' + 'x' * 200: 'y', 't/\\u00e4': 'z'}"),
         "text/plain=A", ""},
        {CLASS("_repr_mimebundle_(self, **_)", "{f'a/{i}': '' for i in range(100)}.keys()"),
         "text/plain=A", ""},
        {CLASS("_repr_mimebundle_(self, **_)", "'nonsense'"), "text/plain=A", ""},
        {CLASS("__getattr__(self, name)", "lambda **_: 'yes'"), "text/plain=A", ""},
        {"class A:\n    _repr_html_ = 5\n    def __repr__(self): return 'A'\nA()", "text/plain=A",
         ""},
        {"class A:\n    def __repr__(self): return 'A'\n    @property\n    def _repr_html_(self): "
         "1/0\nA()",
         "text/plain=A", "ZeroDivisionError"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = show(engine, HUSK_CELL, rows[i].code);
        AUTO_FREE char *got = told(r);
        CHECK_STR(got, rows[i].want);
        CHECK_END(r, "completed exit 0");
        CHECK_HAS(r->err, rows[i].said);
        CHECK((r->err[0] == '\0') == (rows[i].said[0] == '\0'));
        CHECK(strstr(r->err, "displays.py") == NULL);
    }
}

TEST(a_value_that_cannot_be_shown_at_all_fails_the_cell)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *value =
        show(engine, HUSK_CELL, "class A:\n    def __repr__(self): 1 / 0\ndisplay(5)\nA()");
    AUTO_RESULT struct husk_result *raw =
        show(engine, HUSK_CELL, "display({'not a type': 1}, raw=True)");
    AUTO_FREE char *got = told(value);

    CHECK_STR(value->error.type, "ZeroDivisionError");
    CHECK_STR(got, "text/plain=5"); /* what came before stays */
    CHECK_STR(raw->error.type, "ValueError");
}

TEST(displays_have_limits_and_say_when_they_are_hit)
{
    static const struct {
        const char *code;
        size_t kept;
        bool dropped;
    } rows[] = {
        {"for i in range(64): display(i)", 64, false},
        {"for i in range(65): display(i)", 64, true},
        {"for i in range(5000): display(i)", 64, true},
        {"for i in range(5): display({'a/b': b'x' * (4 << 20)}, raw=True)", 4, true},
        {"display({'a/b': b'x' * (16 << 20)}, raw=True)", 1, false},
        {"display({'a/b': b'x' * (16 << 20), 'a/c': b'x'}, raw=True); display(1)", 1, true},
        {"display({'a/b': b'x' * (100 << 20)}, raw=True); display(1); display(2)", 2, true},
        {"display({f'a/{i}': 'x' for i in range(100)}, raw=True)", 1, false},
        {"display('\\u00e4' * (1 << 20))", 1, false}, /* cut between two characters */
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = show(engine, HUSK_SCRIPT, rows[i].code);
        CHECK_END(r, "completed exit 0");
        CHECK_INT(r->n_displays, rows[i].kept);
        CHECK_INT(r->displays_dropped, rows[i].dropped);
    }
}

TEST(threads_and_forks_keep_the_order_of_frames)
{
    static const char code[] = "import os, threading\n"
                               "ts = [threading.Thread(target=lambda: [display(i) for i in "
                               "range(40)]) for _ in range(4)]\n"
                               "for t in ts: t.start()\n"
                               "for t in ts: t.join()\n"
                               "if os.fork() == 0:\n"
                               "    display('child')\n"
                               "    os._exit(0)\n"
                               "os.wait()\n";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r = show(engine, HUSK_SCRIPT, code);

    CHECK_END(r, "completed exit 0");
    CHECK_INT(r->n_displays, 64);
    CHECK(r->displays_dropped);
    CHECK_STR(r->out, "'child'\n"); /* a process that may not display prints */
}

TEST(nothing_is_shown_unless_asked_for)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *plain = fixture_cell(engine, "display(1)");
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_RESULT struct husk_result *rich = show_in(s, "def f(): display(7)\nf()", 0);
    AUTO_RESULT struct husk_result *after = fixture_in(s, 0, 0, "f()");

    CHECK_STR(plain->error.type, "NameError");
    CHECK_INT(rich->n_displays, 1);
    CHECK_END(after, "completed exit 0");
    CHECK_INT(after->n_displays, 0);
    CHECK_STR(after->out, "7\n");
}

TEST_TIMEOUT(figures_are_shown_without_being_asked, 120)
{
    static const struct {
        const char *code;
        const char *forms; /* p: text/plain only, i: with image/png */
    } rows[] = {
        {"plt.plot([1, 2]); None", "i"},
        {"plt.plot([1, 2]); plt.show(); display(1)", "ip"},
        {"plt.figure(); plt.plot([1]); plt.figure(); plt.plot([2]); None", "ii"},
        {"f = plt.figure(); plt.plot([1]); f", "i"},
        {"f = plt.figure(); plt.plot([1]); display(f)", "i"},
        {"plt.show()", ""},
        {"plt.figure(); None", "p"},
        {"from matplotlib.figure import Figure\nf = Figure(); f.subplots().plot([1]); f", "i"},
        {"plt.plot([1]); plt.close(); None", ""},
        {"plt.plot([1]); 1 / 0", "i"},
        {"plt.plot([1]); raise SystemExit(0)", "i"},
        {"import matplotlib\nmatplotlib.use('svg')\nplt.plot([1]); None", "i"},
        {"assert not plt.get_fignums()", ""},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    need_module(engine, "matplotlib.pyplot");
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_RESULT struct husk_result *first = show_in(s, "import matplotlib.pyplot as plt", 0);

    CHECK_END(first, "completed exit 0");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = show_in(s, rows[i].code, 0);
        CHECK_STR(r->err, "");
        CHECK_INT(r->n_displays, strlen(rows[i].forms));
        for (size_t j = 0; j < r->n_displays; j++) {
            CHECK(form(r, j, "text/plain") != NULL);
            CHECK_INT(is_png(form(r, j, "image/png")), rows[i].forms[j] == 'i');
        }
    }
}

TEST_TIMEOUT(figures_of_a_warm_template_are_shown, 120)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    need_module(engine, "pandas, scipy, sklearn, sympy, matplotlib.pyplot");
    struct husk_spec spec =
        fixture_spec("python-datascience", HUSK_SCRIPT,
                     "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nprint('after')");
    AUTO_RESULT struct husk_result *plain = fixture_run(engine, &spec);
    AUTO_RESULT struct husk_result *rich = NULL;

    CHECK_STR(plain->out, "after\n");
    spec.rich = true;
    rich = fixture_run(engine, &spec);
    CHECK_STR(rich->out, "after\n");
    CHECK_STR(rich->err, "");
    CHECK_INT(rich->n_displays, 1);
    CHECK(is_png(form(rich, 0, "image/png")));
}

TEST_TIMEOUT(a_data_frame_is_a_table, 60)
{
    static const char code[] = "import pandas as pd, json\n"
                               "display(pd.DataFrame({'a': [1, None], 'b': ['x', 'y'], 3: "
                               "pd.to_datetime(['2020', '2021'])}))\n"
                               "display(pd.DataFrame({'n': range(2500)}))\n"
                               "pd.DataFrame({'o': [{1, 2}]})\n";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    need_module(engine, "pandas");
    AUTO_RESULT struct husk_result *r = show(engine, HUSK_CELL, code);

    CHECK_END(r, "completed exit 0");
    CHECK_STR(r->err, "");
    CHECK_INT(r->n_displays, 3);
    CHECK(form(r, 0, "text/html") != NULL);
    CHECK_STR(form(r, 0, "application/vnd.husk.table+json")->data,
              "{\"columns\": [\"a\", \"b\", \"3\"], "
              "\"dtypes\": [\"float64\", \"object\", \"datetime64[ns]\"], "
              "\"rows\": [[1.0, \"x\", \"2020-01-01T00:00:00.000\"], "
              "[null, \"y\", \"2021-01-01T00:00:00.000\"]], \"total_rows\": 2}");
    const char *large = form(r, 1, "application/vnd.husk.table+json")->data;
    CHECK_HAS(large, "[999]], \"total_rows\": 2500}");
    CHECK(strstr(large, "[1000]") == NULL);
    CHECK(form(r, 2, "application/vnd.husk.table+json") != NULL);
}

TEST(an_interrupted_display_leaves_the_session_usable)
{
    static const char *const codes[] = {
        "import time\nclass A:\n    def _repr_html_(self): time.sleep(30)\nx = 5\ndisplay(A())",
        "import time\nclass B:\n    def __repr__(self): time.sleep(30)\nx = 5\nB()",
        "x = 5\nwhile True: display({'a/b': b'x' * 100000}, raw=True)",
        "x = 5\nwhile True: display(1)",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = show_in(s, codes[i], 300);
        CHECK_INT(r->status, HUSK_TIMEOUT);
        AUTO_RESULT struct husk_result *next = show_in(s, "display(x)\nx + 1", 0);
        AUTO_FREE char *got = told(next);
        CHECK_STR(got, "text/plain=5; text/plain=6");
    }
}

TEST(a_thread_that_displays_between_cells_does_no_harm)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_RESULT struct husk_result *r =
        show_in(s,
                "import threading, time\n"
                "def f():\n"
                "    while True: display('late'); time.sleep(0.001)\n"
                "threading.Thread(target=f, daemon=True).start()",
                0);

    CHECK_END(r, "completed exit 0");
    for (int i = 0; i < 30; i++) {
        AUTO_RESULT struct husk_result *next = show_in(s, "time.sleep(0.003)\n41 + 1", 0);
        CHECK_END(next, "completed exit 0");
        CHECK_STR(next->value, "42");
    }
}
