/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 for templates: create, list, get, update, delete.
 *
 * Three origins: built-in ones and files of the operator can only be read; those that clients made
 * are records of the store, whose definition is the JSON that was sent. What can run on this host
 * is the engine's to know.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1/shape.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/units.h"
#include "core/core.h"

/* ---- what there is ---- */

struct templates {
    struct husk_template_info *rows; /* sorted by name */
    size_t n;
};

static void templates_release(struct templates *t)
{
    free(t->rows);
}

static int templates_get(struct service *svc, struct templates *ret, struct err *e)
{
    return template_list(engine_dirs(service_engine(svc)), &ret->rows, &ret->n, e);
}

static const struct husk_template_info *templates_find(const struct templates *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++) {
        if (str_eq(t->rows[i].name, name)) {
            return &t->rows[i];
        }
    }
    return NULL;
}

/* ---- as JSON ---- */

/* As the next session gets them: of the template, else of the configuration. */
static void set_defaults(json_t *to, const struct config *c, const struct husk_template_info *info)
{
    const struct husk_limits *l = &info->limits;
    uint64_t memory = l->memory_bytes > 0 ? l->memory_bytes : c->memory_bytes;
    json_int_t timeout = (json_int_t)(c->session_timeout_ms / 1000);

    json_object_set_new(to, "default_memory_mb", json_integer((json_int_t)(memory / MIB)));
    json_object_set_new(to, "default_timeout", json_integer(timeout));
    json_object_set_new(to, "default_env_vars", json_object());
}

/* What sessions get, in thousandths: a definition may say more digits. */
static json_t *cpu_json(const struct config *c, const struct husk_limits *l)
{
    return json_real((double)(l->cpu_milli > 0 ? l->cpu_milli : c->cpu_milli) / 1000.0);
}

/*
 * What sessions get, which may be less than a definition says; without one of its own it follows
 * the memory.
 */
static json_t *disk_json(const struct config *c, const struct husk_limits *l)
{
    bool is_plain = l->memory_bytes == 0 && l->disk_bytes == 0;
    struct limits own = {
        .memory_bytes = l->memory_bytes > 0 ? l->memory_bytes : c->memory_bytes,
        .disk_bytes = is_plain ? c->disk_bytes : l->disk_bytes,
    };

    limits_fill(&own);
    return json_integer((json_int_t)(own.disk_bytes / MIB));
}

static const char *origin_of(const struct husk_template_info *info,
                             const struct template_record *row)
{
    return row != NULL ? "api" : str_eq(info->origin, "built in") ? "built-in" : "file";
}

/* Members of a definition that templates show, over what the engine says. */
static void set_definition(json_t *to, const struct template_record *row)
{
    json_object_update(to, row->definition);
    json_object_set_new(to, "created_at", v1_time(row->created_ms));
    json_object_set_new(to, "updated_at", v1_time(row->updated_ms));
}

/*
 * Why it cannot run. The interpreter's path is the same inside the box; other folders of the host
 * stay hidden.
 */
static json_t *missing_json(const struct husk_template_info *info)
{
    char text[sizeof(info->missing)];

    if (info->missing[0] == '\0') {
        return json_null();
    }
    if (info->runtime[0] != '\0' && str_starts(info->missing, info->runtime)) {
        return json_string(info->missing);
    }
    api_error_text(text, sizeof(text), info->missing);
    return json_string(text);
}

static json_t *template_json(struct service *svc, const struct husk_template_info *info,
                             const struct template_record *row)
{
    json_t *to =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "id", info->name, "name", info->name,
                  "description", info->about, "language", template_language_name(info->language),
                  "runtime_type", info->runtime, "origin", origin_of(info, row), "is_active",
                  (int)(info->missing[0] == '\0'));
    if (to == NULL) {
        return NULL;
    }
    json_object_set_new(to, "base", json_null());
    json_object_set_new(to, "image_url", json_null());
    json_object_set_new(to, "missing", missing_json(info));
    template_modules_json(svc, info, to);
    json_object_set_new(to, "created_at", json_null());
    json_object_set_new(to, "updated_at", json_null());
    set_defaults(to, service_config(svc), info);
    if (row != NULL) {
        set_definition(to, row);
    }
    json_object_set_new(to, "default_cpu_cores", cpu_json(service_config(svc), &info->limits));
    json_object_set_new(to, "default_disk_mb", disk_json(service_config(svc), &info->limits));
    json_object_set(to, "default_timeout_sec", json_object_get(to, "default_timeout"));
    return to;
}

static void reply_template(struct api_call *call, int status, const char *name)
{
    struct service *svc = call_service(call);
    AUTO(templates_release) struct templates all = {0};
    struct err e = {0};

    if (templates_get(svc, &all, &e) < 0) {
        call_reply_err(call, &e);
        return;
    }
    const struct husk_template_info *info = templates_find(&all, name);
    if (info == NULL) {
        (void)err_set(&e, ERR_NOT_FOUND, "no template \"%s\"", name);
        v1_reply_err(call, &e, V1_TEMPLATE);
        return;
    }
    AUTO_TEMPLATE struct template_record *row = template_record_find(svc, name);
    call_reply_json(call, status, template_json(svc, info, row));
}

/* ---- read ---- */

void api_v1_template_get(struct api_call *call)
{
    reply_template(call, 200, call_text(call, "template_id"));
}

void api_v1_template_list(struct api_call *call)
{
    struct service *svc = call_service(call);
    size_t offset = (size_t)call_int(call, "offset", 0);
    size_t limit = (size_t)call_int(call, "limit", 0);
    AUTO(templates_release) struct templates all = {0};
    struct err e = {0};

    if (templates_get(svc, &all, &e) < 0) {
        call_reply_err(call, &e);
        return;
    }
    json_t *items = json_array();
    for (size_t i = offset; i < all.n && i - offset < limit; i++) {
        AUTO_TEMPLATE struct template_record *row = template_record_find(svc, all.rows[i].name);
        json_array_append_new(items, template_json(svc, &all.rows[i], row));
    }
    call_reply_json(call, 200, v1_page(call, items, (int64_t)all.n));
}

/* ---- change ---- */

/* What does not fit into a template is a fault of the body's fields. */
static void reply_put_err(struct api_call *call, const struct err *e)
{
    if (e->code == ERR_INVALID) {
        call_reply_error(call, 422, NULL, NULL, e->msg, NULL);
    } else {
        v1_reply_err(call, e, V1_TEMPLATE);
    }
}

void api_v1_template_create(struct api_call *call)
{
    struct service *svc = call_service(call);
    const json_t *body = call_body(call);
    const char *name = json_string_value(json_object_get(body, "id"));
    const char *base = json_string_value(json_object_get(body, "base"));
    AUTO(templates_release) struct templates all = {0};
    struct err e = {0};

    if (templates_get(svc, &all, &e) < 0) {
        call_reply_err(call, &e);
        return;
    }
    if (templates_find(&all, name) != NULL) {
        (void)err_set(&e, ERR_EXISTS, "there is a template \"%s\" already", name);
        call_reply_err(call, &e);
        return;
    }
    if (templates_find(&all, base) == NULL) {
        v1_reply_field(call, "body", "base", "base must be the id of a template that exists");
        return;
    }
    if (service_template_put(svc, name, body, true, &e) < 0) {
        reply_put_err(call, &e);
        return;
    }
    reply_template(call, 201, name);
}

/* The client's template that the path names; answered and NULL when it is none. */
static struct template_record *own_template(struct api_call *call)
{
    struct service *svc = call_service(call);
    const char *name = call_text(call, "template_id");
    AUTO(templates_release) struct templates all = {0};
    struct err e = {0};

    struct template_record *row = template_record_find(svc, name);
    if (row != NULL) {
        return row;
    }
    if (templates_get(svc, &all, &e) == 0) {
        if (templates_find(&all, name) != NULL) {
            (void)err_set(&e, ERR_CONFLICT, "\"%s\" was not made by this API and cannot be changed",
                          name);
        } else {
            (void)err_set(&e, ERR_NOT_FOUND, "no template \"%s\"", name);
        }
    }
    v1_reply_err(call, &e, V1_TEMPLATE);
    return NULL;
}

void api_v1_template_update(struct api_call *call)
{
    const char *name = call_text(call, "template_id");
    struct err e = {0};

    AUTO_TEMPLATE struct template_record *row = own_template(call);
    if (row == NULL) {
        return;
    }
    int r = json_object_update(row->definition, call_body(call)) < 0
                ? err_sys(&e, ENOMEM, "update a template")
                : service_template_put(call_service(call), name, row->definition, false, &e);
    if (r < 0) {
        reply_put_err(call, &e);
        return;
    }
    reply_template(call, 200, name);
}

void api_v1_template_delete(struct api_call *call)
{
    struct err e = {0};

    AUTO_TEMPLATE struct template_record *row = own_template(call);
    if (row == NULL) {
        return;
    }
    if (service_template_delete(call_service(call), call_text(call, "template_id"), &e) < 0) {
        v1_reply_err(call, &e, V1_TEMPLATE);
        return;
    }
    call_reply_empty(call, 204);
}
