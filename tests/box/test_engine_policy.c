/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy of /run: which code is refused, in which words, and that nothing of it has run. The
 * rules are in runtimes/python/policy.py.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "engine_fixture.h"
#include "tap.h"

static struct husk_result *judge(struct husk_engine *engine, enum husk_kind kind, const char *code)
{
    struct husk_spec spec = fixture_spec("python", kind, code);

    spec.policy = HUSK_POLICY_PYRUNNER;
    return fixture_run(engine, &spec);
}

/* Refused with these words, and without a trace of having run. */
static void check_refused(struct husk_engine *engine, const char *code, const char *why)
{
    CASE("%s", code);
    AUTO_RESULT struct husk_result *r = judge(engine, HUSK_SCRIPT, code);
    CHECK_STR(r->error.message, why);
    CHECK_STR(r->error.type, "PolicyViolation");
    CHECK_STR(r->error.traceback, NULL);
    CHECK_END(r, "failed exit 1");
    CHECK_STR(r->out, "");
    CHECK_STR(r->err, "");
}

TEST(denied_modules_are_refused)
{
    static const char *const names[] = {
        "os",         "subprocess", "sys",       "importlib", "eval",      "exec",    "compile",
        "__import__", "open",       "file",      "input",     "raw_input", "socket",  "urllib",
        "httplib",    "ftplib",     "telnetlib", "pickle",    "cPickle",   "marshal", "shelve",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char code[100];
        char why[100];
        CHECK_INT(str_format(code, sizeof(code), "print('ran')\nimport %s.x as y", names[i]), 0);
        CHECK_INT(str_format(why, sizeof(why), "Import of '%s' is not allowed", names[i]), 0);
        check_refused(engine, code, why);
        CHECK_INT(str_format(code, sizeof(code), "from %s import x", names[i]), 0);
        CHECK_INT(str_format(why, sizeof(why), "Import from '%s' is not allowed", names[i]), 0);
        check_refused(engine, code, why);
    }
}

TEST(modules_that_nobody_allowed_are_refused)
{
    static const char *const names[] = {
        "requests", "time",   "threading", "multiprocessing",  "typing",  "dataclasses", "hashlib",
        "builtins", "ctypes", "_io",       "_posixsubprocess", "__main__"};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char code[100];
        char why[100];
        CHECK_INT(str_format(code, sizeof(code), "import %s", names[i]), 0);
        CHECK_INT(
            str_format(why, sizeof(why), "Import of '%s' is not in the allowed list", names[i]), 0);
        check_refused(engine, code, why);
        CHECK_INT(str_format(code, sizeof(code), "from %s import *", names[i]), 0);
        CHECK_INT(
            str_format(why, sizeof(why), "Import from '%s' is not in the allowed list", names[i]),
            0);
        check_refused(engine, code, why);
    }
}

TEST(every_allowed_module_of_the_standard_library_works)
{
    static const char code[] =
        "import math, cmath, decimal, fractions, random, statistics, itertools, functools\n"
        "import operator, collections, heapq, bisect, array, datetime, calendar, copy, pprint\n"
        "import re, string, textwrap, unicodedata, json, csv\n"
        "import collections.abc\n"
        "from math import *\n"
        "from collections import Counter as C, deque\n"
        "from io import (StringIO, BytesIO, TextIOWrapper, BufferedReader, BufferedWriter,\n"
        "    BufferedRWPair, BufferedRandom, IOBase, RawIOBase, BufferedIOBase, TextIOBase,\n"
        "    DEFAULT_BUFFER_SIZE, SEEK_SET, SEEK_CUR, SEEK_END, UnsupportedOperation,\n"
        "    BlockingIOError, IncrementalNewlineDecoder)\n"
        "print(C('aab'), StringIO('s').read())\n";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *r = judge(engine, HUSK_SCRIPT, code);

    CHECK_STR(r->error.message, NULL);
    CHECK_STR(r->out, "Counter({'a': 2, 'b': 1}) s\n");
}

TEST(libraries_of_the_scientific_stack_may_be_named)
{
    static const char *const names[] = {"numpy",      "sympy", "pandas",
                                        "matplotlib", "scipy", "sklearn"};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char code[100];
        CHECK_INT(str_format(code, sizeof(code), "def f():\n    import %s.x as y\nprint('ran')",
                             names[i]),
                  0);
        CASE("%s", names[i]);
        AUTO_RESULT struct husk_result *r = judge(engine, HUSK_SCRIPT, code);
        CHECK_STR(r->out, "ran\n");
    }
}

TEST(calls_are_refused)
{
    static const char *const names[] = {
        "eval",    "exec",      "compile",  "__import__", "open",       "file",
        "input",   "raw_input", "execfile", "reload",     "getattr",    "setattr",
        "delattr", "vars",      "globals",  "locals",     "breakpoint",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char code[100];
        char why[100];
        CHECK_INT(str_format(code, sizeof(code), "print('ran')\nx = [%s('a')]", names[i]), 0);
        CHECK_INT(str_format(why, sizeof(why), "Call to '%s' is not allowed", names[i]), 0);
        check_refused(engine, code, why);
    }
}

TEST(attributes_are_refused)
{
    static const char *const names[] = {
        "__globals__",
        "__code__",
        "__class__",
        "__bases__",
        "__subclasses__",
        "__base__",
        "__mro__",
        "__dict__",
        "__getattribute__",
        "__builtins__",
        "__self__",
        "__func__",
        "__closure__",
        "__loader__",
        "__reduce_ex__",
        "__module__",
        "__traceback__",
        "__getattr__",
        "gi_frame",
        "f_globals",
        "f_builtins",
        "tb_frame",
        "cr_frame",
        "os",
        "_os",
        "sys",
        "_sys",
        "subprocess",
        "builtins",
        "importlib",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char code[100];
        char why[100];
        CHECK_INT(str_format(code, sizeof(code), "print('ran')\nprint([x.%s])", names[i]), 0);
        CHECK_INT(str_format(why, sizeof(why), "Access to '%s' attribute is not allowed", names[i]),
                  0);
        check_refused(engine, code, why);
    }
}

struct row {
    const char *code;
    const char *why;
};

static void check_rows(const struct row *rows, size_t n)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < n; i++) {
        check_refused(engine, rows[i].code, rows[i].why);
    }
}

TEST(other_names_for_a_function_are_refused)
{
    static const struct row rows[] = {
        /* other names for the same thing */
        {"f = eval\nf('1')", "Call to 'eval' is not allowed"},
        {"(lambda f: f('1'))(eval)", "Call to 'eval' is not allowed"},
        {"[eval][0]('1')", "Call to 'eval' is not allowed"},
        {"list(map(eval, ['1']))", "Call to 'eval' is not allowed"},
        {"def f(g=exec): g('1')\nf()", "Call to 'exec' is not allowed"},
        {"class A:\n    run = staticmethod(exec)", "Call to 'exec' is not allowed"},
        {"@eval\ndef f(): pass", "Call to 'eval' is not allowed"},
        {"(f := open)", "Call to 'open' is not allowed"},
        {"for f in (eval, exec): f('1')", "Call to 'eval' is not allowed"},
        {"{'a': getattr}['a'](1, 'real')", "Call to 'getattr' is not allowed"},
        {"if 0: eval = 1\neval('1')", "Call to 'eval' is not allowed"},
        {"f'{eval(\"1\")}'", "Call to 'eval' is not allowed"},
        {"f'{1:{eval(\"1\")}}'", "Call to 'eval' is not allowed"},
        {"\xef\xbd\x85\xef\xbd\x96\xef\xbd\x81\xef\xbd\x8c('1')", "Call to 'eval' is not allowed"},
        {"eval\\\n('1')", "Call to 'eval' is not allowed"},
        {"[x for x in [1] if eval('1')]", "Call to 'eval' is not allowed"},
        {"async def f():\n    await eval('1')", "Call to 'eval' is not allowed"},
        {"try: pass\nexcept eval: pass", "Call to 'eval' is not allowed"},
        {"assert eval('1')", "Call to 'eval' is not allowed"},
        {"print(file=open)", "Call to 'open' is not allowed"},
    };

    check_rows(rows, ARRAY_LEN(rows));
}

TEST(ways_into_the_interpreter_are_refused)
{
    static const struct row rows[] = {
        {"__builtins__['eval']('1')", "Access to '__builtins__' attribute is not allowed"},
        {"__builtins__.eval('1')", "Access to '__builtins__' attribute is not allowed"},
        {"b = __builtins__", "Access to '__builtins__' attribute is not allowed"},
        {"vars()['__builtins__']", "Call to 'vars' is not allowed"},
        {"g = globals\ng()", "Call to 'globals' is not allowed"},
        {"print.__self__.eval('1')", "Access to '__self__' attribute is not allowed"},
        {"import math\nmath.__dict__", "Access to '__dict__' attribute is not allowed"},
        {"import math\nmath.__loader__", "Access to '__loader__' attribute is not allowed"},
        {"import math\nmath.__spec__.loader", "Access to '__spec__' attribute is not allowed"},
        {"__loader__", "Access to '__loader__' attribute is not allowed"},
        {"__spec__", "Access to '__spec__' attribute is not allowed"},
        {"__build_class__", "Access to '__build_class__' attribute is not allowed"},
        {"class A:\n    def f(self): return __class__",
         "Access to '__class__' attribute is not allowed"},
        /* from any object to all classes */
        {"().__class__.__bases__[0].__subclasses__()",
         "Access to '__subclasses__' attribute is not allowed"},
        {"''.__class__", "Access to '__class__' attribute is not allowed"},
        {"int.__mro__", "Access to '__mro__' attribute is not allowed"},
        {"object.__getattribute__(1, 'real')",
         "Access to '__getattribute__' attribute is not allowed"},
        {"class A:\n    def f(self): super().__getattribute__('x')",
         "Access to '__getattribute__' attribute is not allowed"},
        {"(lambda: 0).__globals__", "Access to '__globals__' attribute is not allowed"},
        {"(lambda: 0).__code__ = 1", "Access to '__code__' attribute is not allowed"},
        {"del x.__class__", "Access to '__class__' attribute is not allowed"},
        {"x.__class__ += 1", "Access to '__class__' attribute is not allowed"},
        {"(i for i in ()).gi_frame.f_back", "Access to 'f_back' attribute is not allowed"},
        {"try: 1/0\nexcept Exception as e: e.__traceback__.tb_frame",
         "Access to 'tb_frame' attribute is not allowed"},
        {"match 1:\n    case object(__class__=c): pass",
         "Access to '__class__' attribute is not allowed"},
    };

    check_rows(rows, ARRAY_LEN(rows));
}

TEST(names_and_code_in_strings_are_refused)
{
    static const struct row rows[] = {
        {"import operator\noperator.attrgetter('__class__')(1)",
         "Access to '__class__' attribute is not allowed"},
        {"import operator\noperator.attrgetter('real.__class__.__mro__')(1)",
         "Access to '__class__' attribute is not allowed"},
        {"import operator\noperator.methodcaller('__reduce_ex__', 2)",
         "Access to '__reduce_ex__' attribute is not allowed"},
        {"import string\nstring.Formatter().get_field('0.__class__', (1,), {})",
         "Access to '__class__' attribute is not allowed"},
        {"a = '__cl' 'ass__'", "Access to '__class__' attribute is not allowed"},
        {"a = '\\x5f\\x5fglobals\\x5f\\x5f'", "Access to '__globals__' attribute is not allowed"},
        {"class P:\n    __match_args__ = ('__class__',)",
         "Access to '__class__' attribute is not allowed"},
        {"a = b'__builtins__'", "Access to '__builtins__' attribute is not allowed"},
        /* code in annotations */
        {"def f(x: '__import__(\"os\")'): pass", "Call to '__import__' is not allowed"},
        {"def f() -> 'eval(\"1\")': pass", "Call to 'eval' is not allowed"},
        {"x: \"'eval(1)'\" = 1", "Call to 'eval' is not allowed"},
        {"def f(*a: list['exec(1)']): pass", "Call to 'exec' is not allowed"},
        {"def f(x: eval('1')): pass", "Call to 'eval' is not allowed"},
    };

    check_rows(rows, ARRAY_LEN(rows));
}

TEST(ways_to_import_are_refused)
{
    static const struct row rows[] = {
        {"def f():\n    import os", "Import of 'os' is not allowed"},
        {"class A:\n    import os as x", "Import of 'os' is not allowed"},
        {"import math, os", "Import of 'os' is not allowed"},
        {"import os.path as math", "Import of 'os' is not allowed"},
        {"try:\n    import os\nexcept: pass", "Import of 'os' is not allowed"},
        {"if 1: from os import system as print", "Import from 'os' is not allowed"},
        {"from . import x", "Import from '.' is not allowed"},
        {"from .os import x", "Import from '.os' is not allowed"},
        {"from ..math import x", "Import from '..math' is not allowed"},
        {"import _posix", "Import of '_posix' is not in the allowed list"},
        {"from _io import open", "Import from '_io' is not in the allowed list"},
        {"import __future__", "Import of '__future__' is not in the allowed list"},
        {"from random import _os", "Import of '_os' from 'random' is not allowed"},
        {"from numpy import os", "Import of 'os' from 'numpy' is not allowed"},
        {"from json import __builtins__ as b",
         "Import of '__builtins__' from 'json' is not allowed"},
        {"import matplotlib.os", "Import of 'matplotlib.os' is not allowed"},
        {"import random\nrandom._os.system('id')", "Access to '_os' attribute is not allowed"},
        {"import statistics\nstatistics.sys.modules", "Access to 'sys' attribute is not allowed"},
        {"import io",
         "Direct import of 'io' is not allowed. Use 'from io import specific_item' instead"},
        {"import io.x as y",
         "Direct import of 'io' is not allowed. Use 'from io import specific_item' instead"},
        {"from io import *", "Wildcard import from 'io' is not allowed"},
        {"from io import open", "Import of 'open' from 'io' is not allowed"},
        {"from io import StringIO, FileIO", "Import of 'FileIO' from 'io' is not allowed"},
        {"from io import open_code as f", "Import of 'open_code' from 'io' is not allowed"},
        /* the first in the order of the source is told */
        {"def f():\n    import os\neval('1')", "Import of 'os' is not allowed"},
        {"eval('1')\nimport os", "Call to 'eval' is not allowed"},
        {"getattr(x.__class__, 'y')", "Call to 'getattr' is not allowed"},
    };

    check_rows(rows, ARRAY_LEN(rows));
}

TEST(tricks_with_the_text_lead_nowhere)
{
    static const char *const codes[] = {
        "ev\\\nal('1')",                       /* two names, and no such function */
        "# coding: utf-7\n+AGUAdgBhAGw-('1')", /* text is UTF-8 whatever it says */
        "# coding=utf-7\n+AGUAdgBhAGw-(str(1))",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = judge(engine, HUSK_SCRIPT, codes[i]);
        CHECK(r->error.type != NULL);
        CHECK_END(r, "failed exit 1");
    }
}

TEST(what_is_no_python_is_a_syntax_error)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    const size_t deep = 200000;
    AUTO_FREE char *nested = calloc(1, deep + 2);

    CHECK(nested != NULL);
    check_refused(engine, "print('ran')\nif x", "Syntax error: expected ':' (<cell>, line 2)");
    check_refused(engine, " 1", "Syntax error: unexpected indent (<cell>, line 1)");
    memset(nested, '-', deep);
    nested[deep] = '1';
    AUTO_RESULT struct husk_result *r = judge(engine, HUSK_SCRIPT, nested);
    CHECK_HAS(r->error.message, "Syntax error: ");
    CHECK_STR(r->error.type, "PolicyViolation");

    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "a");
    spec.code = "print('ran')\0import os";
    spec.code_len = 22;
    spec.policy = HUSK_POLICY_PYRUNNER;
    AUTO_RESULT struct husk_result *with_nul = fixture_run(engine, &spec);
    CHECK_STR(with_nul->error.message,
              "Syntax error: source code string cannot contain null bytes");
    CHECK_STR(with_nul->out, "");
}

TEST(honest_code_is_not_bothered)
{
    static const char *const codes[] = {
        "",
        "   \n\t\n",
        "from __future__ import annotations\nprint(1)",
        "if __name__ == '__main__': print(1)",
        "import re\nre.compile('a').match('a').group()",
        "class A:\n    def __init__(self): self.x = 1\n"
        "class B(A):\n    def __init__(self): super().__init__()\nB().x",
        "class V:\n    __slots__ = ('a',)\n    def __eq__(self, o): return True\nV() == V()",
        "print('__class__ is an attribute of every object')",
        "def f():\n    \"\"\"Looks at self.__class__ and more.\"\"\"\nf()",
        "x = {'__type__': 1}\nx['__type__']",
        "sys = 1\nos = sys + 1\nprint(os)",
        "def evaluate(x: 'int') -> 'list[int]': return [x]\nevaluate(1)",
        "import math as m\nm.__name__, m.sqrt.__doc__, type(m)",
        "a = b = 2\nprint(f'{a!r:>10}', sorted([b, a]), isinstance(a, int), hasattr(a, 'real'))",
        "import functools\n@functools.lru_cache\ndef fib(n): return n if n < 2 else fib(n-1) + "
        "fib(n-2)\n"
        "fib(20)",
        "_x, __y = 1, 2\nprint(_x, __y)",
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        CASE("%s", codes[i]);
        AUTO_RESULT struct husk_result *r = judge(engine, HUSK_SCRIPT, codes[i]);
        CHECK_STR(r->error.message, NULL);
        CHECK_END(r, "completed exit 0");
    }
}
