/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .sandboxrc.json; see sandbox_run.h.
 *
 * Every key is a row of one table. Any other key is an error, so that a mistyped limit is never
 * ignored.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/str.h"
#include "cli/common/hostfile.h"
#include "cli/common/json_text.h"
#include "cli/sandbox_run/sandbox_run.h"

#define CONFIG_NAME ".sandboxrc.json"
#define CONFIG_MAX ((size_t)1 << 20)
#define MEMORY_KB_MIN 16384 /* as in limits_check() */
#define CORES_MAX 64        /* a larger cpu_quota is a percentage: 300 means three cores */

struct sandbox_config sandbox_config_default(void)
{
    return (struct sandbox_config){
        .memory_bytes = (uint64_t)262144 << 10,
        .cpu_milli = 3000,
        .timeout_ms = UINT64_C(300000),
        .format = SANDBOX_PRETTY,
        .level = LOG_WARN,
        .colors = true,
    };
}

static int get_bool(const json_t *v, bool *ret, struct err *e)
{
    if (!json_is_boolean(v)) {
        return err_set(e, ERR_INVALID, "must be true or false");
    }
    *ret = json_is_true(v);
    return 0;
}

static int get_number(const json_t *v, double min, double max, double *ret, struct err *e)
{
    double d = json_is_number(v) ? json_number_value(v) : NAN;

    if (!(d >= min && d <= max)) {
        return err_set(e, ERR_INVALID, "must be a number from %g to %g", min, max);
    }
    *ret = d;
    return 0;
}

static int get_whole(const json_t *v, double min, double max, uint64_t *ret, struct err *e)
{
    double d = json_is_number(v) ? json_number_value(v) : NAN;

    if (!(d >= min && d <= max) || d != floor(d)) {
        return err_set(e, ERR_INVALID, "must be a whole number from %.0f to %.0f", min, max);
    }
    *ret = (uint64_t)d;
    return 0;
}

static int set_network(struct sandbox_config *c, const json_t *v, struct err *e)
{
    bool wanted = false;

    (void)c;
    if (get_bool(v, &wanted, e) < 0) {
        return -1;
    }
    return wanted ? err_set(e, ERR_INVALID, "must be false: sandboxes have no network") : 0;
}

static int set_cpu(struct sandbox_config *c, const json_t *v, struct err *e)
{
    double quota = 0;

    if (get_number(v, 0.01, 100 * 1024, &quota, e) < 0) {
        return -1;
    }
    c->cpu_milli = (uint32_t)lround(quota <= CORES_MAX ? quota * 1000 : quota * 10);
    return 0;
}

static int set_memory(struct sandbox_config *c, const json_t *v, struct err *e)
{
    uint64_t kb = 0;

    if (get_whole(v, MEMORY_KB_MIN, (double)((uint64_t)1 << 30), &kb, e) < 0) {
        return -1;
    }
    c->memory_bytes = kb << 10;
    return 0;
}

static int set_pids(struct sandbox_config *c, const json_t *v, struct err *e)
{
    uint64_t n = 0;

    if (get_whole(v, 1, 32768, &n, e) < 0) {
        return -1;
    }
    c->pids = (uint32_t)n;
    return 0;
}

/* A box of sandbox-run runs one task and is never idle, so every valid bound is kept. */
static int check_bound(struct sandbox_config *c, const json_t *v, struct err *e)
{
    uint64_t ignored = 0;

    (void)c;
    return get_whole(v, 1, INT_MAX, &ignored, e);
}

static int set_timeout(struct sandbox_config *c, const json_t *v, struct err *e)
{
    uint64_t seconds = 0;

    if (get_whole(v, 1, SANDBOX_SECONDS_MAX, &seconds, e) < 0) {
        return -1;
    }
    c->timeout_ms = seconds * 1000;
    return 0;
}

static int set_format(struct sandbox_config *c, const json_t *v, struct err *e)
{
    if (!json_is_string(v) || sandbox_format_parse(json_string_value(v), &c->format) < 0) {
        return err_set(e, ERR_INVALID, "must be \"pretty\", \"json\" or \"yaml\"");
    }
    return 0;
}

static int set_colors(struct sandbox_config *c, const json_t *v, struct err *e)
{
    return get_bool(v, &c->colors, e);
}

static int set_profile(struct sandbox_config *c, const json_t *v, struct err *e)
{
    return get_bool(v, &c->show_profile, e);
}

static int set_level(struct sandbox_config *c, const json_t *v, struct err *e)
{
    if (!json_is_string(v) || sandbox_level_parse(json_string_value(v), &c->level) < 0) {
        return err_set(e, ERR_INVALID, "must be \"DEBUG\", \"INFO\", \"WARNING\" or \"ERROR\"");
    }
    return 0;
}

static const struct config_row {
    const char *section;
    const char *key;
    int (*set)(struct sandbox_config *c, const json_t *v, struct err *e);
} rows[] = {
    {"sandbox", "allow_network", set_network},
    {"sandbox", "cpu_quota", set_cpu},
    {"sandbox", "memory_limit", set_memory},
    {"sandbox", "max_idle_time", check_bound},
    {"sandbox", "max_user_progress", set_pids},
    {"sandbox", "max_task_count", check_bound},
    {"cli", "default_timeout", set_timeout},
    {"cli", "default_format", set_format},
    {"cli", "enable_colors", set_colors},
    {"cli", "show_profile", set_profile},
    {"logging", "level", set_level},
};

static bool is_section(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_eq(rows[i].section, name)) {
            return true;
        }
    }
    return false;
}

static const struct config_row *find_row(const char *section, const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_eq(rows[i].section, section) && str_eq(rows[i].key, key)) {
            return &rows[i];
        }
    }
    return NULL;
}

static int apply_section(struct sandbox_config *c, const char *section, json_t *keys, struct err *e)
{
    const char *key;
    json_t *value;

    if (!is_section(section)) {
        return err_set(e, ERR_INVALID, "unknown section \"%s\": use sandbox, cli or logging",
                       section);
    }
    if (!json_is_object(keys)) {
        return err_set(e, ERR_INVALID, "%s must be an object", section);
    }
    json_object_foreach(keys, key, value)
    {
        const struct config_row *row = find_row(section, key);

        if (row == NULL) {
            return err_set(e, ERR_INVALID, "unknown key %s.%s", section, key);
        }
        if (row->set(c, value, e) < 0) {
            return err_wrap(e, "%s.%s", section, key);
        }
    }
    return 0;
}

/* The engine checks these, too, but its message does not name the file. */
static int check_ranges(const struct sandbox_config *c, struct err *e)
{
    struct limits l = {.memory_bytes = c->memory_bytes, .cpu_milli = c->cpu_milli, .pids = c->pids};

    limits_fill(&l);
    return limits_check(&l, e);
}

static int apply_all(struct sandbox_config *c, json_t *root, struct err *e)
{
    const char *section;
    json_t *keys;

    if (!json_is_object(root)) {
        return err_set(e, ERR_INVALID, "must be an object");
    }
    json_object_foreach(root, section, keys)
    {
        if (apply_section(c, section, keys, e) < 0) {
            return -1;
        }
    }
    return check_ranges(c, e);
}

int sandbox_config_parse(struct sandbox_config *c, const char *text, size_t n, struct err *e)
{
    struct sandbox_config fresh = *c;

    json_t *root = json_text_load(text, n, "the configuration", e);
    if (root == NULL) {
        return -1;
    }
    int r = apply_all(&fresh, root, e);
    json_decref(root);
    if (r == 0) {
        *c = fresh;
    }
    return r;
}

/* Returns 1 if the file was read, 0 if there is none. */
static int load_file(struct sandbox_config *c, const char *path, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(CONFIG_MAX);

    if (hostfile_read(path, &text, e) < 0) {
        return e->code == ERR_NOT_FOUND ? 0 : -1;
    }
    if (sandbox_config_parse(c, text.data != NULL ? text.data : "", text.len, e) < 0) {
        return err_wrap(e, "%s", path);
    }
    return 1;
}

int sandbox_config_load(struct sandbox_config *c, struct err *e)
{
    const char *home = getenv("HOME");
    char path[PATH_MAX];

    int r = load_file(c, CONFIG_NAME, e);
    if (r != 0 || home == NULL || home[0] == '\0') {
        return r < 0 ? -1 : 0;
    }
    if (str_format(path, sizeof(path), "%s/%s", home, CONFIG_NAME) < 0) {
        return err_set(e, ERR_INVALID, "the path of the home directory is too long: %s", home);
    }
    return load_file(c, path, e) < 0 ? -1 : 0;
}
