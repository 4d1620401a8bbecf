/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of /api/v1 for boxes (called containers there) and pools: list, inspect, output, sizes.
 *
 * Reads only. A box has no log of its own: its output is that of the executions of its session. One
 * that is gone is known by the record of the session that had it last.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/v1/shape.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"
#include "core/core.h"
#include "core/result_parts.h"

#define POOLS_MAX 256
#define PAST_EXECUTIONS 4 /* that are asked for a receipt: few have none */
#define LOG_BYTES_MAX ((size_t)4 << 20)
#define LOG_PART 8 /* executions that are read at a time */

/* ---- boxes ---- */

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct engine_box *)a)->id;
    uint64_t y = ((const struct engine_box *)b)->id;

    return (x > y) - (x < y);
}

/*
 * All boxes, sorted, so that pages do not overlap. Owned by the caller; NULL and *e when memory is
 * gone.
 */
static struct engine_box *boxes_get(struct service *svc, size_t *ret_n, struct err *e)
{
    struct engine_box *boxes = calloc(ENGINE_BOXES_MAX, sizeof(*boxes));

    if (boxes == NULL) {
        (void)err_sys(e, ENOMEM, "list the boxes");
        return NULL;
    }
    size_t n = engine_boxes(service_engine(svc), boxes, ENGINE_BOXES_MAX);
    qsort(boxes, n, sizeof(*boxes), by_id);
    *ret_n = n;
    return boxes;
}

static const char *status_of(const struct engine_box *box)
{
    return str_eq(box->state, "running") ? "running" : "created";
}

/* What every box has, now or in the past. */
static json_t *head_json(uint64_t id, const char *template_name, const char *status,
                         const char *session_id)
{
    static const char *const nothing[] = {"node_id", "image_url", "ip_address", "exited_at",
                                          "receipt"};
    char name[V1_BOX_NAME_MAX];

    v1_box_name(id, name);
    json_t *to = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?}", "id", name, "container_name", name,
                           "template_id", template_name, "runtime_type", "native", "status", status,
                           "session_id", session_id[0] != '\0' ? session_id : NULL);
    for (size_t i = 0; i < ARRAY_LEN(nothing); i++) {
        json_object_set_new(to, nothing[i], json_null());
    }
    return to;
}

static void set_limits(json_t *to, double cpus, uint64_t memory, uint64_t disk)
{
    json_object_set_new(to, "cpu_cores", json_real(cpus));
    json_object_set_new(to, "memory_mb", json_integer((json_int_t)(memory / MIB)));
    json_object_set_new(to, "disk_mb", json_integer((json_int_t)(disk / MIB)));
}

static json_t *container_json(const struct engine_box *box)
{
    json_t *to = head_json(box->id, box->template_name, status_of(box), box->used_by);

    set_limits(to, box->limits.cpu_milli / 1000.0, box->limits.memory_bytes,
               box->limits.disk_bytes);
    json_object_set_new(to, "created_at", v1_time(box->created_ms));
    json_object_set_new(to, "started_at",
                        str_eq(box->state, "running") ? v1_time(box->created_ms) : json_null());
    return to;
}

/* The receipt of the newest execution that has one. */
static int take_receipt(void *user, const struct execution_entry *x, struct err *e)
{
    json_t **receipt = user;
    json_t *outcome = *receipt == NULL ? execution_outcome(x) : NULL;
    const json_t *found = json_object_get(outcome, "receipt");
    const char *backend = json_string_value(json_object_get(found, "backend"));

    (void)e;
    if (backend != NULL && backend[0] != '\0') {
        *receipt = json_incref(drop_const(found));
    }
    json_decref(outcome);
    return 0;
}

/* A box that is gone. */
static json_t *past_json(struct service *svc, uint64_t id, const struct session_view *v)
{
    const struct execution_filter last = {
        .session_id = v->id, .with_output = true, .part.limit = PAST_EXECUTIONS};
    json_t *to = head_json(id, v->template, "exited", v->id);
    json_t *receipt = NULL;
    struct list_seen seen;
    struct err ignored;

    json_object_set_new(to, "created_at", v1_time(v->created_ms));
    json_object_set_new(to, "started_at", v1_time(v->created_ms));
    json_object_set_new(to, "exited_at", v1_time(v->ended_ms));
    (void)execution_list(svc, &last, take_receipt, &receipt, &seen, &ignored);
    if (receipt != NULL) {
        const json_t *limits = json_object_get(receipt, "limits");
        set_limits(to, json_number_value(json_object_get(limits, "cpus")),
                   (uint64_t)json_integer_value(json_object_get(limits, "memory_bytes")),
                   (uint64_t)json_integer_value(json_object_get(limits, "disk_bytes")));
        json_object_set_new(to, "receipt", receipt);
    }
    return to;
}

void api_v1_container_list(struct api_call *call)
{
    const char *status = call_text(call, "status");
    const char *runtime = call_text(call, "runtime_type");
    int64_t offset = call_int(call, "offset", 0);
    int64_t limit = call_int(call, "limit", 0);
    int64_t total = 0;
    size_t n = 0;
    struct err e = {0};

    AUTO_FREE struct engine_box *boxes = boxes_get(call_service(call), &n, &e);
    if (boxes == NULL) {
        call_reply_err(call, &e);
        return;
    }
    json_t *items = json_array();
    for (size_t i = 0; i < n; i++) {
        if ((status != NULL && !str_eq(status, status_of(&boxes[i]))) ||
            (runtime != NULL && !str_eq(runtime, "native"))) {
            continue;
        }
        if (total >= offset && total - offset < limit) {
            json_array_append_new(items, container_json(&boxes[i]));
        }
        total++;
    }
    call_reply_json(call, 200, v1_page(call, items, total));
}

/* A box by its name: one that is there, or a session that had it. */
struct found {
    uint64_t id;
    bool is_live;
    struct engine_box box;     /* if it is, */
    struct session_entry past; /* else */
};

/* The box that the path names; answered and -1 when there is none. */
static int find_box(struct api_call *call, struct found *ret)
{
    const char *name = call_text(call, "container_id");
    size_t n = 0;
    struct err e = {0};

    AUTO_FREE struct engine_box *boxes = boxes_get(call_service(call), &n, &e);
    if (boxes == NULL) {
        call_reply_err(call, &e);
        return -1;
    }
    bool is_name = v1_box_id(name, &ret->id);
    for (size_t i = 0; i < n && is_name; i++) {
        if (boxes[i].id == ret->id) {
            ret->box = boxes[i];
            ret->is_live = true;
            return 0;
        }
    }
    int r = -1;
    e.code = ERR_NOT_FOUND;
    if (is_name) {
        r = session_open_by_box(call_service(call), ret->id, &ret->past, &e);
    }
    if (r < 0 && e.code == ERR_NOT_FOUND) {
        (void)err_set(&e, ERR_NOT_FOUND, "no sandbox \"%s\"", name);
    }
    if (r < 0) {
        v1_reply_err(call, &e, V1_CONTAINER);
    }
    return r;
}

static void found_release(struct found *f)
{
    session_close(&f->past);
}

static const char *session_of(const struct found *f)
{
    return f->is_live ? f->box.used_by : f->past.view.id;
}

void api_v1_container_get(struct api_call *call)
{
    AUTO(found_release) struct found f = {0};
    struct service *svc = call_service(call);
    struct husk_receipt receipt;

    if (find_box(call, &f) < 0) {
        return;
    }
    json_t *body = f.is_live ? container_json(&f.box) : past_json(svc, f.id, &f.past.view);
    if (f.is_live && engine_box_receipt(service_engine(svc), f.id, &receipt)) {
        json_object_set_new(body, "receipt", result_receipt(&receipt));
    }
    call_reply_json(call, 200, body);
}

/* ---- logs ---- */

/* Output of executions, newest first, until there are enough lines of it. */
struct log {
    int64_t since_ms;
    int64_t lines_left;
    size_t bytes;
    json_t *texts; /* newest first */
};

/* The last lines of a text, at most `lines`; *ret_lines says how many there are. */
static const char *last_lines(const char *text, size_t len, int64_t lines, int64_t *ret_lines)
{
    const char *at = text + len;
    int64_t n = 0;

    while (at > text && n < lines) {
        at--; /* over the line's own end */
        while (at > text && at[-1] != '\n') {
            at--;
        }
        n++;
    }
    *ret_lines = n;
    return at;
}

static void log_add(struct log *l, const json_t *text)
{
    const char *all = json_string_value(text);
    size_t len = json_string_length(text);
    int64_t lines = 0;

    if (len == 0 || l->lines_left == 0 || l->bytes >= LOG_BYTES_MAX) {
        return;
    }
    const char *from = last_lines(all, len, l->lines_left, &lines);
    size_t n = len - (size_t)(from - all);
    /* A text that does not end its last line would run into the next one. */
    bool is_open = all[len - 1] != '\n';
    json_array_append_new(l->texts, json_pack("s#+", from, (int)n, is_open ? "\n" : ""));
    l->lines_left -= lines;
    l->bytes += n;
}

static int log_one(void *user, const struct execution_entry *x, struct err *e)
{
    struct log *l = user;
    int64_t ended_ms = execution_view(x).ended_ms;

    (void)e;
    if (l->lines_left == 0 || (ended_ms != 0 && ended_ms < l->since_ms)) {
        return 0;
    }
    json_t *outcome = execution_outcome(x);
    log_add(l, json_object_get(outcome, "stderr"));
    log_add(l, json_object_get(outcome, "stdout"));
    json_decref(outcome);
    return 0;
}

/* A few executions at a time: their output is large, and the newest ones mostly have enough. */
static int log_read(struct service *svc, const char *session_id, struct log *l, struct err *e)
{
    struct execution_filter filter = {
        .session_id = session_id, .with_output = true, .part.limit = LOG_PART};
    struct list_seen seen;

    if (execution_each_unrecorded(svc, session_id, log_one, l, e) < 0) {
        return -1;
    }
    do {
        if (execution_list(svc, &filter, log_one, l, &seen, e) < 0) {
            return -1;
        }
        filter.part.before = seen.next;
    } while (seen.next != 0 && l->lines_left > 0 && l->bytes < LOG_BYTES_MAX);
    return 0;
}

/* The contract has checked the form: 2026-01-15T09:30:00[.fff](Z|+hh:mm). */
static int64_t parse_time(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    double fraction = 0;

    if (rest == NULL) {
        return 0;
    }
    int64_t ms = (int64_t)timegm(&tm) * 1000;
    if (*rest == '.') {
        char *end = NULL;
        fraction = strtod(rest, &end);
        rest = end;
    }
    if (*rest == '+' || *rest == '-') {
        int64_t hours = strtol(rest + 1, NULL, 10);
        int64_t minutes = strtol(rest + 4, NULL, 10);
        ms += (*rest == '+' ? -1 : 1) * (hours * 60 + minutes) * 60000;
    }
    return ms + (int64_t)(fraction * 1000.0);
}

static json_t *log_text(const struct log *l)
{
    AUTO_BUF struct buf b = BUF_INIT(LOG_BYTES_MAX * 2 + ((size_t)64 << 20));

    for (size_t i = json_array_size(l->texts); i > 0; i--) {
        const json_t *text = json_array_get(l->texts, i - 1);
        if (buf_add(&b, json_string_value(text), json_string_length(text)) < 0) {
            return NULL;
        }
    }
    return json_stringn(b.data != NULL ? b.data : "", b.len);
}

void api_v1_container_logs(struct api_call *call)
{
    const char *since = call_text(call, "since");
    int64_t tail = call_int(call, "tail", 100);
    AUTO(found_release) struct found f = {0};
    struct err e = {0};

    if (find_box(call, &f) < 0) {
        return;
    }
    struct log l = {
        .since_ms = since != NULL ? parse_time(since) : 0,
        .lines_left = tail,
        .texts = json_array(),
    };
    if (session_of(&f)[0] != '\0' && log_read(call_service(call), session_of(&f), &l, &e) < 0) {
        json_decref(l.texts);
        call_reply_err(call, &e);
        return;
    }
    json_t *text = log_text(&l);
    json_decref(l.texts);
    call_reply_json(call, 200,
                    json_pack("{s:s, s:o, s:I}", "container_id", call_text(call, "container_id"),
                              "logs", text, "tail", (json_int_t)(tail - l.lines_left)));
}

/* ---- pools ---- */

void api_v1_pool(struct api_call *call)
{
    AUTO_FREE struct engine_pool *pools = calloc(POOLS_MAX, sizeof(*pools));
    struct service_figures figures;
    struct err e = {0};

    if (pools == NULL) {
        (void)err_sys(&e, ENOMEM, "list the pools");
        call_reply_err(call, &e);
        return;
    }
    size_t n = engine_pools(service_engine(call_service(call)), pools, POOLS_MAX);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct engine_pool *p = &pools[i];
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "template_id",
                      p->template_name, "mode", p->persistent ? "persistent" : "ephemeral",
                      "memory_mb", (json_int_t)(p->memory_bytes >> 20), "size",
                      (json_int_t)p->parked, "min", (json_int_t)p->min, "max", (json_int_t)p->max,
                      "starting", (json_int_t)p->starting, "hits", (json_int_t)p->hits, "misses",
                      (json_int_t)p->misses, "dead", (json_int_t)p->dead));
    }
    service_figures(call_service(call), &figures);
    call_reply_json(
        call, 200,
        json_pack("{s:o, s:I}", "pools", list, "queue", (json_int_t)figures.executions_queued));
}
