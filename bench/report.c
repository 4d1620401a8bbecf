/* SPDX-License-Identifier: Apache-2.0 */
/* Table and JSON; see report.h. */
#include "report.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/str.h"

#define COLUMNS 9
#define CELL 80

static const char *const headings[COLUMNS] = {"id",    "what",  "husk p50", "peer",   "peer p50",
                                              "ratio", "floor", "goal",     "reached"};

void report_add(struct report *report, const struct row *row)
{
    if (report->n < REPORT_ROWS_MAX) {
        report->rows[report->n++] = *row;
    }
}

static bool has_ratio(const struct row *row)
{
    return row->peer.n > 0 && row->peer.p50 > 0;
}

static double ratio(const struct row *row)
{
    return row->ours.p50 / row->peer.p50;
}

static bool reaches(const struct bar *bar, double figure, double limit)
{
    return bar->kind == BAR_AT_MOST ? figure <= limit : figure >= limit;
}

enum verdict row_verdict(const struct row *row)
{
    const struct bar *bar = &row->bar;

    if (bar->kind == BAR_NONE) {
        return row->absent[0] != '\0' ? VERDICT_ABSENT : VERDICT_NONE;
    }
    if (row->ours.n == 0 || (!bar->absolute && !has_ratio(row))) {
        return VERDICT_ABSENT;
    }
    double figure = bar->absolute ? row->ours.p50 : ratio(row);
    if (!reaches(bar, figure, bar->floor)) {
        return VERDICT_MISS;
    }
    return reaches(bar, figure, bar->goal) ? VERDICT_GOAL : VERDICT_FLOOR;
}

static void put_value(char cell[CELL], const struct summary *s, const char *unit)
{
    if (s->n == 0) {
        (void)str_copy(cell, CELL, "-");
        return;
    }
    bool whole = s->p50 >= 100 || s->p50 == (double)(long)s->p50;
    int decimals = whole ? 0 : s->p50 < 10 ? 3 : 1;
    (void)str_format(cell, CELL, "%.*f %s", decimals, s->p50, unit);
}

/* "0.28", "12.5", and small ones as people say them: "1/95". */
static void put_ratio(char cell[CELL], double r)
{
    if (r >= 0.2 || r <= 0) {
        (void)str_format(cell, CELL, "%.*f", r < 10 ? 2 : 1, r);
    } else {
        (void)str_format(cell, CELL, "1/%.0f", 1 / r);
    }
}

static void put_limit(char cell[CELL], const struct row *row, double value)
{
    char text[CELL];

    if (row->bar.absolute) {
        (void)str_format(text, sizeof(text), "%g %s", value, row->unit);
    } else {
        put_ratio(text, value);
    }
    (void)str_format(cell, CELL, "%s %.60s", row->bar.kind == BAR_AT_MOST ? "<=" : ">=", text);
}

static void put_row(char cells[COLUMNS][CELL], const struct row *row)
{
    static const char *const verdicts[] = {
        [VERDICT_NONE] = "-",      [VERDICT_ABSENT] = "absent", [VERDICT_MISS] = "FLOOR MISSED",
        [VERDICT_FLOOR] = "floor", [VERDICT_GOAL] = "goal",
    };

    for (int i = 0; i < COLUMNS; i++) {
        (void)str_copy(cells[i], CELL, "-");
    }
    (void)str_copy(cells[0], CELL, row->id);
    (void)str_copy(cells[1], CELL, row->what);
    put_value(cells[2], &row->ours, row->unit);
    if (row->peer_name[0] != '\0') {
        (void)str_copy(cells[3], CELL, row->peer_name);
    }
    put_value(cells[4], &row->peer, row->unit);
    if (has_ratio(row)) {
        put_ratio(cells[5], ratio(row));
    }
    if (row->bar.kind != BAR_NONE) {
        put_limit(cells[6], row, row->bar.floor);
        put_limit(cells[7], row, row->bar.goal);
    }
    (void)str_copy(cells[8], CELL, verdicts[row_verdict(row)]);
}

static void print_line(FILE *to, char cells[COLUMNS][CELL], const size_t widths[COLUMNS],
                       bool markdown)
{
    fputs(markdown ? "| " : "", to);
    for (int i = 0; i < COLUMNS - 1; i++) {
        fprintf(to, "%-*s%s", (int)widths[i], cells[i], markdown ? " | " : "  ");
    }
    fprintf(to, "%s%s\n", cells[COLUMNS - 1], markdown ? " |" : "");
}

void report_table(const struct report *report, FILE *to, bool markdown)
{
    char cells[COLUMNS][CELL];
    size_t widths[COLUMNS] = {0};

    for (int i = 0; i < COLUMNS; i++) {
        widths[i] = strlen(headings[i]);
    }
    for (size_t r = 0; r < report->n; r++) {
        put_row(cells, &report->rows[r]);
        for (int i = 0; i < COLUMNS; i++) {
            widths[i] = MAX(widths[i], strlen(cells[i]));
        }
    }
    for (int i = 0; i < COLUMNS; i++) {
        (void)str_copy(cells[i], CELL, headings[i]);
    }
    print_line(to, cells, widths, markdown);
    for (int i = 0; i < COLUMNS; i++) {
        memset(cells[i], '-', widths[i]);
        cells[i][widths[i]] = '\0';
    }
    print_line(to, cells, widths, markdown);
    for (size_t r = 0; r < report->n; r++) {
        put_row(cells, &report->rows[r]);
        print_line(to, cells, widths, markdown);
    }
}

/* Names the rows with this verdict and returns how many there are. */
static int name_rows(const struct report *report, FILE *to, enum verdict verdict, const char *what)
{
    int n = 0;

    for (size_t i = 0; i < report->n; i++) {
        const struct row *row = &report->rows[i];
        if (row_verdict(row) == verdict) {
            fprintf(to, "%s: %s %s%s%s\n", what, row->id, row->what,
                    row->peer_name[0] != '\0' ? ", " : "", row->peer_name);
            n++;
        }
    }
    return n;
}

int report_conclude(const struct report *report, FILE *to)
{
    report_table(report, to, false);
    for (size_t i = 0; i < report->n; i++) {
        const struct row *row = &report->rows[i];
        if (row->absent[0] != '\0') {
            fprintf(to, "%s: %s: %s\n", row->id, row->peer_name, row->absent);
        }
    }
    (void)name_rows(report, to, VERDICT_FLOOR, "goal not reached");
    int missed = name_rows(report, to, VERDICT_MISS, "FLOOR MISSED");
    if (report->failed > 0) {
        fprintf(to, "%d benchmarks could not be carried out; the reasons are above\n",
                report->failed);
    }
    return missed > 0 || report->failed > 0 ? 1 : 0;
}

static json_t *summary_json(const struct summary *s, const char *unit)
{
    return json_pack("{s:f, s:f, s:f, s:I, s:s}", "min", s->min, "p50", s->p50, "p99", s->p99,
                     "samples", (json_int_t)s->n, "unit", unit);
}

static json_t *begin_entry(const struct row *row)
{
    return json_pack("{s:s, s:s, s:o, s:{}, s:{}, s:{}, s:{}, s:n}", "id", row->id, "what",
                     row->what, "ours", summary_json(&row->ours, row->unit), "peers", "ratio",
                     "floor", "goal", "pass");
}

static void add_limit(json_t *entry, const char *name, const struct row *row, double value)
{
    const char *side = row->bar.kind == BAR_AT_MOST ? "at_most" : "at_least";
    const char *key = row->bar.absolute ? "absolute" : row->peer_name;

    json_object_set_new(json_object_get(entry, name), key, json_pack("{s:f}", side, value));
}

/* The rows of one benchmark share an entry. "pass" stays null when no floor could be judged. */
static void add_to_entry(json_t *entry, const struct row *row)
{
    enum verdict v = row_verdict(row);
    const json_t *pass = json_object_get(entry, "pass");

    if (row->peer_name[0] != '\0') {
        json_t *peer = row->absent[0] != '\0' ? json_pack("{s:s}", "absent", row->absent)
                                              : summary_json(&row->peer, row->unit);
        json_object_set_new(json_object_get(entry, "peers"), row->peer_name, peer);
    }
    if (has_ratio(row)) {
        json_object_set_new(json_object_get(entry, "ratio"), row->peer_name, json_real(ratio(row)));
    }
    if (row->bar.kind != BAR_NONE) {
        add_limit(entry, "floor", row, row->bar.floor);
        add_limit(entry, "goal", row, row->bar.goal);
    }
    if (v == VERDICT_MISS) {
        json_object_set_new(entry, "pass", json_false());
    } else if (v >= VERDICT_FLOOR && !json_is_false(pass)) {
        json_object_set_new(entry, "pass", json_true());
    }
}

int report_json(const struct report *report, const char *path, struct err *e)
{
    json_t *list = json_array();
    json_t *entry = NULL;

    for (size_t i = 0; i < report->n; i++) {
        const struct row *row = &report->rows[i];
        const struct row *before = i > 0 ? &report->rows[i - 1] : NULL;
        if (before == NULL || !str_eq(before->id, row->id) || !str_eq(before->what, row->what)) {
            entry = begin_entry(row);
            json_array_append_new(list, entry);
        }
        add_to_entry(entry, row);
    }
    int r = json_dump_file(list, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(list);
    return r < 0 ? err_sys(e, errno, "write %s", path) : 0;
}
