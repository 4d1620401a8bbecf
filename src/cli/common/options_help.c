/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the help text of an option table; see options.h. */
#include <string.h>

#include "base/str.h"
#include "cli/common/options.h"

#define HELP_WIDTH 80
#define NAME_COLUMN_MAX 28

/* "  -t, --timeout TIME" */
static void label(const struct option_row *row, char *dst, size_t size)
{
    char letter[8] = "    ";

    if (row->letter != 0) {
        (void)str_format(letter, sizeof(letter), "-%c, ", row->letter);
    }
    (void)str_format(dst, size, "  %s--%s%s%s", letter, row->name, row->arg != NULL ? " " : "",
                     row->arg != NULL ? row->arg : "");
}

static int name_column(const struct option_table *table)
{
    char text[64];
    size_t widest = 0;

    for (size_t i = 0; i < table->n_rows; i++) {
        if (table->rows[i].type != OPTION_GROUP) {
            label(&table->rows[i], text, sizeof(text));
            widest = MAX(widest, strlen(text));
        }
    }
    return (int)MIN(widest, NAME_COLUMN_MAX);
}

/* Prints words up to the width; lines after the first start at the given column. */
static void print_wrapped(FILE *to, const char *text, int column)
{
    int at = column;

    while (*text != '\0') {
        int n = (int)strcspn(text, " ");

        if (at > column && at + 1 + n > HELP_WIDTH) {
            fprintf(to, "\n%*s", column, "");
            at = column;
        }
        at += fprintf(to, "%s%.*s", at > column ? " " : "", n, text);
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

void options_print_lines(FILE *to, const char *first, const char *later, const char *lines)
{
    while (*lines != '\0') {
        int n = (int)strcspn(lines, "\n");

        fprintf(to, "%s%.*s\n", first, n, lines);
        first = later;
        lines += n;
        lines += *lines == '\n';
    }
}

void options_print_help(const struct option_table *table, FILE *to)
{
    int column = name_column(table) + 2;

    options_print_lines(to, "Usage: ", "       ", table->usage);
    fputc('\n', to);
    print_wrapped(to, table->about, 0);
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct option_row *row = &table->rows[i];
        char text[64];

        if (row->type == OPTION_GROUP) {
            fprintf(to, "\n%s:\n", row->name);
            continue;
        }
        label(row, text, sizeof(text));
        if ((int)strlen(text) > column - 2) {
            fprintf(to, "%s\n%*s", text, column, "");
        } else {
            fprintf(to, "%-*s", column, text);
        }
        print_wrapped(to, row->help, column);
    }
    if (table->examples != NULL) {
        fputs("\nExamples:\n", to);
        options_print_lines(to, "  ", "  ", table->examples);
    }
}
