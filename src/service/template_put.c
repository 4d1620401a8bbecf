/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates that clients make: a record in the store and a file in DATA/templates, where the engine finds it.
 *
 * A client's template takes root, runtime and mounts from one that the operator made; it can say what is imported ahead, variables
 * and limits. It can never name a path of the host.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "service/impl.h"

#define FILE_MAX 65000

static int path_of(struct service *svc, const char *name, const char *suffix, char *ret,
                   size_t size, struct err *e)
{
    return str_format(ret, size, "%s/templates/%s%s", svc->config->data, name, suffix) < 0
               ? err_set(e, ERR_INVALID, "the path of the data folder is too long")
               : 0;
}

/* One line of the file: a value that could begin another one is refused. */
static int add(struct buf *b, const char *key, const char *value, struct err *e)
{
    for (const char *p = value; *p != '\0'; p++) {
        if (iscntrl((unsigned char)*p)) {
            return err_set(e, ERR_INVALID, "%s must be one line of plain text", key);
        }
    }
    return buf_printf(b, "%s = %s\n", key, value) < 0
               ? err_set(e, ERR_INVALID, "the template is too long")
               : 0;
}

static int add_base(struct buf *b, const struct template_def *base, struct err *e)
{
    static const char *const languages[] = {"python", "shell", "javascript"};

    if (add(b, "language", languages[base->info.language], e) < 0 ||
        add(b, "runtime", base->info.runtime, e) < 0 ||
        add(b, "root", base->host_root ? "host" : base->root, e) < 0 ||
        add(b, "seccomp", base->seccomp, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < base->n_mounts; i++) {
        if (buf_printf(b, "mount = %s %s\n", base->mounts[i].host, base->mounts[i].box) < 0) {
            return err_set(e, ERR_INVALID, "the template is too long");
        }
    }
    for (size_t i = 0; i < base->n_env; i++) {
        if (add(b, "env", base->env[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int add_preload(struct buf *b, const json_t *names, struct err *e)
{
    AUTO_BUF struct buf line = BUF_INIT(2000);
    size_t i;
    json_t *name;

    json_array_foreach(names, i, name)
    {
        if (buf_printf(&line, "%s%s", i > 0 ? " " : "", json_string_value(name)) < 0) {
            return err_set(e, ERR_INVALID, "preload is too long");
        }
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
        disk = disk > 0 ? MIN(disk, memory * 3 / 4) : 0;
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
        (void)str_format(text, sizeof(text), "%.2f", cpus);
        return add(b, "cpus", text, e);
    }
    return 0;
}

static int compose(struct service *svc, const json_t *d, struct buf *b, struct err *e)
{
    const char *base_name = json_string_value(json_object_get(d, "base"));
    const char *about = json_string_value(json_object_get(d, "description"));
    AUTO_FREE struct template_def *base = malloc(sizeof(*base));

    if (base == NULL) {
        return err_sys(e, ENOMEM, "template");
    }
    if (template_find(svc->engine->template_dir, base_name != NULL ? base_name : "python", base,
                      e) < 0) {
        return -1;
    }
    if ((about != NULL && about[0] != '\0' && add(b, "about", about, e) < 0) ||
        add_base(b, base, e) < 0 || add_preload(b, json_object_get(d, "preload"), e) < 0 ||
        add_env(b, json_object_get(d, "default_env_vars"), e) < 0) {
        return -1;
    }
    return add_limits(b, d, e);
}

static int write_file(struct service *svc, const char *name, const struct buf *b, struct err *e)
{
    char path[4400];
    char temporary[4400];

    if (path_of(svc, name, ".template", path, sizeof(path), e) < 0 ||
        path_of(svc, name, ".new", temporary, sizeof(temporary), e) < 0) {
        return -1;
    }
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && fd_write_all(fd, b->data, b->len) == 0 && fsync(fd) == 0;
    fd_close(&fd);
    if (!ok || rename(temporary, path) < 0) {
        err_sys(e, errno, "write template %s", name);
        (void)unlink(temporary);
        e->code = ERR_STORAGE;
        return -1;
    }
    return 0;
}

/* Boxes that were made from an older definition live on; new ones come from another zygote. */
static void retire(struct service *svc, const char *name)
{
    for (struct live_template *t = svc->engine->templates; t != NULL; t = t->next) {
        t->retired = t->retired || str_eq(t->name, name);
    }
}

static bool has_boxes(const struct husk_engine *engine, const struct live_template *live)
{
    for (size_t i = 0; i < ENGINE_BOXES_MAX; i++) {
        const struct guest *g = engine->guests[i];
        if (g != NULL && g->live == live && !g->in_pool) {
            return true;
        }
    }
    return false;
}

static bool is_busy(const struct live_template *live)
{
    bool busy = live->starting_up;

    for (const struct pool *p = live->pools; p != NULL; p = p->next) {
        busy = busy || p->busy || p->stats.starting > 0;
    }
    return busy;
}

void templates_sweep(struct service *svc)
{
    struct live_template *next;

    for (struct live_template *t = svc->engine->templates; t != NULL; t = next) {
        next = t->next;
        if (t->retired && !is_busy(t) && !has_boxes(svc->engine, t)) {
            live_close(svc->engine, t);
            return; /* it waited for the launcher: the list may be another one now */
        }
    }
}

int service_template_put(struct service *svc, const char *name, const json_t *definition,
                         bool must_be_new, struct err *e)
{
    AUTO_BUF struct buf b = BUF_INIT(FILE_MAX);
    AUTO_FREE struct template_def *there = malloc(sizeof(*there));
    struct store_template *row = NULL;
    struct err ignored = {0};

    if (there == NULL) {
        return err_sys(e, ENOMEM, "template");
    }
    bool exists = template_find(svc->engine->template_dir, name, there, &ignored) == 0;
    bool ours = store_get_template(svc->store, name, &row, &ignored) == 0;
    store_template_free(row);
    if (exists && (must_be_new || !ours)) {
        return err_set(e, ERR_EXISTS, "there is a template %s already", name);
    }
    if (compose(svc, definition, &b, e) < 0 || write_file(svc, name, &b, e) < 0) {
        return -1;
    }
    retire(svc, name);
    char *text = json_dumps(definition, JSON_COMPACT);
    struct store_template record = {.name = name,
                                    .created_ms = clock_wall_ms(),
                                    .updated_ms = clock_wall_ms(),
                                    .definition = text};
    struct store_batch *batch = text != NULL ? store_batch_new(svc->store) : NULL;
    if (batch != NULL) {
        store_put_template(batch, &record);
    }
    int r = service_commit(svc, batch, NULL, e);
    free(text);
    return r;
}

int service_template_delete(struct service *svc, const char *name, struct err *e)
{
    struct store_template *row = NULL;
    struct session *s;
    struct session *next;
    char path[4400];

    if (store_get_template(svc->store, name, &row, e) < 0) {
        return err_set(e, ERR_NOT_FOUND, "there is no template %s that a client made", name);
    }
    store_template_free(row);
    for (s = svc->sessions, next = session_next(s); s != NULL; s = next, next = session_next(s)) {
        if (str_eq(s->record.template, name)) {
            return err_set(e, ERR_CONFLICT, "template %s is used by session %s", name, s->id);
        }
    }
    if (path_of(svc, name, ".template", path, sizeof(path), e) < 0) {
        return -1;
    }
    retire(svc, name);
    struct store_batch *batch = store_batch_new(svc->store);
    if (batch != NULL) {
        store_delete_template(batch, name);
    }
    if (service_commit(svc, batch, NULL, e) < 0) {
        return -1;
    }
    if (unlink(path) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "remove template %s", name);
    }
    return 0;
}
