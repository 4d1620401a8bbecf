/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command-line options from one table per command: the same rows parse the arguments and become the
 * help text, docs/cli.md and the manual pages, so these cannot disagree.
 *
 * A row has the type of an option and the offset of its value in the command's own struct. Values
 * are borrowed from argv. Long names must be written in full: an abbreviation that works today
 * would break when a longer option is added. Must not print errors or exit.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <husk/husk.h>

#include "base/err.h"

enum option_type {
    OPTION_GROUP,    /* no option: a heading in the help text */
    OPTION_HELP,     /* ends parsing */
    OPTION_FLAG,     /* int, set to row->set */
    OPTION_TEXT,     /* char * */
    OPTION_LIST,     /* struct option_list: can be repeated */
    OPTION_BOOLS,    /* the same; "true" unless a word such as true or off follows */
    OPTION_COUNT,    /* uint32_t, at least 1, at most row->set if that is not 0 */
    OPTION_SIZE,     /* uint64_t, bytes, at least 1 */
    OPTION_DURATION, /* uint64_t, milliseconds, at least 1 */
    OPTION_MILLI,    /* uint32_t, thousandths, at least 1 */
};

struct option_row {
    enum option_type type;
    char letter;      /* short form; 0: none */
    const char *name; /* long form without dashes, or the heading */
    const char *arg;  /* the value's name in the help text; NULL: takes none */
    size_t offset;    /* of the target field */
    int set;          /* OPTION_FLAG, OPTION_COUNT */
    const char *help; /* one sentence; wrapped when shown */
};

struct option_table {
    const char *usage; /* lines without the word "Usage:" */
    const char *about;
    const struct option_row *rows;
    size_t n_rows;
    const char *examples; /* lines, or NULL */
    bool anywhere;        /* options may also follow the first plain argument */
};

struct option_list {
    char **items; /* owned array of borrowed strings */
    size_t n;
};

struct option_rest {
    char **args; /* borrowed from argv */
    int n;
};

/*
 * Fills target, which the caller zeroed, and *rest with the plain arguments. argv[0] is skipped.
 * Returns 0, 1 if --help was given, or -1.
 */
int options_parse(const struct option_table *table, int argc, char **argv, void *target,
                  struct option_rest *rest, struct err *e);

/* The first call allocates room for max values; argc is always enough. */
int option_list_add(struct option_list *list, char *value, size_t max, struct err *e);
void option_list_release(struct option_list *list);

/* The value of --min-isolation; NULL: not given. */
int option_isolation(const char *word, enum husk_isolation *ret, struct err *e);

/* Help text of --min-isolation. */
#define OPTION_TEXT_ISOLATION                                                                      \
    "full (default): use every layer or fail; userns: accept what the kernel offers without root"

/* Prints each line after a prefix: the first one after `first`, all others after `later`. */
void options_print_lines(FILE *to, const char *first, const char *later, const char *lines);
void options_print_help(const struct option_table *table, FILE *to);
