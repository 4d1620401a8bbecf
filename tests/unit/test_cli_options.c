/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Option tables: what is stored, what is refused and how, and the help text made from the same
 * rows.
 */
#include <stddef.h>
#include <stdio.h>

#include "base/attr.h"
#include "base/suggest.h"
#include "cli/common/options.h"
#include "tap.h"

struct target {
    int json;
    char *text;
    struct option_list list;
    struct option_list bools;
    uint32_t count;
    uint32_t milli;
    uint64_t size;
    uint64_t time;
};

#define FIELD(name) offsetof(struct target, name)

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "First", NULL, 0, 0, NULL},
    {OPTION_FLAG, 'j', "json", NULL, FIELD(json), 7, "a flag"},
    {OPTION_TEXT, 't', "text", "TEXT", FIELD(text), 0, "a text"},
    {OPTION_LIST, 0, "item", "ITEM", FIELD(list), 0, "a list"},
    {OPTION_BOOLS, 0, "open", "BOOL", FIELD(bools), 0, "a word that may be left out"},
    {OPTION_GROUP, 0, "Second", NULL, 0, 0, NULL},
    {OPTION_COUNT, 0, "count", "N", FIELD(count), 0, "a count"},
    {OPTION_MILLI, 0, "cpus", "N", FIELD(milli), 0, "thousandths"},
    {OPTION_SIZE, 'm', "memory", "SIZE", FIELD(size), 0, "a size"},
    {OPTION_DURATION, 0, "timeout", "TIME", FIELD(time), 0,
     "a sentence that is long enough to be broken into two lines when it is shown as help"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "help"},
};

static struct option_table table = {
    .usage = "prog one\nprog two",
    .about = "About.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = "prog x\nprog y",
};

static struct target got;
static struct option_rest rest;
static struct err e;

/* Parses a NULL-terminated argv. */
static int parse(char **argv)
{
    int argc = 0;

    while (argv[argc] != NULL) {
        argc++;
    }
    option_list_release(&got.list);
    option_list_release(&got.bools);
    got = (struct target){0};
    rest = (struct option_rest){0};
    return options_parse(&table, argc, argv, &got, &rest, &e);
}

#define PARSE(...) parse((char *[]){(char[]){"prog"}, __VA_ARGS__, NULL})

TEST(every_type_is_stored)
{
    CHECK_INT(PARSE("--json", "-t", "a", "--item=1", "--item", "2", "--count", "5", "--cpus", "0.5",
                    "-m", "64K", "--timeout", "500ms", "rest", "--json"),
              0);
    CHECK_INT(got.json, 7);
    CHECK_STR(got.text, "a");
    CHECK_INT(got.list.n, 2);
    CHECK_STR(got.list.items[0], "1");
    CHECK_STR(got.list.items[1], "2");
    CHECK_INT(got.count, 5);
    CHECK_INT(got.milli, 500);
    CHECK_INT(got.size, 65536);
    CHECK_INT(got.time, 500);
    CHECK_INT(rest.n, 2);
    CHECK_STR(rest.args[0], "rest");
    CHECK_STR(rest.args[1], "--json");
    option_list_release(&got.list);
}

TEST(options_stop_at_the_first_plain_argument)
{
    CHECK_INT(PARSE("code", "--unknown", "-j"), 0);
    CHECK_INT(got.json, 0);
    CHECK_INT(rest.n, 3);
    CHECK_INT(PARSE("--", "--json"), 0);
    CHECK_INT(got.json, 0);
    CHECK_STR(rest.args[0], "--json");
    CHECK_INT(PARSE("-j", "-", "x"), 0);
    CHECK_INT(rest.n, 2);
    CHECK_STR(rest.args[0], "-");
}

TEST(options_anywhere_are_found_behind_plain_arguments)
{
    table.anywhere = true;
    CHECK_INT(PARSE("a", "--json", "b", "-t", "x", "c", "--", "--text"), 0);
    CHECK_INT(got.json, 7);
    CHECK_STR(got.text, "x");
    CHECK_INT(rest.n, 4);
    CHECK_STR(rest.args[0], "a");
    CHECK_STR(rest.args[1], "b");
    CHECK_STR(rest.args[2], "c");
    CHECK_STR(rest.args[3], "--text");
    CHECK_INT(PARSE("--json"), 0);
    CHECK_INT(rest.n, 0);
}

TEST(a_bool_takes_a_word_or_means_true)
{
    table.anywhere = true;
    CHECK_INT(PARSE("--open", "rest", "--open", "off", "--open=no", "--open", "-j", "--open"), 0);
    CHECK_INT(got.bools.n, 5);
    CHECK_STR(got.bools.items[0], "true");
    CHECK_STR(got.bools.items[1], "off");
    CHECK_STR(got.bools.items[2], "no");
    CHECK_STR(got.bools.items[3], "true");
    CHECK_STR(got.bools.items[4], "true");
    CHECK_INT(got.json, 7);
    CHECK_INT(rest.n, 1);
    CHECK_STR(rest.args[0], "rest");
    option_list_release(&got.bools);
}

TEST(the_last_of_a_repeated_option_counts)
{
    CHECK_INT(PARSE("--count", "1", "--count", "2"), 0);
    CHECK_INT(got.count, 2);
}

TEST(help_ends_parsing)
{
    CHECK_INT(PARSE("--json", "--help", "--unknown"), 1);
    CHECK_INT(got.json, 7);
}

TEST(mistakes_are_named)
{
    static const struct {
        const char *first;
        const char *second;
        const char *message;
    } cases[] = {
        {"--memroy", "1", "unknown option --memroy; did you mean --memory?"},
        {"--memroy=1", NULL, "unknown option --memroy; did you mean --memory?"},
        {"--nothing-like-it", NULL, "unknown option --nothing-like-it"},
        {"--mem", "64M", "unknown option --mem"}, /* abbreviations are not taken */
        {"-x", NULL, "unknown option -x"},
        {"-jx", NULL, "unknown option -x"},
        {"--json=1", NULL, "--json takes no value"},
        {"--text", NULL, "--text needs a value (TEXT)"},
        {"-t", NULL, "--text needs a value (TEXT)"},
        {"--count", "0", "--count must be more than 0"},
        {"--count", "-1", "--count '-1' is not a whole number"},
        {"--count", "1.5", "--count '1.5' is not a whole number"},
        {"--count", "4294967296", "--count 4294967296 is too large"},
        {"--count", "99999999999999999999", "--count 99999999999999999999 is too large"},
        {"--memory", "", "--memory '' is not a size such as 64M or 1G"},
        {"--memory", "0", "--memory must be more than 0"},
        {"--memory", "1P", "--memory '1P' is not a size such as 64M or 1G"},
        {"--memory", "99999999999G", "--memory 99999999999G is too large"},
        {"--timeout", "0", "--timeout must be more than 0"},
        {"--timeout", "0.0001", "--timeout '0.0001' is not a time such as 5, 500ms or 2m"},
        {"--timeout", "-1", "--timeout '-1' is not a time such as 5, 500ms or 2m"},
        {"--timeout", "1e308", "--timeout '1e308' is not a time such as 5, 500ms or 2m"},
        {"--timeout", "18446744073709551615", "--timeout 18446744073709551615 is too large"},
        {"--cpus", "0", "--cpus must be more than 0"},
        {"--cpus", "nan", "--cpus 'nan' is not a number such as 2 or 0.5"},
        {"--cpus", "5000000", "--cpus 5000000 is too large"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CASE("%s %s", cases[i].first, cases[i].second != NULL ? cases[i].second : "");
        CHECK_INT(PARSE((char *)cases[i].first, (char *)cases[i].second), -1);
        CHECK_INT(e.code, ERR_INVALID);
        CHECK_STR(e.msg, cases[i].message);
    }
}

TEST(help_shows_every_row_aligned)
{
    AUTO_FREE char *text = NULL;
    size_t n = 0;

    FILE *f = open_memstream(&text, &n);
    CHECK(f != NULL);
    options_print_help(&table, f);
    fclose(f);
    CHECK_STR(text,
              "Usage: prog one\n"
              "       prog two\n"
              "\n"
              "About.\n"
              "\n"
              "First:\n"
              "  -j, --json          a flag\n"
              "  -t, --text TEXT     a text\n"
              "      --item ITEM     a list\n"
              "      --open BOOL     a word that may be left out\n"
              "\n"
              "Second:\n"
              "      --count N       a count\n"
              "      --cpus N        thousandths\n"
              "  -m, --memory SIZE   a size\n"
              "      --timeout TIME  a sentence that is long enough to be broken into two lines\n"
              "                      when it is shown as help\n"
              "  -h, --help          help\n"
              "\n"
              "Examples:\n"
              "  prog x\n"
              "  prog y\n");
}

TEST(suggestions_are_near_or_none)
{
    static const char *const names[] = {"run", "doctor", "template", "version", "help"};
    static const struct {
        const char *word;
        const char *near;
    } cases[] = {
        {"rnu", "run"},   {"docter", "doctor"}, {"tempalte", "template"}, {"versoin", "version"},
        {"hepl", "help"}, {"ru", "run"},        {"completely", NULL},     {"", NULL},
        {"x", NULL},      {"serve", NULL},
    };
    char long_word[200];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CASE("%s", cases[i].word);
        CHECK_STR(suggest(cases[i].word, names, ARRAY_LEN(names)), cases[i].near);
    }
    memset(long_word, 'r', sizeof(long_word) - 1);
    long_word[sizeof(long_word) - 1] = '\0';
    CHECK_STR(suggest(long_word, names, ARRAY_LEN(names)), NULL);
}
