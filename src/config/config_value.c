/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value: from text into its field and back. config_value_set() reads what config_value_text()
 * writes as the same value. Every message says what was expected.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "config/config_impl.h"

const char *config_quote(const char *text, char dst[CONFIG_QUOTED_MAX])
{
    str_printable(dst, CONFIG_QUOTED_MAX, text, strlen(text));
    for (char *p = dst; *p != '\0'; p++) {
        if (*p == '\n' || *p == '\t') {
            *p = ' ';
        }
    }
    return dst;
}

/* ---- numbers ---- */

static int parse_mode(const char *s, uint64_t *ret)
{
    uint64_t v = 0;

    if (*s == '\0' || strlen(s) > 5 || strspn(s, "01234567") != strlen(s)) {
        return -EINVAL;
    }
    for (; *s != '\0'; s++) {
        v = v * 8 + (uint64_t)(*s - '0');
    }
    *ret = v;
    return 0;
}

static int parse_number(const struct config_row *row, const char *value, bool in_seed_unit,
                        uint64_t *ret)
{
    uint64_t v = 0;

    if (in_seed_unit) {
        int r = parse_u64(value, &v);
        return r < 0 ? r : __builtin_mul_overflow(v, row->seed_unit, ret) ? -ERANGE : 0;
    }
    switch (row->type) {
    case CONFIG_TYPE_SIZE:
        return parse_size(value, ret);
    case CONFIG_TYPE_DURATION:
        return parse_duration_ms(value, ret);
    case CONFIG_TYPE_CPU:
        return parse_milli(value, ret);
    case CONFIG_TYPE_MODE:
        return parse_mode(value, ret);
    default:
        return parse_u64(value, ret);
    }
}

static const char *expected_number(const struct config_row *row, bool in_seed_unit)
{
    if (in_seed_unit) {
        return row->type == CONFIG_TYPE_SIZE ? "a whole number of KB such as 131072"
                                             : "a whole number of seconds such as 300";
    }
    switch (row->type) {
    case CONFIG_TYPE_SIZE:
        return "a size such as 64M or 1G";
    case CONFIG_TYPE_DURATION:
        return "a time such as 5, 500ms or 2m";
    case CONFIG_TYPE_CPU:
        return "a number of cores such as 2 or 0.5";
    case CONFIG_TYPE_MODE:
        return "an octal mode such as 0660";
    default:
        return "a whole number";
    }
}

/* Writes it in the largest unit that divides it. */
static int scaled_text(uint64_t v, const char *const *suffixes, const uint64_t *units, char *dst,
                       size_t size)
{
    size_t i = 0;

    if (v == 0) {
        return str_copy(dst, size, "0");
    }
    while (v % units[i] != 0) {
        i++;
    }
    return str_format(dst, size, "%" PRIu64 "%s", v / units[i], suffixes[i]);
}

int config_number_text(const struct config_row *row, uint64_t v, char *dst, size_t size)
{
    static const char *const size_suffixes[] = {"G", "M", "K", ""};
    static const uint64_t size_units[] = {1 << 30, 1 << 20, 1 << 10, 1};
    static const char *const time_suffixes[] = {"h", "m", "s", "ms"};
    static const uint64_t time_units[] = {3600000, 60000, 1000, 1};

    switch (row->type) {
    case CONFIG_TYPE_SIZE:
        return scaled_text(v, size_suffixes, size_units, dst, size);
    case CONFIG_TYPE_DURATION:
        return scaled_text(v, time_suffixes, time_units, dst, size);
    case CONFIG_TYPE_MODE:
        return str_format(dst, size, "%04" PRIo64, v);
    case CONFIG_TYPE_CPU:
        if (v % 1000 != 0) {
            int r = str_format(dst, size, "%" PRIu64 ".%03u", v / 1000, (unsigned)(v % 1000));
            while (r == 0 && dst[strlen(dst) - 1] == '0') {
                dst[strlen(dst) - 1] = '\0';
            }
            return r;
        }
        return str_format(dst, size, "%" PRIu64, v / 1000);
    default:
        return str_format(dst, size, "%" PRIu64, v);
    }
}

static int set_number(uint64_t *field, const struct config_row *row, const char *value,
                      bool in_seed_unit, struct err *e)
{
    char shown[CONFIG_QUOTED_MAX];
    char least[32];
    char most[32];
    uint64_t v = 0;

    int r = parse_number(row, value, in_seed_unit, &v);
    if (r == -EINVAL) {
        return err_set(e, ERR_INVALID, "'%s' is not %s", config_quote(value, shown),
                       expected_number(row, in_seed_unit));
    }
    if (r < 0 || v < row->least || v > row->most) {
        (void)config_number_text(row, row->least, least, sizeof(least));
        (void)config_number_text(row, row->most, most, sizeof(most));
        return err_set(e, ERR_INVALID, "'%s' is out of range: expected %s to %s",
                       config_quote(value, shown), least, most);
    }
    *field = v;
    return 0;
}

/* ---- words ---- */

static int set_bool(bool *field, const char *value, struct err *e)
{
    char shown[CONFIG_QUOTED_MAX];

    return parse_bool(value, field) < 0
               ? err_set(e, ERR_INVALID, "'%s' is neither true, 1, yes, on nor false, 0, no, off",
                         config_quote(value, shown))
               : 0;
}

/* Sets *ret to the n-th word; returns its length, or 0 if there are fewer. */
static size_t word_at(const char *words, int n, const char **ret)
{
    for (; n > 0 && *words != '\0'; n--) {
        words += strcspn(words, " ");
        words += strspn(words, " ");
    }
    *ret = words;
    return strcspn(words, " ");
}

static int set_choice(int *field, const struct config_row *row, const char *value, struct err *e)
{
    char shown[CONFIG_QUOTED_MAX];
    const char *word;
    size_t n;

    for (int i = 0; (n = word_at(row->choices, i, &word)) > 0; i++) {
        if (strlen(value) == n && strncasecmp(word, value, n) == 0) {
            *field = i;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "'%s' is not one of: %s", config_quote(value, shown),
                   row->choices);
}

/* ---- any value ---- */

static int set_list(struct config *c, enum config_key key, const char *value,
                    enum config_source source, struct err *e)
{
    struct config_list *list = config_field(c, key);
    struct config_list fresh = {0};

    if (c->origin[key].source == source) {
        return config_list_add(list, &config_rows[key], value, e);
    }
    if (config_list_add(&fresh, &config_rows[key], value, e) < 0) {
        config_list_release(&fresh);
        return -1;
    }
    config_list_release(list);
    *list = fresh;
    return 0;
}

int config_value_set(struct config *c, enum config_key key, const char *value,
                     enum config_source source, struct err *e)
{
    const struct config_row *row = &config_rows[key];
    bool in_seed_unit = source == CONFIG_FROM_SEED && row->seed_unit != 0;

    switch (row->type) {
    case CONFIG_TYPE_ADDRESSES:
    case CONFIG_TYPE_HOSTS:
    case CONFIG_TYPE_ORIGINS:
    case CONFIG_TYPE_NAMES:
        return set_list(c, key, value, source, e);
    case CONFIG_TYPE_PATH:
        return config_text_path(config_field(c, key), row, value, source, e);
    case CONFIG_TYPE_ACCOUNT:
        return config_text_account(config_field(c, key), value, e);
    case CONFIG_TYPE_BOOL:
        return set_bool(config_field(c, key), value, e);
    case CONFIG_TYPE_CHOICE:
        return set_choice(config_field(c, key), row, value, e);
    case CONFIG_TYPE_MODE:
    case CONFIG_TYPE_COUNT:
    case CONFIG_TYPE_SIZE:
    case CONFIG_TYPE_DURATION:
    case CONFIG_TYPE_CPU:
        return set_number(config_field(c, key), row, value, in_seed_unit, e);
    }
    return err_set(e, ERR_INVALID, "has no type");
}

static int list_text(const struct config_list *list, const struct config_row *row, struct buf *text)
{
    int r = 0;

    if (list->n == 0) {
        return buf_add_str(text, row->type == CONFIG_TYPE_ADDRESSES ? "none" : "");
    }
    for (size_t i = 0; i < list->n && r == 0; i++) {
        r = buf_printf(text, "%s%s", i > 0 ? ", " : "", list->items[i]);
    }
    return r;
}

static int any_text(const struct config *c, enum config_key key, struct buf *text)
{
    const struct config_row *row = &config_rows[key];
    const void *field = config_field_const(c, key);
    char number[32];
    const char *word;

    if (config_type_is_list(row->type)) {
        return list_text(field, row, text);
    }
    switch (row->type) {
    case CONFIG_TYPE_PATH:
    case CONFIG_TYPE_ACCOUNT:
        return buf_add_str(text, *(char *const *)field);
    case CONFIG_TYPE_BOOL:
        return buf_add_str(text, *(const bool *)field ? "true" : "false");
    case CONFIG_TYPE_CHOICE: {
        size_t n = word_at(row->choices, *(const int *)field, &word);
        return buf_add(text, word, n);
    }
    default:
        (void)config_number_text(row, *(const uint64_t *)field, number, sizeof(number));
        return buf_add_str(text, number);
    }
}

int config_value_text(const struct config *c, enum config_key key, struct buf *text, struct err *e)
{
    buf_consume(text, text->len);
    /* An empty value also needs its NUL. */
    int r = buf_reserve(text, 1);
    if (r == 0) {
        text->data[0] = '\0';
        r = any_text(c, key, text);
    }
    return r < 0 ? err_sys(e, -r, "cannot show %s", config_rows[key].key) : 0;
}

void config_value_release(struct config *c, enum config_key key)
{
    enum config_type type = config_rows[key].type;

    if (config_type_is_list(type)) {
        config_list_release(config_field(c, key));
    } else if (type == CONFIG_TYPE_PATH || type == CONFIG_TYPE_ACCOUNT) {
        char **field = config_field(c, key);

        free(*field);
        *field = NULL;
    }
}
