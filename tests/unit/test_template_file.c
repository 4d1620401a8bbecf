/* SPDX-License-Identifier: Apache-2.0 */
/* Template files: every key, and every mistake with the line that it is in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "core/template.h"
#include "core/template_fill.h"
#include "tap.h"
#include "wire/launcher_msg.h"

static int parse(const char *text, struct template_def *ret, struct err *e)
{
    return template_parse("mine", "mine.template", text, strlen(text), ret, e);
}

static struct template_def parsed(const char *text)
{
    struct template_def def;
    struct err e;

    if (parse(text, &def, &e) < 0) {
        tap_fail(__FILE__, __LINE__, "refused: %s", e.msg);
    }
    return def;
}

TEST(an_empty_file_is_a_python_template)
{
    static const char *const texts[] = {"",     "\n", "\n\n\n", "# nothing", "  # nothing\n\t\n",
                                        " \r\n"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct template_def def = parsed(texts[i]);
        CASE("text %zu", i);
        CHECK_STR(def.info.name, "mine");
        CHECK_STR(def.info.origin, "mine.template");
        CHECK_INT(def.info.language, HUSK_PYTHON);
        CHECK_STR(def.info.runtime, "/usr/bin/python3");
        CHECK(def.host_root);
        CHECK_STR(def.seccomp, "default");
        CHECK_STR(def.info.preload, "");
        CHECK_STR(def.info.missing, "");
        CHECK_INT(def.n_mounts + def.n_env, 0);
        CHECK_INT(def.info.limits.memory_bytes, 0); /* 0 is the engine's default */
    }
}

TEST(every_key_is_understood)
{
    struct template_def def = parsed("about = What it is for\n"
                                     "language = python\n"
                                     "runtime = /opt/py/bin/python3\n"
                                     "root = /srv/root\n"
                                     "preload = json  numpy.linalg _x1\n"
                                     "warm = import json; json.dumps(1)\n"
                                     "seccomp = strict\n"
                                     "mount = /opt/py\n"
                                     "mount = /srv/data  /data/in\n"
                                     "env = A=b\n"
                                     "env = PATH=/x:/y = z\n"
                                     "memory = 512M\n"
                                     "disk = 64M\n"
                                     "timeout = 1.5\n"
                                     "cpus = 0.5\n"
                                     "pids = 17\n");

    CHECK_STR(def.info.about, "What it is for");
    CHECK_STR(def.info.runtime, "/opt/py/bin/python3");
    CHECK(!def.host_root);
    CHECK_STR(def.root, "/srv/root");
    CHECK_STR(def.info.preload, "json  numpy.linalg _x1");
    CHECK_STR(def.warm, "import json; json.dumps(1)");
    CHECK_STR(def.seccomp, "strict");
    CHECK_INT(def.n_mounts, 2);
    CHECK_STR(def.mounts[0].host, "/opt/py");
    CHECK_STR(def.mounts[0].box, "/opt/py");
    CHECK_STR(def.mounts[1].host, "/srv/data");
    CHECK_STR(def.mounts[1].box, "/data/in");
    CHECK_INT(def.n_env, 2);
    CHECK_STR(def.env[0], "A=b");
    CHECK_STR(def.env[1], "PATH=/x:/y = z");
    CHECK_INT(def.info.limits.memory_bytes, 512 << 20);
    CHECK_INT(def.info.limits.disk_bytes, 64 << 20);
    CHECK_INT(def.info.limits.timeout_ms, 1500);
    CHECK_INT(def.info.limits.cpu_milli, 500);
    CHECK_INT(def.info.limits.pids, 17);
}

TEST(each_language_has_its_runtime)
{
    static const struct {
        const char *text;
        enum husk_language language;
        const char *runtime;
    } rows[] = {
        {"language = python", HUSK_PYTHON, "/usr/bin/python3"},
        {"language = shell", HUSK_SHELL, "/bin/bash"},
        {"language = javascript", HUSK_JAVASCRIPT, "/usr/bin/node"},
        {"runtime = /x\nlanguage = shell", HUSK_SHELL, "/x"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct template_def def = parsed(rows[i].text);
        CASE("%s", rows[i].text);
        CHECK_INT(def.info.language, rows[i].language);
        CHECK_STR(def.info.runtime, rows[i].runtime);
    }
}

TEST(white_space_around_keys_and_values_does_not_count)
{
    struct template_def def = parsed("\t about\t =  a  b \t\r\n  pids=3");

    CHECK_STR(def.info.about, "a  b");
    CHECK_INT(def.info.limits.pids, 3);
}

TEST(the_root_can_be_the_hosts_by_name)
{
    CHECK(parsed("root = host").host_root);
}

TEST(mistakes_are_told_with_their_line)
{
    static const struct {
        const char *text;
        const char *message;
    } rows[] = {
        {"nonsense", "mine.template, line 1: expected key = value"},
        {"\n# x\npids 3", "mine.template, line 3: expected key = value"},
        {"colour = red", "mine.template, line 1: unknown key \"colour\""},
        {"\n = 1", "mine.template, line 2: unknown key \"\""},
        {"a\x1b[2J = 1", "mine.template, line 1: unknown key \"a\\x1b[2J\""},
        {"pids = 3\npids = 4", "mine.template, line 2: pids: is given twice"},
        {"about = a\nabout = b", "mine.template, line 2: about: is given twice"},
        {"language = perl", "language: must be python, shell or javascript"},
        {"language =", "language: must be python, shell or javascript"},
        {"runtime = python3", "runtime: must be an absolute path inside the box"},
        {"runtime = /usr/../x", "runtime: must be an absolute path inside the box"},
        {"runtime =", "runtime: must be an absolute path inside the box"},
        {"root = srv", "root: must be \"host\" or the absolute path of a root file system"},
        {"preload = a;b", "preload: must be module names separated by spaces"},
        {"preload = --plain-fork", "preload: must be module names separated by spaces"},
        {"preload = a\tb", "preload: must be module names separated by spaces"},
        {"base = python", "mine.template, line 1: unknown key \"base\""},
        {"offers = a;b", "offers: must be module names separated by spaces"},
        {"env = HUSK_WRITABLE=/usr", "env: names that begin with HUSK_ are husk's own"},
        {"preload_memory = 1M", "preload_memory: must be 16M to 1024G"},
        {"preload_timeout = 0s", "preload_timeout: must be more than nothing and at most 1h"},
        {"preload_timeout = 61m", "preload_timeout: must be more than nothing and at most 1h"},
        {"max_pids = many", "max_pids: must be a whole number"},
        {"seccomp = ../x", "seccomp: must be the name of a profile"},
        {"seccomp =", "seccomp: must be the name of a profile"},
        {"mount = data", "mount: must be an absolute host path, then optionally its path inside"},
        {"mount =", "mount: must be an absolute host path, then optionally its path inside"},
        {"mount = /data data", "mount: the path inside must be absolute and plain"},
        {"mount = /data /a/../b", "mount: the path inside must be absolute and plain"},
        {"mount = /data/", "mount: the path inside must be absolute and plain"},
        {"mount = /", "mount: the path inside must be absolute and plain"},
        {"mount = /my data", "no path has blanks"},
        {"mount = /tmp/venv", "mount: a box has its own /tmp"},
        {"mount = /data /workspace", "mount: a box has its own /tmp, /workspace"},
        {"env = NOVALUE", "env: must be NAME=value"},
        {"env = =x", "env: must be NAME=value"},
        {"memory = much", "memory: must be a size such as 512M"},
        {"memory = -1", "memory: must be a size such as 512M"},
        {"disk = 1 M", "disk: must be a size such as 512M"},
        {"timeout = soon", "timeout: must be a duration such as 30s"},
        {"cpus = 1.2345", "cpus: must be a number such as 0.5"},
        {"cpus = 99999999999", "cpus: must be a number such as 0.5"},
        {"pids = 1.5", "pids: must be a whole number"},
        {"pids = 4294967296", "pids: must be a whole number"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct template_def def = {.seccomp = "untouched"};
        struct err e = {0};
        CASE("%s", rows[i].text);
        CHECK_INT(parse(rows[i].text, &def, &e), -1);
        CHECK_INT(e.code, ERR_INVALID);
        CHECK(str_starts(e.msg, "mine.template, line "));
        CHECK(strstr(e.msg, rows[i].message) != NULL);
        CHECK_STR(def.seccomp, "untouched");
    }
}

/* "key = aaa...": a value of n bytes. */
static void check_length(const char *key, const char *start, size_t fits)
{
    char text[4096];
    struct template_def def;
    struct err e;

    for (size_t extra = 0; extra < 2; extra++) {
        CHECK_INT(str_format(text, sizeof(text), "%s = %s", key, start), 0);
        size_t at = strlen(text);
        size_t n = fits + extra - strlen(start);
        memset(text + at, 'a', n);
        text[at + n] = '\0';
        CASE("%s of %zu bytes", key, fits + extra);
        CHECK_INT(parse(text, &def, &e), extra == 0 ? 0 : -1);
    }
}

TEST(values_have_their_greatest_length)
{
    check_length("about", "", 159);
    check_length("runtime", "/", 255);
    check_length("root", "/", 511);
    check_length("preload", "", 1023);
    check_length("warm", "", 511);
    check_length("seccomp", "", 31);
    check_length("mount", "/", 255); /* inside; the host's path may be longer */
    check_length("env", "A=", 255);
}

static void check_count(const char *line, size_t most)
{
    static char text[4096];
    struct template_def def;
    struct err e;

    text[0] = '\0';
    for (size_t i = 0; i <= most; i++) {
        size_t at = strlen(text);
        CASE("%zu times %s", i + 1, line);
        CHECK_INT(str_format(text + at, sizeof(text) - at, "%s\n", line), 0);
        CHECK_INT(parse(text, &def, &e), i < most ? 0 : -1);
    }
    CHECK(strstr(e.msg, "too many") != NULL);
}

TEST(lists_have_their_greatest_length)
{
    check_count("mount = /a", TEMPLATE_LIST_MAX);
    check_count("env = A=b", TEMPLATE_LIST_MAX);
}

TEST(lines_that_are_too_long_or_no_text_are_refused)
{
    static char text[2000];
    struct template_def def;
    struct err e;

    memset(text, '#', 1399);
    CHECK_INT(template_parse("mine", "f", text, 1399, &def, &e), 0);
    memset(text, '#', 1400);
    CHECK_INT(template_parse("mine", "f", text, 1400, &def, &e), -1);
    CHECK_STR(e.msg, "f, line 1: too long, or not UTF-8 text");
    CHECK_INT(template_parse("mine", "f", "\n# a\0b", 6, &def, &e), -1);
    CHECK_STR(e.msg, "f, line 2: too long, or not UTF-8 text");
    CHECK_INT(template_parse("mine", "f", "about = caf\xe9\n", 13, &def, &e), -1);
    CHECK_STR(e.msg, "f, line 1: too long, or not UTF-8 text");
}

TEST(the_text_ends_at_its_length)
{
    struct template_def def;
    struct err e;

    CHECK_INT(template_parse("mine", "f", "pids = 12345", 8, &def, &e), 0);
    CHECK_INT(def.info.limits.pids, 1);
}

TEST(names_are_checked)
{
    static const char *const bad[] = {
        "",    "Mine", "../x",
        "a b", "a/b",  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct template_def def;
    struct err e;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CASE("%s", bad[i]);
        CHECK_INT(template_parse(bad[i], "f", "", 0, &def, &e), -1);
        CHECK_INT(e.code, ERR_INVALID);
    }
}

static int parse_client(const char *text, struct template_def *ret, struct err *e)
{
    return template_parse_client("mine", "mine.template", text, strlen(text), ret, e);
}

/* Whatever decides about what runs in a zygote. */
TEST(a_clients_file_has_none_of_the_operators_keys)
{
    static const char *const lines[] = {
        "language = shell",     "runtime = /bin/sh", "root = /",      "mount = /etc",
        "warm = print()",       "seccomp = debug",   "offers = os",   "preload_memory = 512G",
        "preload_timeout = 1h", "max_memory = 1T",   "max_cpus = 64", "max_pids = 32768",
    };

    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct template_def def;
        struct err e = {0};
        char text[128];
        CASE("%s", lines[i]);
        CHECK_INT(str_format(text, sizeof(text), "base = python\n%s\n", lines[i]), 0);
        CHECK_INT(parse_client(text, &def, &e), -1);
        CHECK(strstr(e.msg, "line 2: unknown key") != NULL);
    }
}

TEST(a_clients_variables_are_not_the_zygotes)
{
    struct template_def base = {0};
    struct template_def def;
    struct err e = {0};

    CHECK_INT(parse("env = A=1\noffers = json math\npreload = re\nmemory = 64M\n", &base, &e), 0);
    CHECK_INT(parse_client("base = python\nenv = BROWSER=/bin/sh\npreload = math re\n", &def, &e),
              0);
    CHECK_INT(template_derive(&def, &base, &e), 0);
    CHECK_INT(def.n_env, 0);
    CHECK_INT(def.n_run_env, 1);
    CHECK_STR(def.run_env[0], "BROWSER=/bin/sh");
    CHECK_INT(def.modules, 2); /* the second that is offered; re is there in any case */
    CHECK_INT(def.info.limits.memory_bytes, 64 << 20);
}

static int note_start(void *user, struct launcher_req *req, const int *fd, struct err *e)
{
    (void)fd;
    (void)e;
    if (req->op == LAUNCHER_START) {
        *(uint64_t *)user = req->start.most.memory_bytes;
    }
    return 0;
}

/* As the supervisor of a server asks for it: the launcher holds huskd to this. */
TEST(a_template_without_max_memory_gets_the_bound_of_the_server)
{
    static const struct {
        const char *text;
        uint64_t want;
    } cases[] = {{"", 8 * GIB}, {"memory = 16G\n", 8 * GIB}, {"max_memory = 64G\n", 64 * GIB}};
    const struct template_choice choice = {.memory_most = 8 * GIB};

    CHECK_INT(setenv("HUSK_LIB_DIR", "/usr/lib", 1), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct template_def def = parsed(cases[i].text);
        uint64_t most = 0;
        const struct template_sink sink = {.put = note_start, .user = &most};
        struct err e = {0};
        CASE("%s", cases[i].text);
        CHECK_INT(template_fill(&def, &choice, &sink, &e), 0);
        CHECK_INT(most, cases[i].want);
    }
}

TEST(a_client_chooses_from_what_is_offered)
{
    static const char *const modules[] = {"antigravity", "jso", "json.tool", "JSON", "jsonn"};
    struct template_def base = {0};

    for (size_t i = 0; i < ARRAY_LEN(modules); i++) {
        struct template_def def;
        struct err e = {0};
        char text[128];
        CASE("%s", modules[i]);
        CHECK_INT(parse("offers = json math\n", &base, &e), 0);
        CHECK_INT(str_format(text, sizeof(text), "base = python\npreload = %s\n", modules[i]), 0);
        CHECK_INT(parse_client(text, &def, &e), 0);
        CHECK_INT(template_derive(&def, &base, &e), -1);
        CHECK(strstr(e.msg, "offers: json math") != NULL);
    }
}
