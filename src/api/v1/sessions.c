/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 for sessions: create, list, get, end, extend, figures, receipt.
 *
 * What a request may say was checked against the contract; what it means is decided by the service.
 */
#include <stdlib.h>
#include <string.h>

#include "api/contract/error.h"
#include "api/v1/shape.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
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

/* Of the request, else of a template that a client made, else of the configuration. In seconds. */
static int64_t timeout_of(struct service *svc, const json_t *body, const char *template_name)
{
    const json_t *asked = json_object_get(body, "timeout");
    AUTO_FREE struct store_template *row = NULL;
    int64_t seconds = (int64_t)(service_config(svc)->session_timeout_ms / 1000);
    struct err e;

    if (asked != NULL) {
        return json_integer_value(asked);
    }
    if (store_get_template(service_store(svc), template_name, &row, &e) == 0) {
        (void)v1_member_int(row->definition, "default_timeout", &seconds);
    }
    return seconds > 0 ? seconds : 1;
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

void api_v1_session_create(struct api_call *call)
{
    const json_t *body = call_body(call);
    struct service *svc = call_service(call);
    const char *template_name = body_text(body, "template_id");
    int64_t timeout = timeout_of(svc, body, template_name);
    struct husk_limits limits = limits_of(body);
    char known[STORE_ID_MAX + 1];
    char detail[API_DETAIL_MAX];
    bool existed = false;
    struct err e = {0};

    AUTO_FREE char **env = v1_env(json_object_get(body, "env_vars"), &e);
    if (env == NULL) {
        call_reply_err(call, &e);
        return;
    }
    json_t *spec = spec_of(body, &limits, timeout);
    struct session_ask ask = {
        .id = body_text(body, "id"),
        .template_name = template_name,
        .persistent = str_eq(body_text(body, "mode"), "persistent"),
        .agent_id = body_text(body, "agent_id"),
        .dialect = "v1",
        .limits = limits,
        .timeout_ms = (uint64_t)timeout * 1000,
        .env = (const char *const *)env,
        .isolation = str_eq(body_text(body, "min_isolation"), "userns") ? HUSK_ISOLATION_USERNS
                                                                        : HUSK_ISOLATION_FULL,
        .spec = spec,
        .idempotency = {.scope = CREATE_SCOPE, .key = call_text(call, "idempotency-key")},
    };
    if (ask.idempotency.key != NULL) {
        memcpy(ask.idempotency.hash, call_body_hash(call), sizeof(ask.idempotency.hash));
    }
    AUTO_SESSION struct session *s = NULL;
    int r = session_create(svc, &ask, &s, &existed, &e);
    json_decref(spec);
    if (r == 0) {
        v1_reply_session(call, existed ? 200 : 201, session_record(s)->id);
    } else if (v1_key_used(call, CREATE_SCOPE, known) && session_await(svc, known, &e) == 0) {
        v1_reply_session(call, 200, known); /* made by this very request, and over by now */
    } else if (e.code == ERR_INVALID) {     /* a field that the contract alone cannot judge */
        api_error_text(detail, sizeof(detail), e.msg);
        call_reply_error(call, 422, NULL, NULL, detail, NULL);
    } else {
        v1_reply_err(call, &e, V1_TEMPLATE);
    }
}

/* ---- list, get ---- */

void api_v1_session_list(struct api_call *call)
{
    struct service *svc = call_service(call);
    const char *word = call_text(call, "status");
    int status = word != NULL ? session_state_find(word) : 0;
    struct store_filter filter = {
        .status = word != NULL ? &status : NULL,
        .template = call_text(call, "template_id"),
        .agent_id = call_text(call, "agent_id"),
        .mode = call_text(call, "mode"),
        .limit = (size_t)call_int(call, "limit", 0),
        .offset = (size_t)call_int(call, "offset", 0),
    };
    struct v1_sessions view = {.svc = svc};
    AUTO(store_session_list_release) struct store_session_list list = {0};
    struct err e = {0};

    if (store_list_sessions(service_store(svc), &filter, &list, &e) < 0) {
        call_reply_err(call, &e);
        return;
    }
    json_t *items = json_array();
    for (size_t i = 0; i < list.n; i++) {
        json_array_append_new(items, v1_session_json(&view, list.rows[i]));
    }
    json_t *page = v1_page(call, items, list.total);
    json_object_set(page, "sessions", items);
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
    if (session_extend(s, (uint64_t)seconds * 1000, &e) < 0) {
        v1_reply_err(call, &e, V1_SESSION);
        return;
    }
    v1_reply_session(call, 200, session_record(s)->id);
}

static json_t *stats_json(const struct store_session *r, const struct box_usage *u)
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

/* One that has ended uses nothing any more. */
static void reply_ended_stats(struct api_call *call, const char *id)
{
    static const struct box_usage nothing = {.disk_used_bytes = UINT64_MAX};
    AUTO_FREE struct store_session *row = NULL;
    struct err e = {0};

    if (store_get_session(service_store(call_service(call)), id, &row, &e) < 0) {
        v1_reply_err(call, &e, V1_SESSION);
        return;
    }
    call_reply_json(call, 200, stats_json(row, &nothing));
}

void api_v1_session_stats(struct api_call *call)
{
    const char *id = call_text(call, "session_id");
    struct box_usage usage = {.disk_used_bytes = UINT64_MAX};
    struct err e = {0};

    AUTO_SESSION struct session *s = session_hold(call_service(call), id, &e);
    if (s == NULL) {
        reply_ended_stats(call, id);
        return;
    }
    if (session_usage(s, &usage, &e) < 0) {
        v1_reply_err(call, &e, V1_SESSION);
        return;
    }
    call_reply_json(call, 200, stats_json(session_record(s), &usage));
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
