/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 for sessions: create, list, get, end, extend, figures, receipt.
 *
 * What a request may say was checked against the contract; what it means is decided by the service.
 */
#include <errno.h>
#include <stdlib.h>

#include "api/v1/shape.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "core/core.h"
#include "core/result_parts.h"

#define CREATE_SCOPE "v1.session_create" /* of idempotency keys */
#define ENDED_BY_CLIENT "terminated by a client"

/* ---- create ---- */

/*
 * A size or a number of cores may be written as a number or as text; the contract allows nothing
 * else here.
 */
static uint64_t size_of(const json_t *value)
{
    uint64_t bytes = 0;

    if (json_is_string(value)) {
        (void)parse_size(json_string_value(value), &bytes);
    } else {
        bytes = (uint64_t)json_integer_value(value);
    }
    return bytes;
}

static uint32_t milli_of(const json_t *value)
{
    uint64_t milli = 0;

    if (json_is_string(value)) {
        (void)parse_milli(json_string_value(value), &milli);
    } else {
        milli = (uint64_t)(json_number_value(value) * 1000.0 + 0.5);
    }
    return (uint32_t)milli;
}

/* From `resources` or its flat form; the contract lets only one of them through. */
static struct husk_limits limits_of(const json_t *body)
{
    const json_t *nested = json_object_get(body, "resources");
    const json_t *from = nested != NULL ? nested : body;

    return (struct husk_limits){
        .memory_bytes = size_of(json_object_get(from, "memory")),
        .disk_bytes = size_of(json_object_get(from, "disk")),
        .cpu_milli = milli_of(json_object_get(from, "cpu")),
        .pids = (uint32_t)json_integer_value(json_object_get(nested, "max_processes")),
    };
}

/* What was asked for, in the form in which sessions show it. */
static json_t *resources_of(const struct husk_limits *l)
{
    json_t *to = json_object();

    if (l->cpu_milli > 0) {
        json_object_set_new(to, "cpu", json_sprintf("%g", l->cpu_milli / 1000.0));
    }
    if (l->memory_bytes > 0) {
        json_object_set_new(to, "memory", v1_size(l->memory_bytes));
    }
    if (l->disk_bytes > 0) {
        json_object_set_new(to, "disk", v1_size(l->disk_bytes));
    }
    if (l->pids > 0) {
        json_object_set_new(to, "max_processes", json_integer(l->pids));
    }
    return to;
}

/* Of a template that a client made, else of the configuration. In seconds. */
static int64_t default_timeout(struct service *svc, const char *template_name)
{
    int64_t seconds = (int64_t)(service_config(svc)->session_timeout_ms / 1000);

    AUTO_TEMPLATE struct template_record *row =
        template_name != NULL ? template_record_find(svc, template_name) : NULL;
    const json_t *own = row != NULL ? json_object_get(row->definition, "default_timeout") : NULL;
    seconds = json_is_integer(own) ? json_integer_value(own) : seconds;
    return seconds > 0 ? seconds : 1;
}

static enum session_on_idle on_idle_of(const json_t *body)
{
    const char *asked = json_string_value(json_object_get(body, "on_idle"));

    return asked == NULL             ? ON_IDLE_UNSET
           : str_eq(asked, "park")   ? ON_IDLE_PARK
           : str_eq(asked, "freeze") ? ON_IDLE_FREEZE
                                     : ON_IDLE_END;
}

static json_t *spec_of(const json_t *body, const struct husk_limits *limits, int64_t timeout)
{
    json_t *spec =
        json_pack("{s:I, s:o}", "timeout", (json_int_t)timeout, "resources", resources_of(limits));

    json_object_set(spec, "env_vars", json_object_get(body, "env_vars"));
    return spec;
}

static const char *body_text(const json_t *body, const char *name)
{
    return json_string_value(json_object_get(body, name));
}

/* Also of one that this very request made before. */
static void reply_created(struct api_call *call, const char *id, enum session_origin origin)
{
    json_t *body = v1_session_by_id(call, id);

    if (body != NULL) {
        json_object_set_new(body, "reused", json_boolean(origin == SESSION_REUSED));
        call_reply_json(call, origin == SESSION_NEW ? 201 : 200, body);
    }
}

/* A field that the contract alone cannot judge. */
static void reply_unfit(struct api_call *call, const struct err *e)
{
    char detail[API_DETAIL_MAX];

    api_error_text(detail, sizeof(detail), e->msg);
    call_reply_error(call, 422, NULL, NULL, detail, NULL);
}

void api_v1_session_create(struct api_call *call)
{
    const json_t *body = call_body(call);
    struct service *svc = call_service(call);
    const char *template_name = body_text(body, "template_id");
    int64_t asked_timeout = json_integer_value(json_object_get(body, "timeout")); /* 0: none */
    int64_t timeout = asked_timeout != 0 ? asked_timeout : default_timeout(svc, template_name);
    struct husk_limits limits = limits_of(body);
    enum session_origin origin = SESSION_NEW;
    char known[SERVICE_ID_SIZE];
    struct err e = {0};

    AUTO_FREE char **env = request_env(json_object_get(body, "env_vars"), &e);
    if (env == NULL) {
        call_reply_err(call, &e);
        return;
    }
    json_t *spec = spec_of(body, &limits, timeout);
    struct session_ask ask = {
        .id = body_text(body, "id"),
        .template_name = template_name,
        .language = body_text(body, "language"),
        .persistent = str_eq(body_text(body, "mode"), "persistent"),
        .agent_id = body_text(body, "agent_id"),
        .dialect = "v1",
        .limits = limits,
        .timeout_ms = (uint64_t)asked_timeout * 1000,
        .on_idle = on_idle_of(body),
        .default_timeout_ms = (uint64_t)timeout * 1000,
        .env = (const char *const *)env,
        .isolation = str_eq(body_text(body, "min_isolation"), "userns") ? HUSK_ISOLATION_USERNS
                                                                        : HUSK_ISOLATION_FULL,
        .spec = spec,
        .idempotency = v1_key(call, CREATE_SCOPE),
    };
    AUTO_SESSION struct session *s = NULL;
    int r = session_create(svc, &ask, &s, &origin, &e);
    json_decref(spec);
    if (r == 0) {
        reply_created(call, session_id(s), origin);
    } else if (service_key_used(svc, &ask.idempotency, known) &&
               session_await(svc, known, &e) == 0) {
        reply_created(call, known, SESSION_REPEATED); /* and over by now */
    } else if (e.code == ERR_INVALID) {
        reply_unfit(call, &e);
    } else {
        v1_reply_err(call, &e, V1_TEMPLATE);
    }
}

/* ---- list, get ---- */

struct session_listing {
    struct v1_sessions sessions;
    json_t *items;
};

static int list_one(void *user, const struct session_view *v, struct err *e)
{
    struct session_listing *l = user;

    return json_array_append_new(l->items, v1_session_json(&l->sessions, v)) < 0
               ? err_sys(e, ENOMEM, "list sessions")
               : 0;
}

void api_v1_session_list(struct api_call *call)
{
    struct session_filter filter = {
        .state = call_text(call, "status"),
        .template = call_text(call, "template_id"),
        .agent_id = call_text(call, "agent_id"),
        .mode = call_text(call, "mode"),
    };
    struct session_listing l = {.sessions.svc = call_service(call)};
    struct list_seen seen;
    struct err e = {0};

    if (v1_list_part(call, &filter.part) < 0) {
        return;
    }
    l.items = json_array();
    if (session_list(call_service(call), &filter, list_one, &l, &seen, &e) < 0) {
        json_decref(l.items);
        call_reply_err(call, &e);
        return;
    }
    json_t *page = v1_list_page(call, l.items, &seen);
    json_object_set(page, "sessions", l.items);
    call_reply_json(call, 200, page);
}

void api_v1_session_get(struct api_call *call)
{
    v1_reply_session(call, 200, call_text(call, "session_id"));
}

/* ---- end ---- */

void api_v1_session_terminate(struct api_call *call)
{
    const char *id = call_text(call, "session_id");
    struct err e = {0};

    if (session_end(call_service(call), id, SESSION_TERMINATED, ENDED_BY_CLIENT, &e) < 0) {
        v1_reply_err(call, &e, V1_SESSION);
        return;
    }
    v1_reply_session(call, 200, id);
}

void api_v1_session_delete(struct api_call *call)
{
    struct err e = {0};

    if (!call_bool(call, "purge", false)) {
        api_v1_session_terminate(call);
    } else if (session_purge(call_service(call), call_text(call, "session_id"), &e) < 0) {
        v1_reply_err(call, &e, V1_SESSION);
    } else {
        call_reply_empty(call, 204);
    }
}

/* ---- live sessions ---- */

void api_v1_session_extend(struct api_call *call)
{
    int64_t seconds = json_integer_value(json_object_get(call_body(call), "timeout"));
    struct err e = {0};

    AUTO_SESSION struct session *s = v1_hold_session(call);
    if (s == NULL) {
        return;
    }
    if (session_extend(s, (uint64_t)seconds * 1000, on_idle_of(call_body(call)), &e) < 0) {
        if (e.code == ERR_INVALID) {
            reply_unfit(call, &e);
        } else {
            v1_reply_err(call, &e, V1_SESSION);
        }
        return;
    }
    v1_reply_session(call, 200, session_id(s));
}

static json_t *stats_json(const struct session_view *r, const struct box_usage *u)
{
    int64_t until = r->ended_ms > 0 ? r->ended_ms : clock_wall_ms();
    json_t *to = json_pack(
        "{s:s, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:I}", "session_id", r->id, "memory_bytes",
        (json_int_t)(u->memory_mb * 1048576.0), "peak_memory_mb", u->peak_memory_mb, "cpu_time_ms",
        u->cpu_time_ms, "processes", (json_int_t)u->processes, "io_read_bytes",
        (json_int_t)u->io_read_bytes, "io_write_bytes", (json_int_t)u->io_write_bytes, "executions",
        (json_int_t)r->executions, "uptime_ms", (json_int_t)(until - r->created_ms));

    if (u->disk_used_bytes != UINT64_MAX) {
        json_object_set_new(to, "disk_bytes", json_integer((json_int_t)u->disk_used_bytes));
    }
    return to;
}

void api_v1_session_stats(struct api_call *call)
{
    struct box_usage usage = {.disk_used_bytes = UINT64_MAX}; /* one that has ended uses none */
    AUTO(session_close) struct session_entry it = {0};
    struct err e = {0};

    if (session_open(call_service(call), call_text(call, "session_id"), &it, &e) < 0 ||
        (it.live != NULL && session_usage(it.live, &usage, &e) < 0)) {
        v1_reply_err(call, &e, V1_SESSION);
        return;
    }
    call_reply_json(call, 200, stats_json(&it.view, &usage));
}

void api_v1_session_receipt(struct api_call *call)
{
    struct husk_receipt receipt;
    struct err e = {0};

    AUTO_SESSION struct session *s = v1_hold_session(call);
    if (s == NULL) {
        return;
    }
    if (session_receipt(s, &receipt, &e) < 0) {
        v1_reply_err(call, &e, V1_SESSION);
        return;
    }
    call_reply_json(call, 200, result_receipt(&receipt));
}
