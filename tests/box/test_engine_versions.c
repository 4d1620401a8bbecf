/* SPDX-License-Identifier: Apache-2.0 */
/* Every CPython on this machine, and a virtual environment, as a template. */
#include <glob.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "engine_fixture.h"
#include "tap.h"

extern char **environ;

/* The user's templates in these tests. Not below /tmp, of which a box has its own. */
static char dir[] = "/var/lib/husk-versions-XXXXXX";

static void remove_tree(const char *path)
{
    char *argv[] = {"/bin/rm", "-rf", (char *)path, NULL};
    int status;
    pid_t pid;

    CHECK_INT(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

/* Debian's, and those of a version manager. */
static void find_pythons(glob_t *ret)
{
    const char *home = getenv("HOME");
    char pattern[PATH_MAX];

    CHECK_INT(glob("/usr/bin/python3", 0, NULL, ret), 0);
    if (home != NULL) {
        CHECK_INT(str_format(pattern, sizeof(pattern), "%s/.pyenv/versions/*/bin/python3", home),
                  0);
        int r = glob(pattern, GLOB_APPEND, NULL, ret);
        CHECK(r == 0 || r == GLOB_NOMATCH);
    }
}

/* ".../3.12.1/bin/python3" is 12; 0: not said in the path. */
static unsigned minor_of(const char *path)
{
    unsigned minor = 0;
    const char *at = strstr(path, "/3.");

    if (at != NULL) {
        minor = (unsigned)strtoul(at + 3, NULL, 10);
    }
    return minor;
}

/* Two boxes of a pool: both must be of that interpreter and work like any other. */
static void check_template(const char *name, unsigned minor)
{
    static const char code[] = "import asyncio, ctypes, json, sys, threading, uuid\n"
                               "t = threading.Thread(target=print, args=('thread',))\n"
                               "t.start(); t.join()\n"
                               "[sys.version_info[1], json.dumps([1]), len(str(uuid.uuid4()))]\n";
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec = fixture_spec(name, HUSK_CELL, code);
    struct husk_error e;

    CHECK_OK(husk_open(NULL, &engine, &e), &e);
    CHECK_OK(husk_pool_set(engine, name, NULL, 2, 2, &e), &e);
    for (int i = 0; i < 2; i++) {
        char want[64];
        CHECK_OK(husk_pool_wait(engine, name, 2, &e), &e);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "completed exit 0");
        CHECK(r->receipt.warm);
        CHECK_STR(r->out, "thread\n");
        CHECK_HAS(r->value, ", '[1]', 36]");
        if (minor != 0) {
            CHECK_INT(str_format(want, sizeof(want), "[%u, ", minor), 0);
            CHECK_HAS(r->value, want);
        }
    }
    struct husk_spec bad = fixture_spec(name, HUSK_SCRIPT, "def f():\n    1 / 0\nf()");
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &bad);
    CHECK_END(r, "failed exit 1");
    CHECK_HAS(r->error.traceback, "line 2, in f");
}

/* What the zygote has made is not counted, where CPython can do that; what a program makes is. */
static void check_immortals(const char *name, unsigned minor)
{
    static const char code[] =
        "import argparse as a, sys\n"
        "f = a.ArgumentParser.add_argument\n"
        "theirs = [a, a.__dict__, a.ArgumentParser, f, f.__code__, f.__code__.co_consts,\n"
        "          f.__code__.co_consts[-1], a.__file__, sys.modules]\n"
        "mine = [object(), 'x' * len(theirs), 1e9 + len(theirs), lambda: 1]\n"
        "print([sum(sys.getrefcount(o) > 1 << 31 for o in some) for some in (theirs, mine)])\n"
        "del a.ArgumentParser, sys.modules['argparse'], theirs, f, a\n"
        "import gc, argparse\n"
        "gc.collect()\n"
        "print(argparse.ArgumentParser('p').prog)\n";
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec = fixture_spec(name, HUSK_SCRIPT, code);
    struct husk_error e;

    CHECK_OK(husk_open(NULL, &engine, &e), &e);
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
    CHECK_END(r, "completed exit 0");
    if (minor != 0) { /* named by its version */
        bool can = minor == 12 || minor == 13;
        CHECK_STR(r->out, can ? "[9, 0]\np\n" : "[0, 0]\np\n");
    }
}

TEST_TIMEOUT(every_cpython_from_3_9_on_serves_a_pool, 120)
{
    glob_t pythons;
    struct husk_error e;
    size_t served = 0;

    fixture_template_dir(dir);
    find_pythons(&pythons);
    for (size_t i = 0; i < pythons.gl_pathc; i++) {
        char name[32];
        char path[PATH_MAX];
        unsigned minor = minor_of(pythons.gl_pathv[i]);
        CASE("%s", pythons.gl_pathv[i]);
        CHECK_INT(str_format(name, sizeof(name), "py-%zu", i), 0);
        int r = husk_template_add(name, pythons.gl_pathv[i], NULL, path, sizeof(path), &e);
        if (minor != 0 && minor < 9) {
            CHECK_INT(r, -1);
            CHECK_STR(e.type, "template_broken");
            CHECK_HAS(e.message, "3.9");
            continue;
        }
        CHECK_OK(r, &e);
        check_template(name, minor);
        check_immortals(name, minor);
        served++;
    }
    CHECK(served >= 1);
    globfree(&pythons);
    remove_tree(dir);
}

TEST(a_session_works_with_every_cpython)
{
    glob_t pythons;
    struct husk_error e;

    fixture_template_dir(dir);
    find_pythons(&pythons);
    for (size_t i = 0; i < pythons.gl_pathc; i++) {
        char path[PATH_MAX];
        char name[32];
        CASE("%s", pythons.gl_pathv[i]);
        CHECK_INT(str_format(name, sizeof(name), "py-%zu", i), 0);
        if (husk_template_add(name, pythons.gl_pathv[i], NULL, path, sizeof(path), &e) < 0) {
            CHECK_STR(e.type, "template_broken"); /* too old; see above */
            continue;
        }
        AUTO_ENGINE struct husk_engine *engine = NULL;
        AUTO_SESSION struct husk_session *s = NULL;
        struct husk_spec spec = {.template_name = name};
        uint32_t branch;
        CHECK_OK(husk_open(NULL, &engine, &e), &e);
        CHECK_OK(husk_session_open(engine, &spec, &s, &e), &e);
        CHECK_CELL(s, 0, "x = 41", NULL);
        CHECK_OK(husk_session_branch(s, 0, &branch, &e), &e);
        CHECK_CELL(s, branch, "x + 1", "42");
    }
    globfree(&pythons);
    remove_tree(dir);
}

TEST(a_virtual_environment_is_a_template)
{
    char venv[PATH_MAX];
    char path[PATH_MAX];
    char *argv[] = {"/usr/bin/python3", "-m", "venv", "--without-pip", venv, NULL};
    static const char *const preload[] = {"json", "decimal", NULL};
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec =
        fixture_spec("mine", HUSK_CELL, "import sys\n[sys.prefix, 'decimal' in sys.modules]");
    AUTO_RESULT struct husk_result *r = NULL;
    struct husk_error e;
    char want[PATH_MAX];
    int status;
    pid_t pid;

    fixture_template_dir(dir);
    CHECK_INT(str_format(venv, sizeof(venv), "%s/venv", dir), 0);
    CHECK_INT(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    CHECK_OK(husk_template_add("mine", venv, preload, path, sizeof(path), &e), &e);
    CHECK_OK(husk_open(NULL, &engine, &e), &e);
    r = fixture_run(engine, &spec);
    CHECK_INT(str_format(want, sizeof(want), "['%s', True]", venv), 0);
    CHECK_STR(r->value, want);
    CHECK_INT(husk_template_add("mine", venv, NULL, path, sizeof(path), &e), -1);
    CHECK_STR(e.type, "already_exists");
    remove_tree(dir);
}

TEST(what_is_no_python_is_no_template)
{
    static const struct {
        const char *name;
        const char *python;
        const char *type;
    } rows[] = {
        {"x", "/nonexistent", "not_found"},
        {"x", "/usr/include", "not_found"},
        {"x", "/usr/share", "not_found"}, /* Debian has a directory python3 there */
        {"x", "/bin/true", "template_broken"},
        {"x", "/bin/false", "template_broken"},
        {"x", "/etc/passwd", "system"},
        {"Bad Name", "/usr/bin/python3", "invalid_argument"},
        {"../x", "/usr/bin/python3", "invalid_argument"},
    };
    char path[PATH_MAX];
    struct husk_error e;

    fixture_template_dir(dir);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s %s", rows[i].name, rows[i].python);
        CHECK_INT(husk_template_add(rows[i].name, rows[i].python, NULL, path, sizeof(path), &e),
                  -1);
        CHECK_STR(e.type, rows[i].type);
    }
    CHECK_INT(rmdir(dir), 0); /* nothing was written */
}
