/* SPDX-License-Identifier: Apache-2.0 */
/* What the handlers of /api/v1 share, and sessions as JSON; see shape.h. */
#include "api/v1/shape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/parse.h"
#include "base/str.h"
#include "core/core.h"

#define WORKSPACE "/workspace"

json_t *v1_time(int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    char text[64];

    if (ms <= 0 || gmtime_r(&seconds, &tm) == NULL) {
        return json_null();
    }
    size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    return json_sprintf("%.*s.%03dZ", (int)n, text, (int)(ms % 1000));
}

void v1_box_name(uint64_t id, char ret[static V1_BOX_NAME_MAX])
{
    (void)str_format(ret, V1_BOX_NAME_MAX, "box_%" PRIx64, id);
}

bool v1_box_id(const char *name, uint64_t *ret)
{
    char again[V1_BOX_NAME_MAX];

    if (!str_starts(name, "box_")) {
        return false;
    }
    unsigned long long id = strtoull(name + 4, NULL, 16);
    v1_box_name(id, again);
    *ret = id;
    return id != 0 && str_eq(again, name); /* one name per box: no signs, blanks or leading zeros */
}

json_t *v1_size(uint64_t bytes)
{
    static const struct {
        unsigned shift;
        const char *unit;
    } units[] = {{30, "Gi"}, {20, "Mi"}, {10, "Ki"}};

    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (bytes > 0 && bytes % (1ULL << units[i].shift) == 0) {
            return json_sprintf("%llu%s", (unsigned long long)bytes >> units[i].shift,
                                units[i].unit);
        }
    }
    return json_sprintf("%llu", (unsigned long long)bytes);
}

/* ---- sessions ---- */

/* Of one that has ended, the last that it had: what it left can still be read there. */
static json_t *container_id(const struct session_view *r, const struct session *live)
{
    uint64_t id = live != NULL ? session_box_id(live) : r->box;
    char name[V1_BOX_NAME_MAX];

    if (id == 0) {
        return json_null();
    }
    v1_box_name(id, name);
    return json_string(name);
}

static json_t *language(struct v1_sessions *sessions, const struct session_view *r,
                        const struct session *live, const json_t *spec)
{
    const char *chosen = json_string_value(json_object_get(spec, "_language"));

    if (chosen != NULL || live != NULL) {
        chosen = live != NULL ? session_language(live) : chosen;
        return chosen != NULL ? json_string(chosen) : NULL;
    }
    if (!str_eq(sessions->template_name, r->template)) {
        sessions->language = engine_language(service_engine(sessions->svc), r->template);
        (void)str_copy(sessions->template_name, sizeof(sessions->template_name), r->template);
    }
    return sessions->language != NULL ? json_string(sessions->language) : NULL;
}

/* As they apply while there is a box; before and after that as they were asked for. */
static json_t *resources_json(const json_t *spec, const struct husk_receipt *receipt)
{
    if (receipt == NULL) {
        json_t *asked = json_object_get(spec, "resources");
        return asked != NULL ? json_incref(asked) : json_object();
    }
    const struct husk_limits *l = &receipt->limits;
    return json_pack("{s:o, s:o, s:o, s:I}", "cpu", json_sprintf("%g", l->cpu_milli / 1000.0),
                     "memory", v1_size(l->memory_bytes), "disk", v1_size(l->disk_bytes),
                     "max_processes", (json_int_t)l->pids);
}

static json_t *text_or_null(const char *text)
{
    return text != NULL && text[0] != '\0' ? json_string(text) : json_null();
}

/* Copies a member of the stored request, or the fallback, which is taken. */
static void set_from(json_t *to, const json_t *spec, const char *name, json_t *fallback)
{
    json_t *value = json_object_get(spec, name);

    if (value != NULL) {
        json_decref(fallback);
        json_object_set(to, name, value);
    } else {
        json_object_set_new(to, name, fallback);
    }
}

static const char *on_idle_word(const struct session_view *r)
{
    return r->on_idle == ON_IDLE_PARK ? "park" : r->on_idle == ON_IDLE_FREEZE ? "freeze" : "end";
}

static const char *idle_state_word(const struct session *live)
{
    static const char *const words[] = {
        [REST_NOT] = "active", [REST_PARKED] = "parked", [REST_FROZEN] = "frozen"};

    return words[session_rest(live)];
}

/* One that is parked or frozen after its timeout ends only by its age. */
static int64_t expires_ms(const struct v1_sessions *sessions, const struct session_view *r)
{
    if (r->ended_ms != 0) {
        return 0;
    }
    uint64_t lifetime = service_config(sessions->svc)->session_lifetime_ms;
    return r->on_idle > ON_IDLE_END ? r->created_ms + (int64_t)lifetime : r->expires_ms;
}

static void set_times(json_t *to, const struct v1_sessions *sessions, const struct session_view *r)
{
    json_object_set_new(to, "created_at", v1_time(r->created_ms));
    json_object_set_new(to, "updated_at", v1_time(r->updated_ms));
    json_object_set_new(to, "last_activity_at", v1_time(r->active_ms));
    json_object_set_new(to, "expires_at", v1_time(expires_ms(sessions, r)));
    json_object_set_new(to, "completed_at", v1_time(r->ended_ms));
}

/* What holds for every session of this back end. */
static void set_place(json_t *to, json_t *box)
{
    json_object_set_new(to, "container_id", box);
    json_object_set_new(to, "runtime_type", json_string("native"));
    json_object_set_new(to, "runtime_node", json_null());
    json_object_set_new(to, "pod_name", json_null());
    json_object_set_new(to, "workspace_path", json_string(WORKSPACE));
    json_object_set_new(to, "queue_position", json_null());
}

static json_t *workspace_json(const struct session_view *r)
{
    return r->workspace == NULL
               ? json_null()
               : json_pack("{s:s, s:s?, s:o}", "state", r->workspace, "reason", r->workspace_reason,
                           "saved_at", r->saved_ms != 0 ? v1_time(r->saved_ms) : json_null());
}

json_t *v1_session_json(struct v1_sessions *sessions, const struct session_view *record)
{
    struct husk_receipt receipt;
    struct err e;
    bool is_over = session_state_is_final(record->state);

    AUTO_SESSION struct session *live =
        is_over ? NULL : session_hold(sessions->svc, record->id, &e);
    bool has_box = live != NULL && session_receipt(live, &receipt, &e) == 0;
    /* Work is noted in the store a little later than here. */
    const struct session_view now = live != NULL ? session_view(live) : *record;
    const struct session_view *r = &now;
    json_t *spec = json_loads(r->spec, 0, NULL);
    json_t *to =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "id", r->id, "session_id", r->id, "template_id",
                  r->template, "status", session_state_word(r->state), "mode", r->mode, "resources",
                  resources_json(spec, has_box ? &receipt : NULL));
    if (to == NULL) {
        json_decref(spec);
        return NULL;
    }
    json_object_set_new(to, "agent_id", text_or_null(r->agent_id));
    /* What counts now: extending a session changes it. */
    json_object_set_new(to, "timeout", json_integer((r->expires_ms - r->active_ms) / 1000));
    json_object_set_new(to, "on_idle", json_string(on_idle_word(r)));
    json_object_set_new(to, "idle_state",
                        live != NULL ? json_string(idle_state_word(live)) : json_null());
    set_from(to, spec, "env_vars", json_object());
    json_object_set_new(to, "min_isolation",
                        json_string(r->min_isolation[0] != '\0' ? r->min_isolation : "full"));
    json_object_set_new(to, "isolation", has_box ? json_string(receipt.isolation) : json_null());
    json_t *words = language(sessions, r, live, spec);
    if (words != NULL) {
        json_object_set_new(to, "language_runtime", words);
    }
    set_place(to, container_id(r, live));
    json_object_set_new(to, "reason", text_or_null(r->end_reason));
    json_object_set_new(to, "workspace", workspace_json(r));
    set_times(to, sessions, r);
    json_decref(spec);
    return to;
}

json_t *v1_session_by_id(struct api_call *call, const char *id)
{
    struct v1_sessions sessions = {.svc = call_service(call)};
    AUTO(session_close) struct session_entry it = {0};
    struct err e = {0};

    if (session_open(sessions.svc, id, &it, &e) < 0) {
        v1_reply_err(call, &e, V1_SESSION);
        return NULL;
    }
    json_t *body = v1_session_json(&sessions, &it.view);
    if (body == NULL) {
        (void)err_sys(&e, ENOMEM, "answer");
        call_reply_err(call, &e);
    }
    return body;
}

void v1_reply_session(struct api_call *call, int status, const char *id)
{
    json_t *body = v1_session_by_id(call, id);

    if (body != NULL) {
        call_reply_json(call, status, body);
    }
}

struct session *v1_hold_session(struct api_call *call)
{
    struct err e = {0};
    struct session *s = session_hold(call_service(call), call_text(call, "session_id"), &e);

    if (s == NULL) {
        v1_reply_err(call, &e, V1_SESSION);
    }
    return s;
}

/* ---- answers ---- */

json_t *v1_page(const struct api_call *call, json_t *items, int64_t total)
{
    int64_t limit = call_int(call, "limit", 0);
    int64_t offset = call_int(call, "offset", 0);
    bool has_more = offset + (int64_t)json_array_size(items) < total;

    return json_pack("{s:o, s:I, s:I, s:I, s:b}", "items", items, "total", (json_int_t)total,
                     "limit", (json_int_t)limit, "offset", (json_int_t)offset, "has_more",
                     (int)has_more);
}

int v1_list_part(struct api_call *call, struct list_part *ret)
{
    const char *cursor = call_text(call, "cursor");
    uint64_t before = 0;

    *ret = (struct list_part){
        .limit = (size_t)call_int(call, "limit", 0),
        .offset = (size_t)call_int(call, "offset", 0),
    };
    if (cursor == NULL) {
        return 0;
    }
    if (ret->offset != 0) {
        call_reply_error(call, 422, NULL, NULL,
                         "query: cursor and offset exclude each other: send one of them", NULL);
        return -1;
    }
    /* The contract has checked that it is a number that fits. */
    ret->before = parse_u64(cursor, &before) == 0 ? (int64_t)before : 0;
    return 0;
}

json_t *v1_list_page(const struct api_call *call, json_t *items, const struct list_seen *seen)
{
    json_t *page = v1_page(call, items, seen->total);
    char next[24];

    (void)str_format(next, sizeof(next), "%" PRId64, seen->next);
    json_object_set_new(page, "has_more", json_boolean(seen->next != 0));
    json_object_set_new(page, "next_cursor", seen->next != 0 ? json_string(next) : json_null());
    return page;
}

void v1_reply_err(struct api_call *call, const struct err *e, enum v1_thing thing)
{
    static const struct {
        const char *code;
        const char *description; /* NULL: the code's, as of the solution */
        const char *solution;
    } absent[] = {
        [V1_SESSION] = {"Sandbox.SessionNotFound", NULL, NULL},
        [V1_EXECUTION] = {"Sandbox.ExecutionNotFound", NULL, NULL},
        [V1_TEMPLATE] = {"Sandbox.TemplateNotFound", NULL, NULL},
        [V1_CONTAINER] = {"Sandbox.ContainerNotFound", NULL, NULL},
        [V1_CONTEXT] = {"Sandbox.NotFound", "The session has no such context or checkpoint.",
                        "List them with GET /api/v1/sessions/{session_id}/contexts."},
        [V1_OTHER] = {"Sandbox.NotFound", NULL, NULL},
    };

    if (e->code == ERR_NOT_FOUND) {
        call_reply_error(call, 404, absent[thing].code, absent[thing].description, e->msg,
                         absent[thing].solution);
    } else {
        call_reply_err(call, e);
    }
}

void v1_reply_field(struct api_call *call, const char *in, const char *name, const char *message)
{
    struct api_violations v = {0};

    (void)api_violation_add(&v, in, name, "value_error", message);
    call_reply_invalid(call, &v);
}

struct request_key v1_key(const struct api_call *call, const char *scope)
{
    struct request_key key = {.scope = scope, .key = call_text(call, "idempotency-key")};

    if (key.key != NULL) {
        memcpy(key.hash, call_body_hash(call), sizeof(key.hash));
    }
    return key;
}
