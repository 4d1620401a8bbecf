/* SPDX-License-Identifier: Apache-2.0 */
/*
 * husk config: shows the settings that huskd would run with and the source of each. Starts nothing.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/common/commands.h"
#include "cli/common/config_options.h"
#include "cli/common/hostfile.h"
#include "cli/common/term.h"

#define VALUE_MAX ((size_t)64 << 10)
#define DOC_MAX ((size_t)1 << 20)

struct command_options {
    struct config_options settings;
    char *check;
    int json;
};

#define FIELD(name) offsetof(struct command_options, name)
#define CONFIG_OPTIONS_AT FIELD(settings)

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_FLAG, 0, "json", NULL, FIELD(json), 1, "show: print a JSON object"},
    {OPTION_TEXT, 0, "check", "FILE", FIELD(check), 0,
     "doc: print nothing; exit with 1 unless the file is the current reference"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
#include "cli/common/config_options.def"
};

const struct option_table config_table = {
    .usage = "husk config show [--json] [--config PATH] [settings]\n"
             "husk config check [--config PATH] [settings]\n"
             "husk config doc [--check FILE]",
    .about = "Shows the settings that huskd would run with and the source of each (default, file, "
             "environment, flag), checks them, or prints their reference as Markdown.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = "husk config show\n"
                "HUSK_MEMORY=512M husk config show --listen 127.0.0.1:9000\n"
                "husk config check --config ./husk.conf",
    .anywhere = true,
};

/* ---- show ---- */

static const char *source_name(enum config_source source)
{
    static const char *const names[] = {
        [CONFIG_FROM_DEFAULT] = "default", [CONFIG_FROM_SEED] = "compatibility",
        [CONFIG_FROM_FILE] = "file",       [CONFIG_FROM_ENV] = "environment",
        [CONFIG_FROM_FLAG] = "flag",
    };

    return names[source];
}

static json_t *list_json(const struct config_list *list)
{
    json_t *array = json_array();

    for (size_t i = 0; i < list->n; i++) {
        if (json_array_append_new(array, json_string(list->items[i])) < 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *value_json(const struct config *c, const struct config_row *row, const char *text)
{
    const void *field = (const char *)c + row->offset;

    if (config_type_is_list(row->type)) {
        return list_json(field);
    }
    switch (row->type) {
    case CONFIG_TYPE_BOOL:
        return json_boolean(*(const bool *)field);
    case CONFIG_TYPE_COUNT:
    case CONFIG_TYPE_SIZE:
    case CONFIG_TYPE_DURATION:
        return json_integer((json_int_t) * (const uint64_t *)field);
    case CONFIG_TYPE_CPU:
        return json_real((double)*(const uint64_t *)field / 1000);
    default:
        return json_string(text);
    }
}

static const char *unit_name(enum config_type type)
{
    return type == CONFIG_TYPE_SIZE ? "bytes" : type == CONFIG_TYPE_DURATION ? "ms" : NULL;
}

static json_t *row_json(const struct config *c, enum config_key key, const char *text,
                        const char *from)
{
    const struct config_row *row = &config_rows[key];
    char shown[512]; /* the file's name can be any bytes */

    str_printable(shown, sizeof(shown), from, strlen(from));
    return json_pack("{s:o, s:s*, s:s, s:s, s:s}", "value", value_json(c, row, text), "unit",
                     unit_name(row->type), "text", text, "source",
                     source_name(c->origin[key].source), "from", shown);
}

static json_t *config_json(const struct config *c, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(VALUE_MAX);
    json_t *all = json_object();
    char from[512];

    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        config_origin_text(c, key, from, sizeof(from));
        if (config_value_text(c, key, &text, e) < 0 ||
            json_object_set_new(all, config_rows[key].key, row_json(c, key, text.data, from)) < 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

/* The width of the column: the widest value below a limit. */
static int value_column(const struct config *c, struct buf *text, struct err *e)
{
    size_t widest = 0;

    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        if (config_value_text(c, key, text, e) < 0) {
            return -1;
        }
        widest = text->len <= 40 ? MAX(widest, text->len) : widest;
    }
    return (int)widest;
}

static int print_table(const struct config *c, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(VALUE_MAX);
    size_t name_width = 0;
    char from[512];

    int width = value_column(c, &text, e);
    if (width < 0) {
        return -1;
    }
    for (size_t key = 0; key < CONFIG_KEYS; key++) {
        name_width = MAX(name_width, strlen(config_rows[key].key));
    }
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        const struct config_row *row = &config_rows[key];

        if (key == 0 || row->group != config_rows[key - 1].group) {
            printf("%s[%s]\n", key > 0 ? "\n" : "", config_group_name(row->group));
        }
        if (config_value_text(c, key, &text, e) < 0) {
            return -1;
        }
        config_origin_text(c, key, from, sizeof(from));
        printf("%-*s  %-*s  %s\n", (int)name_width, row->key, width, text.data, from);
    }
    return 0;
}

static int show(const struct config *c, bool json)
{
    struct err e;

    if (json) {
        return print_json(config_json(c, &e));
    }
    if (print_table(c, &e) < 0) {
        return usage_error("config", &e);
    }
    return 0;
}

/* ---- doc ---- */

static int doc(const char *file)
{
    AUTO_FREE char *made = NULL;
    AUTO_BUF struct buf there = BUF_INIT(DOC_MAX);
    size_t n = 0;
    struct err e;

    if (file == NULL) {
        config_print_markdown(stdout);
        return 0;
    }
    FILE *to = open_memstream(&made, &n);
    if (to == NULL) {
        term_say(PROGRAM, "out of memory");
        return EXIT_HUSK;
    }
    config_print_markdown(to);
    if (fclose(to) != 0) {
        term_say(PROGRAM, "out of memory");
        return EXIT_HUSK;
    }
    if (hostfile_read(file, &there, &e) < 0) {
        term_say(PROGRAM, "%s", e.msg);
        return EXIT_HUSK;
    }
    if (there.len != n || memcmp(there.data, made, n) != 0) {
        term_say(PROGRAM, "%s is not current: run `husk config doc > %s`", file, file);
        return EXIT_INCOMPLETE;
    }
    return 0;
}

/* ---- the command ---- */

static bool has_settings(const struct config_options *o)
{
    bool some = o->file != NULL;

    for (size_t key = 0; key < CONFIG_KEYS; key++) {
        some = some || o->values[key].n > 0;
    }
    return some;
}

static int check_usage(const struct command_options *o, const struct option_rest *rest,
                       struct err *e)
{
    const char *verb = rest->n > 0 ? rest->args[0] : "";
    bool is_doc = str_eq(verb, "doc");
    bool is_show = str_eq(verb, "show");

    if (!is_doc && !is_show && !str_eq(verb, "check")) {
        return rest->n == 0 ? err_set(e, ERR_INVALID, "config needs one of show, check, doc")
                            : err_set(e, ERR_INVALID,
                                      "config '%s' is not known: use show, check or doc", verb);
    }
    if (rest->n != 1) {
        return err_set(e, ERR_INVALID, "config %s takes no argument '%s'", verb, rest->args[1]);
    }
    if (o->json && !is_show) {
        return err_set(e, ERR_INVALID, "--json is an option of 'config show' only");
    }
    if (o->check != NULL && !is_doc) {
        return err_set(e, ERR_INVALID, "--check is an option of 'config doc' only");
    }
    if (is_doc && has_settings(&o->settings)) {
        return err_set(e, ERR_INVALID,
                       "settings are options of 'config show' and 'config check' only");
    }
    return 0;
}

static int show_or_check(const struct command_options *o, bool is_show)
{
    AUTO(config_report_release) struct config_report report = {0};
    AUTO(config_release) struct config c = {0};
    struct err e;

    int r = config_options_load(&o->settings, &c, &report, &e);
    config_options_say(&report);
    if (r < 0) {
        term_say(PROGRAM, "%s", e.msg);
        return report.n_errors > 0 ? EXIT_INCOMPLETE : EXIT_HUSK;
    }
    if (is_show) {
        return show(&c, o->json != 0);
    }
    printf("%s: %d settings, no mistakes\n", c.file != NULL ? c.file : "no file", CONFIG_KEYS);
    return 0;
}

static int act(const struct command_options *o, const struct option_rest *rest)
{
    struct err e;

    if (check_usage(o, rest, &e) < 0) {
        return usage_error("config", &e);
    }
    if (str_eq(rest->args[0], "doc")) {
        return doc(o->check);
    }
    return show_or_check(o, str_eq(rest->args[0], "show"));
}

int cmd_config(int argc, char **argv)
{
    struct command_options o = {0};
    struct option_rest rest;

    int code = command_parse("config", &config_table, argc, argv, &o, &rest);
    if (code == COMMAND_GOES_ON) {
        code = act(&o, &rest);
    }
    config_options_release(&o.settings);
    return code;
}
