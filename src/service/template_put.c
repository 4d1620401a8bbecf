/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates that clients make: a record in the store and a file in DATA/templates, where the
 * engine finds it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "service/service_impl.h"

#define FILE_MAX 65000

/* Under the temporary name, on the disk. */
static int write_temporary(const char *temporary, const char *name, const struct buf *b,
                           struct err *e)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int rc = fd < 0 ? -errno : fd_write_all(fd, b->data, b->len);

    if (rc == 0 && fsync(fd) < 0) {
        rc = -errno;
    }
    fd_close(&fd);
    if (rc < 0) {
        (void)unlink(temporary);
        return err_disk(e, -rc, "write template %s", name);
    }
    return 0;
}

/* ---- changes: the record and the file of a template go together ---- */

/*
 * How it works: what is to become of the file waits under its temporary name until the record is
 * durable, then one rename makes it so. A daemon that is killed in between leaves the temporary
 * file behind, and templates_settle() puts the file right by the record. One change at a time.
 */
struct template_paths {
    char file[DATA_PATH_SIZE];
    char temporary[DATA_PATH_SIZE];
};

static void find_paths(const struct service *svc, const char *name, struct template_paths *ret)
{
    data_file_path(svc->config, DATA_TEMPLATES, name, ".template", ret->file);
    data_file_path(svc->config, DATA_TEMPLATES, name, ".new", ret->temporary);
}

static void begin_change(struct service *svc)
{
    while (svc->template_changes) {
        (void)fiber_queue_wait(&svc->template_line, -1);
    }
    svc->template_changes = true;
}

static void end_change(struct service *svc)
{
    svc->template_changes = false;
    fiber_queue_wake_all(&svc->template_line);
}

/* row: NULL removes the record. */
static int record(struct service *svc, const char *name, const struct store_template *row,
                  struct err *e)
{
    struct store_batch *batch = store_batch_new(svc->store);

    if (batch != NULL && row != NULL) {
        store_put_template(batch, row);
    } else if (batch != NULL) {
        store_delete_template(batch, name);
    }
    return service_commit(svc, batch, NULL, e);
}

/*
 * old: the record before, or NULL. If it cannot be put back either, the next start goes on from the
 * record.
 */
static int place_file(struct service *svc, const char *name, const struct template_paths *paths,
                      const struct store_template *old, struct err *e)
{
    struct err ignored;

    if (rename(paths->temporary, paths->file) == 0) {
        return 0;
    }
    err_disk(e, errno, "write template %s", name);
    if (record(svc, name, old, &ignored) == 0) {
        (void)unlink(paths->temporary);
    }
    return -1;
}

/* NULL: there is none. To be freed. */
static struct store_template *find_record(struct service *svc, const char *name)
{
    struct store_template *row = NULL;
    struct err ignored = {0};

    return store_get_template(svc->store, name, &row, &ignored) == 0 ? row : NULL;
}

/* Each is a file that every listing reads. */
static int check_count(struct service *svc, struct err *e)
{
    int64_t n = 0;

    if (store_count_templates(svc->store, &n, e) < 0) {
        return -1;
    }
    return (uint64_t)n < svc->config->max_templates
               ? 0
               : err_set(e, ERR_LIMIT,
                         "there are %lld templates of clients, the most that this server takes: "
                         "delete one, or raise max_templates",
                         (long long)n);
}

/* A template file has room for so much, and what its base has of a client is in it. */
static int check_room(const struct template_def *base, const json_t *definition, struct err *e)
{
    json_t *env = json_object_get(definition, "default_env_vars");
    size_t bytes = 0;
    const char *name;
    json_t *value;
    size_t i;

    if (base->n_run_env + json_object_size(env) > TEMPLATE_LIST_MAX) {
        return err_set(e, ERR_INVALID,
                       "default_env_vars can be at most %zu: a template has %d variables, and its "
                       "base has %zu of them",
                       TEMPLATE_LIST_MAX - base->n_run_env, TEMPLATE_LIST_MAX, base->n_run_env);
    }
    json_object_foreach(env, name, value)
    {
        if (strlen(name) + 1 + json_string_length(value) >= sizeof(base->env[0])) {
            return err_set(e, ERR_INVALID, "default_env_vars: %s=value can have at most %zu bytes",
                           name, sizeof(base->env[0]) - 1);
        }
    }
    json_array_foreach(json_object_get(definition, "preload"), i, value)
    {
        bytes += json_string_length(value) + 1;
    }
    return bytes > sizeof(base->info.preload)
               ? err_set(e, ERR_INVALID, "preload can have at most %zu bytes in all",
                         sizeof(base->info.preload) - 1)
               : 0;
}

static int check_base(struct service *svc, const json_t *definition, struct err *e)
{
    const char *name = json_string_value(json_object_get(definition, "base"));
    AUTO_FREE struct template_def *base = malloc(sizeof(*base)); /* too large for a fiber's stack */

    if (base == NULL) {
        return err_sys(e, ENOMEM, "template");
    }
    return template_find(engine_dirs(svc->engine), name, base, e) < 0
               ? -1
               : check_room(base, definition, e);
}

static int put(struct service *svc, const char *name, const json_t *definition, bool must_be_new,
               struct err *e)
{
    AUTO_BUF struct buf b = BUF_INIT(FILE_MAX);
    AUTO_FREE struct template_def *there = malloc(sizeof(*there));
    AUTO_FREE char *text = json_dumps(definition, JSON_COMPACT);
    AUTO_FREE struct store_template *old = find_record(svc, name);
    struct template_paths paths;
    struct err ignored = {0};

    if (there == NULL || text == NULL) {
        return err_sys(e, ENOMEM, "template");
    }
    bool exists = template_find(engine_dirs(svc->engine), name, there, &ignored) == 0;
    if (exists && (must_be_new || old == NULL)) {
        return err_set(e, ERR_EXISTS, "there is a template %s already", name);
    }
    if (old == NULL && check_count(svc, e) < 0) {
        return -1;
    }
    find_paths(svc, name, &paths);
    /* What the engine could not read would be a template that never starts. */
    if (template_compose(svc, definition, &b, e) < 0 ||
        template_parse_client(name, "the template", b.data, b.len, there, e) < 0 ||
        template_rebase(engine_dirs(svc->engine), there, e) < 0 ||
        write_temporary(paths.temporary, name, &b, e) < 0) {
        return -1;
    }
    FAULT_POINT("template.file.written");
    int64_t now = clock_wall_ms();
    struct store_template fresh = {
        .name = name, .created_ms = now, .updated_ms = now, .definition = text};
    if (record(svc, name, &fresh, e) < 0) {
        (void)unlink(paths.temporary);
        return -1;
    }
    FAULT_POINT("template.recorded");
    if (place_file(svc, name, &paths, old, e) < 0) {
        return -1;
    }
    FAULT_POINT("template.file.renamed");
    engine_retire_template(svc->engine, name);
    return 0;
}

int service_template_put(struct service *svc, const char *name, const json_t *definition,
                         bool must_be_new, struct err *e)
{
    if (check_base(svc, definition, e) < 0) {
        return -1;
    }
    begin_change(svc);
    int r = put(svc, name, definition, must_be_new, e);
    end_change(svc);
    return r;
}

static int check_unused(const struct service *svc, const char *name, struct err *e)
{
    for (const struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        if (str_eq(s->record.template, name)) {
            return err_set(e, ERR_CONFLICT, "template %s is used by session %s", name, s->id);
        }
    }
    return 0;
}

/* A definition names its base, from which every change of it is made anew. */
static int check_no_base(struct service *svc, const char *name, struct err *e)
{
    AUTO_FREE struct husk_template_info *rows = NULL;
    size_t n = 0;
    int r = 0;

    if (template_list(engine_dirs(svc->engine), &rows, &n, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        AUTO_FREE struct store_template *row = find_record(svc, rows[i].name);
        json_t *definition = row != NULL ? json_loads(row->definition, 0, NULL) : NULL;
        const char *base = json_string_value(json_object_get(definition, "base"));
        if (base != NULL && str_eq(base, name)) {
            r = err_set(e, ERR_CONFLICT, "template %s is the base of %s", name, rows[i].name);
        }
        json_decref(definition);
    }
    return r;
}

static int remove_template(struct service *svc, const char *name, struct err *e)
{
    AUTO_FREE struct store_template *row = NULL;
    struct template_paths paths;

    if (store_get_template(svc->store, name, &row, e) < 0) {
        return e->code == ERR_NOT_FOUND
                   ? err_set(e, ERR_NOT_FOUND, "there is no template %s that a client made", name)
                   : -1;
    }
    if (check_unused(svc, name, e) < 0 || check_no_base(svc, name, e) < 0) {
        return -1;
    }
    find_paths(svc, name, &paths);
    if (rename(paths.file, paths.temporary) < 0 && errno != ENOENT) {
        return err_disk(e, errno, "remove template %s", name);
    }
    FAULT_POINT("template.delete.renamed");
    if (record(svc, name, NULL, e) < 0) {
        (void)rename(paths.temporary, paths.file);
        return -1;
    }
    FAULT_POINT("template.delete.recorded");
    (void)unlink(paths.temporary);
    FAULT_POINT("template.delete.removed");
    engine_retire_template(svc->engine, name);
    return 0;
}

int service_template_delete(struct service *svc, const char *name, struct err *e)
{
    begin_change(svc);
    int r = remove_template(svc, name, e);
    end_change(svc);
    return r;
}

/* What a killed daemon was at: the file becomes what the record says, or goes. */
static int settle(struct service *svc, const char *name, struct err *e)
{
    AUTO_BUF struct buf b = BUF_INIT(FILE_MAX);
    AUTO_FREE struct store_template *row = NULL;
    struct template_paths paths;

    find_paths(svc, name, &paths);
    if (store_get_template(svc->store, name, &row, e) < 0) {
        return e->code != ERR_NOT_FOUND      ? -1
               : unlink(paths.temporary) < 0 ? err_sys(e, errno, "remove %s", paths.temporary)
                                             : 0;
    }
    json_t *definition = json_loads(row->definition, 0, NULL);
    int r = template_compose(svc, definition, &b, e);
    json_decref(definition);
    if (r < 0 || write_temporary(paths.temporary, name, &b, e) < 0) {
        return -1;
    }
    return rename(paths.temporary, paths.file) < 0 ? err_sys(e, errno, "write template %s", name)
                                                   : 0;
}

void templates_settle(struct service *svc)
{
    char path[DATA_PATH_SIZE];
    struct err e = {0};

    data_folder_path(svc->config, DATA_TEMPLATES, path);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        const char *dot = strrchr(entry->d_name, '.');
        char name[256];
        if (dot != NULL && str_eq(dot, ".new") &&
            str_format(name, sizeof(name), "%.*s", (int)(dot - entry->d_name), entry->d_name) ==
                0 &&
            settle(svc, name, &e) < 0) {
            log_warn("template_not_settled", "template=%s: %s", name, e.msg);
        }
    }
    closedir(dir);
}
