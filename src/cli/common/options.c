/* SPDX-License-Identifier: Apache-2.0 */
/* Parses options by table; see options.h. options_help.c prints the help text. */
#include "cli/common/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "base/suggest.h"

#define ROWS_MAX 96
#define LONG_BASE 256 /* getopt_long() returns LONG_BASE + row for a long option */

struct parser {
    const struct option_table *table;
    struct option longs[ROWS_MAX + 1];
    char shorts[3 + 2 * ROWS_MAX];
};

static int has_arg(const struct option_row *row)
{
    return row->type == OPTION_BOOLS ? optional_argument
           : row->arg != NULL        ? required_argument
                                     : no_argument;
}

static void parser_init(struct parser *p, const struct option_table *table)
{
    size_t n_longs = 0;
    size_t n_shorts = 0;

    assert(table->n_rows <= ROWS_MAX);
    memset(p, 0, sizeof(*p));
    p->table = table;
    /* '+': stop at the first plain argument; '-': return plain arguments in order. */
    p->shorts[n_shorts++] = table->anywhere ? '-' : '+';
    p->shorts[n_shorts++] = ':';
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct option_row *row = &table->rows[i];

        if (row->type == OPTION_GROUP) {
            continue;
        }
        p->longs[n_longs++] = (struct option){
            .name = row->name,
            .has_arg = has_arg(row),
            .val = LONG_BASE + (int)i,
        };
        if (row->letter != 0) {
            p->shorts[n_shorts++] = row->letter;
            if (row->arg != NULL) {
                p->shorts[n_shorts++] = ':';
            }
        }
    }
}

static const struct option_row *row_by_letter(const struct option_table *table, int letter)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        if (table->rows[i].letter != 0 && table->rows[i].letter == letter) {
            return &table->rows[i];
        }
    }
    return NULL;
}

/* The row whose long name is exactly the text of "--name" or "--name=value". */
static const struct option_row *row_by_word(const struct option_table *table, const char *word)
{
    size_t n = strcspn(word + 2, "=");

    for (size_t i = 0; i < table->n_rows; i++) {
        const struct option_row *row = &table->rows[i];

        if (row->type != OPTION_GROUP && strlen(row->name) == n &&
            strncmp(row->name, word + 2, n) == 0) {
            return row;
        }
    }
    return NULL;
}

static int unknown_long(const struct option_table *table, const char *word, struct err *e)
{
    const char *names[ROWS_MAX];
    size_t n = 0;
    int len = (int)strcspn(word, "=");

    for (size_t i = 0; i < table->n_rows; i++) {
        if (table->rows[i].type != OPTION_GROUP) {
            names[n++] = table->rows[i].name;
        }
    }
    char name[64];
    const char *near = NULL;
    if (str_format(name, sizeof(name), "%.*s", len - 2, word + 2) == 0) {
        near = suggest(name, names, n);
    }
    if (near != NULL) {
        return err_set(e, ERR_INVALID, "unknown option %.*s; did you mean --%s?", len, word, near);
    }
    return err_set(e, ERR_INVALID, "unknown option %.*s", len, word);
}

/* Explains why getopt_long() failed: word is the argument that it was reading. */
static int refuse(const struct option_table *table, int answer, const char *word, struct err *e)
{
    bool is_long = str_starts(word, "--");
    const struct option_row *row =
        is_long ? row_by_word(table, word) : row_by_letter(table, optopt);

    if (row == NULL) {
        return is_long ? unknown_long(table, word, e)
                       : err_set(e, ERR_INVALID, "unknown option -%c", optopt);
    }
    if (answer == ':') {
        return err_set(e, ERR_INVALID, "--%s needs a value (%s)", row->name, row->arg);
    }
    return err_set(e, ERR_INVALID, "--%s takes no value", row->name);
}

static int parse_number(const struct option_row *row, const char *value, uint64_t *ret)
{
    switch (row->type) {
    case OPTION_SIZE:
        return parse_size(value, ret);
    case OPTION_DURATION:
        return parse_duration_ms(value, ret);
    case OPTION_MILLI:
        return parse_milli(value, ret);
    default:
        return parse_u64(value, ret);
    }
}

static const char *example_of(enum option_type type)
{
    switch (type) {
    case OPTION_SIZE:
        return "a size such as 64M or 1G";
    case OPTION_DURATION:
        return "a time such as 5, 500ms or 2m";
    case OPTION_MILLI:
        return "a number such as 2 or 0.5";
    default:
        return "a whole number";
    }
}

static int set_number(const struct option_row *row, const char *value, char *field, struct err *e)
{
    bool narrow = row->type == OPTION_COUNT || row->type == OPTION_MILLI;
    uint64_t v = 0;

    int r = parse_number(row, value, &v);
    if (row->type == OPTION_COUNT && row->set != 0 && (r < 0 || v < 1 || v > (uint64_t)row->set)) {
        return err_set(e, ERR_INVALID, "--%s '%s' is not a whole number from 1 to %d", row->name,
                       value, row->set);
    }
    if (r == -ERANGE || (r == 0 && narrow && v > UINT32_MAX)) {
        return err_set(e, ERR_INVALID, "--%s %s is too large", row->name, value);
    }
    if (r < 0) {
        return err_set(e, ERR_INVALID, "--%s '%s' is not %s", row->name, value,
                       example_of(row->type));
    }
    if (v == 0) {
        return err_set(e, ERR_INVALID, "--%s must be more than 0", row->name);
    }
    if (narrow) {
        *(uint32_t *)field = (uint32_t)v;
    } else {
        *(uint64_t *)field = v;
    }
    return 0;
}

static int apply(const struct option_row *row, char *value, int argc, char *target, struct err *e)
{
    char *field = target + row->offset;

    switch (row->type) {
    case OPTION_GROUP:
    case OPTION_HELP:
        return 0;
    case OPTION_FLAG:
        *(int *)field = row->set;
        return 0;
    case OPTION_TEXT:
        *(char **)field = value;
        return 0;
    case OPTION_LIST:
    case OPTION_BOOLS:
        return option_list_add((struct option_list *)field, value, (size_t)argc, e);
    case OPTION_COUNT:
    case OPTION_SIZE:
    case OPTION_DURATION:
    case OPTION_MILLI:
        return set_number(row, value, field, e);
    }
    return err_set(e, ERR_INVALID, "--%s has an unknown type", row->name);
}

int option_isolation(const char *word, enum husk_isolation *ret, struct err *e)
{
    if (word != NULL && !str_eq(word, "full") && !str_eq(word, "userns")) {
        return err_set(e, ERR_INVALID, "--min-isolation '%s' is not known: use full or userns",
                       word);
    }
    *ret = word != NULL && str_eq(word, "userns") ? HUSK_ISOLATION_USERNS : HUSK_ISOLATION_FULL;
    return 0;
}

/* getopt() finds an optional value only after '='. */
static char *bool_word(int argc, char **argv)
{
    static char yes[] = "true";
    bool ignored;

    if (optarg != NULL) {
        return optarg;
    }
    return optind < argc && parse_bool(argv[optind], &ignored) == 0 ? argv[optind++] : yes;
}

int options_parse(const struct option_table *table, int argc, char **argv, void *target,
                  struct option_rest *rest, struct err *e)
{
    struct parser p;
    int plain = 0;

    parser_init(&p, table);
    optind = 0; /* glibc: start again with a new command line */
    opterr = 0;
    for (int at = 1;; at = optind) {
        int answer = getopt_long(argc, argv, p.shorts, p.longs, NULL);
        if (answer == -1) {
            break;
        }
        if (answer == 1) {
            argv[1 + plain++] = optarg; /* never overtakes getopt */
            continue;
        }
        if (answer == '?' || answer == ':') {
            return refuse(table, answer, argv[at], e);
        }
        const struct option_row *row =
            answer >= LONG_BASE ? row_by_word(table, argv[at]) : row_by_letter(table, answer);
        if (row == NULL) { /* getopt accepted an abbreviation */
            return unknown_long(table, argv[at], e);
        }
        char *value = row->type == OPTION_BOOLS ? bool_word(argc, argv) : optarg;
        if (apply(row, value, argc, target, e) < 0) {
            return -1;
        }
        if (row->type == OPTION_HELP) {
            return 1;
        }
    }
    for (; plain > 0 && optind < argc; optind++) { /* after "--" */
        argv[1 + plain++] = argv[optind];
    }
    rest->args = plain > 0 ? argv + 1 : argv + optind;
    rest->n = plain > 0 ? plain : argc - optind;
    return 0;
}
