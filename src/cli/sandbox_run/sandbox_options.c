/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of sandbox-run; see sandbox_run.h. */
#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "cli/sandbox_run/sandbox_run.h"

#define FIELD(name) offsetof(struct sandbox_options, name)

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Input", NULL, 0, 0, NULL},
    {OPTION_TEXT, 'e', "event", "JSON", FIELD(event), 0,
     "the event: any JSON value of at most 16 MiB (default {})"},
    {OPTION_TEXT, 'f', "event-file", "FILE", FIELD(event_file), 0, "read the event from a file"},
    {OPTION_TEXT, 'c', "context", "JSON", FIELD(context), 0,
     "fields of the context object (default {})"},
    {OPTION_TEXT, 0, "context-file", "FILE", FIELD(context_file), 0,
     "read the fields of the context object from a file"},
    {OPTION_TEXT, 0, "handler", "NAME", FIELD(handler), 0,
     "the function to call, as function or as module.function, whose module is the script's name "
     "without .py (default handler)"},
    {OPTION_COUNT, 't', "timeout", "SECONDS", FIELD(timeout), SANDBOX_SECONDS_MAX,
     "time limit, 1 to 604800 (default 300, or cli.default_timeout of .sandboxrc.json)"},

    {OPTION_TEXT, 0, "min-isolation", "LEVEL", FIELD(min_isolation), 0, OPTION_TEXT_ISOLATION},

    {OPTION_GROUP, 0, "Output", NULL, 0, 0, NULL},
    {OPTION_TEXT, 0, "format", "FORMAT", FIELD(format), 0, "pretty (default), json or yaml"},
    {OPTION_TEXT, 'o', "output", "FILE", FIELD(output), 0,
     "write to a file instead of stdout; what the handler writes to stderr still goes there"},
    {OPTION_FLAG, 'p', "profile", NULL, FIELD(profile), 1,
     "print time, CPU time and peak memory on stderr (json and yaml always have them)"},
    {OPTION_FLAG, 'v', "verbose", NULL, FIELD(verbose), 1,
     "add a timestamp and the type of the result"},
    {OPTION_FLAG, 'q', "quiet", NULL, FIELD(quiet), 1,
     "print only the result: no output of the handler, no traceback (json and yaml stay whole)"},
    {OPTION_TEXT, 0, "log-level", "LEVEL", FIELD(log_level), 0,
     "least severe log lines to print on stderr: DEBUG, INFO, WARNING (default) or ERROR"},

    {OPTION_GROUP, 0, "Other", NULL, 0, 0, NULL},
    {OPTION_FLAG, 0, "version", NULL, FIELD(version), 1, "show the version"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
};

const struct option_table sandbox_table = {
    .usage = "sandbox-run [options] SCRIPT.py",
    .about = "Calls handler(event) or handler(event, context) of a Python file in a fresh sandbox "
             "without network and prints what it returns. Exit codes: 0 success, 1 the handler "
             "failed, 2 a file is missing or invalid, 3 syntax error or no handler, 4 time limit, "
             "5 the sandbox could not start, 130 interrupted.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = "sandbox-run handler.py --event '{\"name\": \"Ada\"}'\n"
                "sandbox-run handler.py -f event.json --format json | jq .result\n"
                "sandbox-run lambda_function.py --handler lambda_function.lambda_handler\n"
                "sandbox-run handler.py --timeout 10 --profile",
    .anywhere = true,
};

int sandbox_format_parse(const char *word, enum sandbox_format *ret)
{
    static const char *const words[] = {
        [SANDBOX_PRETTY] = "pretty", [SANDBOX_JSON] = "json", [SANDBOX_YAML] = "yaml"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (str_eq(words[i], word)) {
            *ret = (enum sandbox_format)i;
            return 0;
        }
    }
    return -1;
}

int sandbox_level_parse(const char *word, enum log_level *ret)
{
    static const char *const words[] = {
        [LOG_DEBUG] = "DEBUG", [LOG_INFO] = "INFO", [LOG_WARN] = "WARNING", [LOG_ERROR] = "ERROR"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (str_eq(words[i], word)) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return -1;
}

static int check_script(const char *path, struct err *e)
{
    size_t n = strlen(path);

    if (n < 4 || !str_eq(path + n - 3, ".py")) {
        return err_set(e, ERR_INVALID, "'%s' is not a Python file: its name must end in .py", path);
    }
    return 0;
}

static bool is_identifier(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

    return name[0] != '\0' && (name[0] < '0' || name[0] > '9') &&
           name[strspn(name, letters)] == '\0';
}

/* Lambda's "module.function": the file is given, so the module can only be its own. */
static int take_handler(struct sandbox_options *o, struct err *e)
{
    const char *slash = strrchr(o->script, '/');
    const char *file = slash != NULL ? slash + 1 : o->script;
    size_t stem = strlen(file) - 3; /* without .py */
    char *dot = o->handler != NULL ? strrchr(o->handler, '.') : NULL;

    if (dot != NULL &&
        ((size_t)(dot - o->handler) != stem || memcmp(o->handler, file, stem) != 0)) {
        return err_set(e, ERR_INVALID,
                       "--handler '%s' names another module than the script: expected %.*s.%s",
                       o->handler, (int)stem, file, dot + 1);
    }
    o->handler = dot != NULL ? dot + 1 : o->handler;
    return o->handler == NULL || is_identifier(o->handler)
               ? 0
               : err_set(e, ERR_INVALID, "--handler '%s' is not the name of a function",
                         o->handler);
}

static int check(const struct sandbox_options *o, struct err *e)
{
    enum husk_isolation isolation;
    enum sandbox_format format;
    enum log_level level;

    if (option_isolation(o->min_isolation, &isolation, e) < 0) {
        return -1;
    }
    if (o->event != NULL && o->event_file != NULL) {
        return err_set(e, ERR_INVALID, "--event and --event-file exclude each other");
    }
    if (o->context != NULL && o->context_file != NULL) {
        return err_set(e, ERR_INVALID, "--context and --context-file exclude each other");
    }
    if (o->verbose && o->quiet) {
        return err_set(e, ERR_INVALID, "--verbose and --quiet exclude each other");
    }
    if (o->format != NULL && sandbox_format_parse(o->format, &format) < 0) {
        return err_set(e, ERR_INVALID, "--format '%s' is not pretty, json or yaml", o->format);
    }
    if (o->log_level != NULL && sandbox_level_parse(o->log_level, &level) < 0) {
        return err_set(e, ERR_INVALID, "--log-level '%s' is not DEBUG, INFO, WARNING or ERROR",
                       o->log_level);
    }
    return check_script(o->script, e);
}

int sandbox_options_parse(struct sandbox_options *o, int argc, char **argv, struct err *e)
{
    struct option_rest rest;

    int r = options_parse(&sandbox_table, argc, argv, o, &rest, e);
    if (r != 0 || o->version) {
        return r;
    }
    if (rest.n == 0) {
        return err_set(e, ERR_INVALID, "no script given: sandbox-run SCRIPT.py");
    }
    if (rest.n > 1) {
        return err_set(e, ERR_INVALID, "sandbox-run takes one script; '%s' is one too many",
                       rest.args[1]);
    }
    o->script = rest.args[0];
    return check(o, e) < 0 ? -1 : take_handler(o, e);
}
