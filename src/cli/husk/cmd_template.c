/* SPDX-License-Identifier: Apache-2.0 */
/* husk template: lists, shows, adds and checks templates of sandboxes. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/suggest.h"
#include "base/units.h"
#include "cli/common/commands.h"
#include "cli/common/term.h"
#include "core/core.h"

#define PRELOAD_MAX 64

struct template_options {
    char *python;
    char *preload;
    int json;
    int no_compile;
};

#define FIELD(name) offsetof(struct template_options, name)

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_FLAG, 0, "json", NULL, FIELD(json), 1, "list, show, check: print JSON"},
    {OPTION_TEXT, 0, "python", "PATH", FIELD(python), 0,
     "add: a Python interpreter, a virtual environment or an installation prefix"},
    {OPTION_TEXT, 0, "preload", "MODULES", FIELD(preload), 0,
     "add: modules, separated by spaces, that programs with a pool of parked sandboxes import "
     "ahead of time; `husk run` does not"},
    {OPTION_FLAG, 0, "no-compile", NULL, FIELD(no_compile), 1,
     "add: leave modules without .pyc files as they are; they are then compiled at each import"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
};

const struct option_table template_table = {
    .usage = "husk template list [--json]\n"
             "husk template show NAME [--json]\n"
             "husk template add NAME --python PATH [--preload MODULES] [--no-compile]\n"
             "husk template compile NAME\n"
             "husk template check NAME [--json]",
    .about = "Lists or shows the templates of sandboxes, adds one for a Python installation of "
             "your own, compiles its modules after a change, or checks one: starts it with its "
             "preloads, runs a program in it and says "
             "what fails.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = "husk template list\n"
                "husk template add science --python ~/venv --preload 'numpy pandas'\n"
                "husk template check science\n"
                "husk run --template science 'import numpy; numpy.__version__'",
    .anywhere = true,
};

/* The limits of a run that sets none: 0 in a template stands for the default. */
static struct limits effective(const struct husk_limits *given)
{
    struct limits l = engine_limits_import(given);

    limits_fill(&l);
    return l;
}

static json_t *template_json(const struct husk_template_info *t)
{
    struct limits l = effective(&t->limits);

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:{s:I, s:I, s:I, s:f, s:I}}",
                     "name", t->name, "language", template_language_name(t->language), "runtime",
                     t->runtime, "origin", t->origin, "about", t->about, "preload", t->preload,
                     "preload_optional", t->preload_optional, "usable",
                     (int)(t->missing[0] == '\0'), "missing", t->missing, "limits", "memory_bytes",
                     (json_int_t)l.memory_bytes, "disk_bytes", (json_int_t)l.disk_bytes,
                     "timeout_ms", (json_int_t)l.timeout_ms, "cpus", l.cpu_milli / 1000.0, "pids",
                     (json_int_t)l.pids);
}

static int print_list(const struct husk_template_info *list, size_t n, bool json)
{
    if (json) {
        json_t *array = json_array();

        for (size_t i = 0; i < n; i++) {
            if (json_array_append_new(array, template_json(&list[i])) < 0) {
                json_decref(array);
                return print_json(NULL);
            }
        }
        return print_json(array);
    }
    for (size_t i = 0; i < n; i++) {
        printf("%-20s %-11s %s\n", list[i].name, template_language_name(list[i].language),
               list[i].about);
        if (list[i].missing[0] != '\0') {
            printf("%-20s cannot run here: %s\n", "", list[i].missing);
        }
    }
    return 0;
}

static void print_one(const struct husk_template_info *t)
{
    struct limits l = effective(&t->limits);

    printf("name      %s\nlanguage  %s\nabout     %s\nruntime   %s\norigin    %s\n", t->name,
           template_language_name(t->language), t->about, t->runtime, t->origin);
    printf("preload   %s\n", t->preload[0] != '\0' ? t->preload : "nothing");
    if (t->preload_optional[0] != '\0') {
        printf("optional  %s\n", t->preload_optional);
    }
    printf("limits    %llu MiB memory, %llu MiB disk, %.3g cores, %u processes, %.3g s\n",
           (unsigned long long)(l.memory_bytes / MIB), (unsigned long long)(l.disk_bytes / MIB),
           l.cpu_milli / 1000.0, l.pids, (double)l.timeout_ms / 1000.0);
    printf("usable    %s%s\n", t->missing[0] != '\0' ? "no: " : "yes", t->missing);
}

static int show(const struct husk_template_info *list, size_t n, const char *name, bool json)
{
    AUTO_FREE const char **names = NULL;

    names = calloc(n + 1, sizeof(*names));
    if (names == NULL) {
        term_say(PROGRAM, "out of memory");
        return EXIT_HUSK;
    }
    for (size_t i = 0; i < n; i++) {
        names[i] = list[i].name;
        if (!str_eq(list[i].name, name)) {
            continue;
        }
        if (json) {
            return print_json(template_json(&list[i]));
        }
        print_one(&list[i]);
        return 0;
    }
    const char *near = suggest(name, names, n);
    term_say(PROGRAM, "there is no template '%s'%s%s%s", name,
             near != NULL ? "; did you mean '" : "",
             near != NULL ? near : "; 'husk template list' shows all", near != NULL ? "'?" : "");
    return EXIT_HUSK;
}

/* List, or show if a name is given. */
static int list_or_show(const char *name, bool json)
{
    AUTO_FREE struct husk_template_info *list = NULL;
    struct husk_options options = {.min_isolation = HUSK_ISOLATION_USERNS}; /* no box is started */
    struct husk_engine *engine = NULL;
    struct husk_error why;
    size_t n = 0;

    fd_raise_limit();
    if (husk_open(&options, &engine, &why) < 0) {
        return engine_error(&why);
    }
    int r = husk_template_list(NULL, &list, &n, &why);
    husk_close(engine);
    if (r < 0) {
        return engine_error(&why);
    }
    return name != NULL ? show(list, n, name, json) : print_list(list, n, json);
}

/* Splits the text at spaces and commas. */
static int split_modules(char *text, const char **names, struct err *e)
{
    size_t n = 0;

    for (char *p = text; *p != '\0';) {
        size_t gap = strspn(p, " ,");

        memset(p, '\0', gap);
        p += gap;
        if (*p == '\0') {
            break;
        }
        if (n == PRELOAD_MAX) {
            return err_set(e, ERR_INVALID, "--preload: more than %d modules", PRELOAD_MAX);
        }
        names[n++] = p;
        p += strcspn(p, " ,");
    }
    names[n] = NULL;
    return 0;
}

/* Into the folder that the template names, as files that boxes can read. */
static int compile(const char *name)
{
    struct husk_options options = {.min_isolation = HUSK_ISOLATION_USERNS};
    struct husk_engine *engine = NULL;
    struct husk_error why = {0};
    uint32_t modules = 0;

    fd_raise_limit();
    (void)umask(022);
    if (husk_open(&options, &engine, &why) < 0) {
        return engine_error(&why);
    }
    int r = husk_template_compile(engine, name, &modules, &why);
    husk_close(engine);
    if (r < 0) {
        return engine_error(&why);
    }
    if (modules > 0) {
        printf("%u modules compiled\n", modules);
    } else {
        printf("no module of its own lacks a .pyc file\n");
    }
    return 0;
}

static int add(const char *name, const struct template_options *o)
{
    const char *preload[PRELOAD_MAX + 1] = {NULL};
    char path[PATH_MAX];
    struct husk_error why;
    struct err e;

    if (o->preload != NULL && split_modules(o->preload, preload, &e) < 0) {
        return usage_error("template", &e);
    }
    if (husk_template_add(name, o->python, preload, path, sizeof(path), &why) < 0) {
        return engine_error(&why);
    }
    printf("template %s written to %s\n", name, path);
    fflush(stdout);
    if (!o->no_compile && compile(name) != 0) {
        term_say(PROGRAM, "the template works without; `husk template compile %s` tries again",
                 name);
    }
    return 0;
}

/* One program that does nothing: not every fault of a template shows when its zygote starts. */
static int run_once(struct husk_engine *engine, const char *name, struct husk_error *why)
{
    struct husk_spec spec = {
        .template_name = name, .kind = HUSK_SCRIPT, .code = "", .name = "<check>"};
    struct husk_result *result = NULL;

    if (husk_run(engine, &spec, &result, why) < 0) {
        return -1;
    }
    bool works = result->status == HUSK_COMPLETED;
    if (!works) {
        (void)str_format(why->message, sizeof(why->message),
                         "template %s starts, but an empty program ends with: %.200s", name,
                         result->termination.detail);
    }
    husk_result_free(result);
    return works ? 0 : -1;
}

static int print_start(const char *name, const struct husk_template_start *start, bool json)
{
    if (json) {
        return print_json(json_pack("{s:s, s:b, s:f, s:s}", "name", name, "works", 1, "start_ms",
                                    start->ms, "not_preloaded", start->note));
    }
    printf("template %s works: it started in %.2f s\n", name, start->ms / 1000.0);
    if (start->note[0] != '\0') {
        printf("not preloaded, so imported by each program that needs it: %s\n", start->note);
    }
    return 0;
}

static int try_out(const char *name, bool json)
{
    struct husk_options options = {.min_isolation = HUSK_ISOLATION_USERNS};
    struct husk_template_start start = {0};
    struct husk_engine *engine = NULL;
    struct husk_error why = {0};

    fd_raise_limit();
    if (husk_open(&options, &engine, &why) < 0) {
        return engine_error(&why);
    }
    int r = husk_template_start(engine, name, &start, &why) < 0 ? -1 : run_once(engine, name, &why);
    husk_close(engine);
    return r < 0 ? engine_error(&why) : print_start(name, &start, json);
}

static int check(const struct template_options *o, const struct option_rest *rest, struct err *e)
{
    const char *verb = rest->n > 0 ? rest->args[0] : "";
    bool is_list = str_eq(verb, "list");
    bool is_add = str_eq(verb, "add");

    if (!is_list && !is_add && !str_eq(verb, "show") && !str_eq(verb, "check") &&
        !str_eq(verb, "compile")) {
        return rest->n == 0
                   ? err_set(e, ERR_INVALID,
                             "template needs one of list, show, add, compile, check")
                   : err_set(e, ERR_INVALID,
                             "template '%s' is not known: use list, show, add, compile or check",
                             verb);
    }
    if (rest->n != (is_list ? 1 : 2)) {
        return is_list
                   ? err_set(e, ERR_INVALID, "template list takes no argument '%s'", rest->args[1])
                   : err_set(e, ERR_INVALID, "template %s needs one name", verb);
    }
    if (is_add && o->python == NULL) {
        return err_set(e, ERR_INVALID, "template add needs --python PATH");
    }
    if ((is_add || str_eq(verb, "compile")) && o->json) {
        return err_set(e, ERR_INVALID,
                       "--json is an option of 'template list', 'show' and 'check' only");
    }
    if (!is_add && (o->python != NULL || o->preload != NULL || o->no_compile)) {
        return err_set(e, ERR_INVALID,
                       "--python, --preload and --no-compile are options of 'template add' only");
    }
    if (!is_list && !str_is_name(rest->args[1])) {
        return err_set(e, ERR_INVALID, "'%s' is not a name of lower-case letters, digits, . _ -",
                       rest->args[1]);
    }
    return 0;
}

int cmd_template(int argc, char **argv)
{
    struct template_options o = {0};
    struct option_rest rest;
    struct err e;

    int code = command_parse("template", &template_table, argc, argv, &o, &rest);
    if (code != COMMAND_GOES_ON) {
        return code;
    }
    if (check(&o, &rest, &e) < 0) {
        return usage_error("template", &e);
    }
    if (str_eq(rest.args[0], "add")) {
        return add(rest.args[1], &o);
    }
    if (str_eq(rest.args[0], "compile")) {
        return compile(rest.args[1]);
    }
    if (str_eq(rest.args[0], "check")) {
        return try_out(rest.args[1], o.json != 0);
    }
    return list_or_show(rest.n > 1 ? rest.args[1] : NULL, o.json != 0);
}
