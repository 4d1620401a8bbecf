/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a template file that a client's definition asks for.
 *
 * A client's template is made from one of the operator's. It chooses modules that this one offers,
 * variables of the code that runs in its boxes, and limits. It can never name a path of the host.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/str.h"
#include "service/service_impl.h"

static bool is_one_line(const char *s)
{
    while (*s != '\0' && !iscntrl((unsigned char)*s)) {
        s++;
    }
    return *s == '\0';
}

/* One line of the file: a value that could begin another one is refused. */
static int add(struct buf *b, const char *key, const char *value, struct err *e)
{
    if (!is_one_line(value)) {
        return err_set(e, ERR_INVALID, "%s must be one line of plain text", key);
    }
    return buf_printf(b, "%s = %s\n", key, value) < 0
               ? err_set(e, ERR_INVALID, "the template is too long")
               : 0;
}

/* A base that is a client's own has its operator's template, modules and variables of its own. */
static int add_base(struct buf *b, const struct template_def *base, struct err *e)
{
    if (add(b, "base", base->base[0] != '\0' ? base->base : base->info.name, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < base->n_run_env; i++) {
        if (add(b, "env", base->run_env[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int add_preload(struct buf *b, const struct template_def *base, const json_t *names,
                       struct err *e)
{
    AUTO_BUF struct buf line = BUF_INIT(2000);
    size_t i;
    json_t *name;
    int r = base->base[0] != '\0' ? buf_add_str(&line, base->info.preload) : 0;

    json_array_foreach(names, i, name)
    {
        r = r < 0 ? r : buf_printf(&line, "%s%s", line.len > 0 ? " " : "", json_string_value(name));
    }
    if (r < 0) {
        return err_set(e, ERR_INVALID, "preload is too long");
    }
    return line.len > 0 ? add(b, "preload", line.data, e) : 0;
}

static int add_env(struct buf *b, json_t *env, struct err *e)
{
    const char *name;
    json_t *value;

    json_object_foreach(env, name, value)
    {
        char text[512];
        if (str_format(text, sizeof(text), "%s=%s", name, json_string_value(value)) < 0) {
            return err_set(e, ERR_INVALID, "default_env_vars: %s is too long", name);
        }
        if (!is_one_line(text)) {
            return err_set(e, ERR_INVALID, "default_env_vars: %s must be one line of plain text",
                           name);
        }
        if (add(b, "env", text, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int add_limits(struct buf *b, const json_t *d, struct err *e)
{
    json_int_t memory = json_integer_value(json_object_get(d, "default_memory_mb"));
    json_int_t disk = json_integer_value(json_object_get(d, "default_disk_mb"));
    double cpus = json_number_value(json_object_get(d, "default_cpu_cores"));
    char text[32];

    /* A workspace lives in the box's memory, so it can never be larger than a part of that. */
    if (memory > 0) {
        disk = MIN(disk, (json_int_t)(limits_disk_max((uint64_t)memory * MIB) / MIB));
        (void)str_format(text, sizeof(text), "%lldM", (long long)memory);
        if (add(b, "memory", text, e) < 0) {
            return -1;
        }
    }
    if (disk > 0) {
        (void)str_format(text, sizeof(text), "%lldM", (long long)disk);
        if (add(b, "disk", text, e) < 0) {
            return -1;
        }
    }
    if (cpus > 0) {
        (void)str_format(text, sizeof(text), "%.3f", cpus);
        return add(b, "cpus", text, e);
    }
    return 0;
}

int template_write(const struct template_def *base, const json_t *d, struct buf *b, struct err *e)
{
    const char *about = json_string_value(json_object_get(d, "description"));

    if (about != NULL && !is_one_line(about)) {
        return err_set(e, ERR_INVALID, "description must be one line of plain text");
    }
    if ((about != NULL && about[0] != '\0' && add(b, "about", about, e) < 0) ||
        add_base(b, base, e) < 0 || add_preload(b, base, json_object_get(d, "preload"), e) < 0 ||
        add_env(b, json_object_get(d, "default_env_vars"), e) < 0) {
        return -1;
    }
    return add_limits(b, d, e);
}

int template_compose(struct service *svc, const json_t *d, struct buf *b, struct err *e)
{
    const char *base_name = json_string_value(json_object_get(d, "base"));
    AUTO_FREE struct template_def *base = malloc(sizeof(*base));

    if (base == NULL) {
        return err_sys(e, ENOMEM, "template");
    }
    return template_find(engine_dirs(svc->engine), base_name != NULL ? base_name : "python", base,
                         e) < 0
               ? -1
               : template_write(base, d, b, e);
}
