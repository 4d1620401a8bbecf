/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads settings: walks the sources from the weakest to the strongest and collects all errors; see
 * config.h. Must not stop at the first error, nor return a configuration that has one.
 */
#include "config/config.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "config/config_impl.h"

#define REPORT_MAX ((size_t)256 << 10)

struct config_input config_input_here(void)
{
    return (struct config_input){
        .env = environ,
        .system_file = CONFIG_SYSTEM_FILE,
        .is_root = geteuid() == 0,
    };
}

/* ---- report ---- */

PRINTF_LIKE(2, 0) static void add_line(struct buf *lines, const char *fmt, va_list args)
{
    char text[1024];

    (void)vsnprintf(text, sizeof(text), fmt, args); /* cut if it is too long */
    lines->max = REPORT_MAX;
    (void)buf_printf(lines, "%s\n", text); /* counted even when the buffer is full */
}

void config_error(struct config_report *report, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    add_line(&report->errors, fmt, args);
    va_end(args);
    report->n_errors++;
}

void config_warning(struct config_report *report, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    add_line(&report->warnings, fmt, args);
    va_end(args);
    report->n_warnings++;
}

void config_report_release(struct config_report *report)
{
    buf_release(&report->errors);
    buf_release(&report->warnings);
    *report = (struct config_report){0};
}

/* ---- where values come from ---- */

static void origin_text(const struct config *c, enum config_key key, struct config_origin origin,
                        char *dst, size_t size)
{
    const struct config_row *row = &config_rows[key];
    char name[CONFIG_NAME_MAX];

    switch (origin.source) {
    case CONFIG_FROM_DEFAULT:
        (void)str_copy(dst, size, "default");
        return;
    case CONFIG_FROM_SEED:
        (void)str_copy(dst, size, row->seed);
        return;
    case CONFIG_FROM_FILE:
        (void)snprintf(dst, size, "%s:%u", c->file, origin.line);
        return;
    case CONFIG_FROM_ENV:
        config_env_name(row, name);
        (void)str_copy(dst, size, name);
        return;
    case CONFIG_FROM_FLAG:
        (void)snprintf(dst, size, "--%s", row->flag);
        return;
    }
}

void config_origin_text(const struct config *c, enum config_key key, char *dst, size_t size)
{
    origin_text(c, key, c->origin[key], dst, size);
}

void config_apply(struct config_loader *l, enum config_key key, const char *value,
                  struct config_origin origin)
{
    struct err e;
    char place[512];

    bool is_right = config_value_set(l->c, key, value, origin.source, &e) == 0;
    if (key == CONFIG_data && (!is_right || origin.source != CONFIG_FROM_DEFAULT)) {
        l->data_wrong = !is_right; /* a default does not correct a wrong value */
    }
    if (is_right) {
        l->c->origin[key] = origin;
        return;
    }
    origin_text(l->c, key, origin, place, sizeof(place));
    if (origin.source == CONFIG_FROM_FILE || origin.source == CONFIG_FROM_DEFAULT) {
        config_error(l->report, "%s: %s: %s", place, config_rows[key].key, e.msg);
    } else {
        config_error(l->report, "%s: %s", place, e.msg);
    }
}

/* ---- loading ---- */

static void read_defaults(struct config_loader *l)
{
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        if (config_rows[key].fallback != NULL) {
            config_apply(l, key, config_rows[key].fallback, (struct config_origin){0});
        }
    }
}

static void read_flags(struct config_loader *l)
{
    for (size_t i = 0; i < l->in->n_flags; i++) {
        config_apply(l, l->in->flags[i].key, l->in->flags[i].value,
                     (struct config_origin){.source = CONFIG_FROM_FLAG});
    }
}

static bool knows_data(const struct config_loader *l)
{
    return l->c->data != NULL && !l->data_wrong &&
           (!l->file_unread || l->c->origin[CONFIG_data].source > CONFIG_FROM_FILE);
}

int config_load(const struct config_input *in, struct config *c, struct config_report *report,
                struct err *e)
{
    struct config_loader l = {.in = in, .c = c, .report = report};

    read_defaults(&l);
    config_read_seed(&l);
    config_read_file(&l);
    config_read_env(&l);
    read_flags(&l);
    config_default_rest(&l);
    if (report->n_errors == 0) { /* a missing value would make the comparison misleading */
        config_check(c, report);
    }
    if (report->n_errors > 0 && !(in->only_data && knows_data(&l))) {
        config_release(c);
        return err_set(e, ERR_INVALID, "%u %s wrong in the configuration", report->n_errors,
                       report->n_errors == 1 ? "thing is" : "things are");
    }
    return 0;
}

void config_release(struct config *c)
{
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        config_value_release(c, key);
    }
    free(c->file);
    *c = (struct config){0};
}

/* ---- reloading ---- */

static size_t field_size(enum config_type type)
{
    if (config_type_is_list(type)) {
        return sizeof(struct config_list);
    }
    switch (type) {
    case CONFIG_TYPE_PATH:
    case CONFIG_TYPE_ACCOUNT:
        return sizeof(char *);
    case CONFIG_TYPE_BOOL:
        return sizeof(bool);
    case CONFIG_TYPE_CHOICE:
        return sizeof(int);
    default:
        return sizeof(uint64_t);
    }
}

static bool is_same(const struct config *a, const struct config *b, enum config_key key)
{
    enum config_type type = config_rows[key].type;
    const void *x = config_field_const(a, key);
    const void *y = config_field_const(b, key);

    if (config_type_is_list(type)) {
        const struct config_list *p = x;
        const struct config_list *q = y;
        bool same = p->n == q->n;

        for (size_t i = 0; same && i < p->n; i++) {
            same = str_eq(p->items[i], q->items[i]);
        }
        return same;
    }
    if (type == CONFIG_TYPE_PATH || type == CONFIG_TYPE_ACCOUNT) {
        return str_eq(*(char *const *)x, *(char *const *)y);
    }
    return memcmp(x, y, field_size(type)) == 0;
}

static void swap_bytes(void *a, void *b, size_t n)
{
    char kept[sizeof(struct config_list)];

    memcpy(kept, a, n);
    memcpy(a, b, n);
    memcpy(b, kept, n);
}

void config_reload(struct config *live, struct config *fresh, struct config_report *report)
{
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        const struct config_row *row = &config_rows[key];

        if (!row->reload && !is_same(live, fresh, key)) {
            config_warning(report, "%s has changed; the new value takes effect after a restart",
                           row->key);
        }
        if (row->reload) {
            swap_bytes(config_field(live, key), config_field(fresh, key), field_size(row->type));
            swap_bytes(&live->origin[key], &fresh->origin[key], sizeof(live->origin[key]));
        }
    }
    swap_bytes(&live->file, &fresh->file, sizeof(live->file));
}
