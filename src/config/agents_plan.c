/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the plan of served agents; see agents_plan.h.
 *
 * Each object is read key by key and must then have no other key: `seen` counts the keys read.
 */
#include "config/agents_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "config/agents_plan_impl.h"

/* An object that is being read, and its name in messages. */
struct reader {
    json_t *object;
    const char *origin; /* the file */
    char where[AGENT_NAME_MAX + 16];
    size_t seen; /* keys read */
};

static int wrong(const struct reader *r, const char *key, const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID, "%s: %s: \"%s\" %s", r->origin, r->where, key, what);
}

static json_t *take(struct reader *r, const char *key, struct err *e)
{
    json_t *v = json_object_get(r->object, key);

    if (v == NULL) {
        wrong(r, key, "is missing", e);
    }
    r->seen++;
    return v;
}

/* An unknown key is a mistake or of a newer version. */
static int finish(const struct reader *r, const char *const *known, struct err *e)
{
    const char *key;
    json_t *v;

    if (json_object_size(r->object) == r->seen) {
        return 0;
    }
    json_object_foreach(r->object, key, v)
    {
        size_t i = 0;
        while (known[i] != NULL && !str_eq(known[i], key)) {
            i++;
        }
        if (known[i] == NULL) {
            char shown[80];
            str_printable(shown, sizeof(shown), key, strlen(key));
            return wrong(r, shown, "is unknown", e);
        }
    }
    return 0;
}

/* Borrowed from the document. */
static const char *take_text(struct reader *r, const char *key, size_t most, struct err *e)
{
    json_t *v = take(r, key, e);

    if (v == NULL) {
        return NULL;
    }
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v)) {
        wrong(r, key, "must be a string", e);
        return NULL;
    }
    if (json_string_length(v) > most) {
        wrong(r, key, "is too long", e);
        return NULL;
    }
    return json_string_value(v);
}

static int take_copy(struct reader *r, const char *key, char **ret, struct err *e)
{
    const char *text = take_text(r, key, AGENTS_PLAN_PATH_MAX, e);

    *ret = text != NULL ? strdup(text) : NULL;
    if (text != NULL && *ret == NULL) {
        err_sys(e, ENOMEM, "%s", r->origin);
    }
    return *ret != NULL ? 0 : -1;
}

static int take_word(struct reader *r, const char *key, char dst[AGENT_NAME_MAX], struct err *e)
{
    const char *text = take_text(r, key, AGENT_NAME_MAX - 1, e);

    if (text == NULL) {
        return -1;
    }
    return str_copy(dst, AGENT_NAME_MAX, text) < 0 ? wrong(r, key, "is too long", e) : 0;
}

static int take_count(struct reader *r, const char *key, uint64_t *ret, struct err *e)
{
    json_t *v = take(r, key, e);

    if (v == NULL) {
        return -1;
    }
    if (!json_is_integer(v) || json_integer_value(v) < 0) {
        return wrong(r, key, "must be a whole number that is not negative", e);
    }
    *ret = (uint64_t)json_integer_value(v);
    return 0;
}

static int take_u32(struct reader *r, const char *key, uint32_t *ret, struct err *e)
{
    uint64_t n = 0;

    if (take_count(r, key, &n, e) < 0) {
        return -1;
    }
    *ret = (uint32_t)MIN(n, UINT32_MAX); /* the checks have smaller bounds */
    return 0;
}

static int take_milli(struct reader *r, const char *key, uint32_t *ret, struct err *e)
{
    json_t *v = take(r, key, e);

    if (v == NULL) {
        return -1;
    }
    double n = json_number_value(v);
    if (!json_is_number(v) || !(n >= 0) || n > 1e6) {
        return wrong(r, key, "must be a number from 0 to a million", e);
    }
    *ret = (uint32_t)lround(n * 1000);
    return 0;
}

static int take_bool(struct reader *r, const char *key, bool *ret, struct err *e)
{
    json_t *v = take(r, key, e);

    if (v == NULL) {
        return -1;
    }
    *ret = json_is_true(v);
    return json_is_boolean(v) ? 0 : wrong(r, key, "must be true or false", e);
}

static int take_kind(struct reader *r, enum agent_kind *ret, struct err *e)
{
    const char *text = take_text(r, "kind", AGENT_NAME_MAX, e);

    if (text == NULL) {
        return -1;
    }
    for (size_t i = 0; i < AGENT_KINDS; i++) {
        if (str_eq(text, agent_kind_names[i])) {
            *ret = (enum agent_kind)i;
            return 0;
        }
    }
    return wrong(r, "kind", "must be \"agent\" or \"mcp\"", e);
}

static int take_streams(struct reader *r, uint32_t *ret, struct err *e)
{
    json_t *v = take(r, "streams", e);
    size_t at;
    json_t *item;

    if (v == NULL) {
        return -1;
    }
    bool ok = json_is_array(v);
    json_array_foreach(v, at, item)
    {
        uint32_t bit = 0;
        for (size_t i = 0; i < AGENT_STREAMS && json_is_string(item); i++) {
            bit |= str_eq(json_string_value(item), agent_stream_names[i]) ? 1u << i : 0;
        }
        ok = ok && bit != 0 && (*ret & bit) == 0;
        *ret |= bit;
    }
    return ok ? 0 : wrong(r, "streams", "must be a list of \"text\" and \"events\"", e);
}

static json_t *take_list(struct reader *r, const char *key, size_t most, struct err *e)
{
    json_t *list = take(r, key, e);

    if (list != NULL && (!json_is_array(list) || json_array_size(list) > most)) {
        char what[64];

        (void)str_format(what, sizeof(what), "must be a list of at most %zu entries", most);
        wrong(r, key, what, e);
        return NULL;
    }
    return list;
}

static int read_agent(struct reader *r, struct agent_plan *a, struct err *e)
{
    static const char *const keys[] = {
        "name",         "kind",     "framework",     "file",         "main",
        "route_prefix", "num_cpus", "num_gpus",      "memory_bytes", "replicas",
        "streams",      "chat",     "max_in_flight", "queue_length", "request_timeout_ms",
        "retries",      NULL};

    if (take_word(r, "name", a->name, e) < 0) {
        return -1;
    }
    char shown[AGENT_NAME_MAX];
    str_printable(shown, sizeof(shown), a->name, strlen(a->name));
    (void)str_format(r->where, sizeof(r->where), "agent \"%s\"", shown);

    const char *prefix = take_text(r, "route_prefix", AGENT_PREFIX_MAX - 1, e);
    a->file = prefix != NULL ? drop_const(take_text(r, "file", AGENTS_PLAN_PATH_MAX, e)) : NULL;
    if (a->file == NULL || take_kind(r, &a->kind, e) < 0 ||
        take_word(r, "framework", a->framework, e) < 0 || take_bool(r, "main", &a->main, e) < 0 ||
        take_bool(r, "chat", &a->chat, e) < 0 || take_milli(r, "num_cpus", &a->cpu_milli, e) < 0 ||
        take_milli(r, "num_gpus", &a->gpu_milli, e) < 0 ||
        take_count(r, "memory_bytes", &a->memory_bytes, e) < 0 ||
        take_u32(r, "replicas", &a->replicas, e) < 0 || take_streams(r, &a->streams, e) < 0 ||
        take_u32(r, "max_in_flight", &a->max_in_flight, e) < 0 ||
        take_u32(r, "queue_length", &a->queue_length, e) < 0 ||
        take_count(r, "request_timeout_ms", &a->request_timeout_ms, e) < 0 ||
        take_u32(r, "retries", &a->retries, e) < 0) {
        return -1;
    }
    (void)str_copy(a->route_prefix, sizeof(a->route_prefix), prefix);
    return finish(r, keys, e);
}

static int read_agents(const struct reader *top, json_t *list, struct agents_plan *plan,
                       struct err *e)
{
    plan->agents = calloc(json_array_size(list) + 1, sizeof(*plan->agents));
    if (plan->agents == NULL) {
        return err_sys(e, ENOMEM, "%s", top->origin);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct reader r = {.object = json_array_get(list, i), .origin = top->origin};
        (void)str_format(r.where, sizeof(r.where), "agent %zu", i + 1);
        plan->n_agents++; /* from here on agents_plan_release() frees it */
        if (!json_is_object(r.object)) {
            return err_set(e, ERR_INVALID, "%s: %s must be an object", r.origin, r.where);
        }
        if (read_agent(&r, &plan->agents[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int read_failed(const struct reader *top, json_t *list, struct agents_plan *plan,
                       struct err *e)
{
    static const char *const keys[] = {"file", "error", "traceback", NULL};

    plan->failed = calloc(json_array_size(list) + 1, sizeof(*plan->failed));
    if (plan->failed == NULL) {
        return err_sys(e, ENOMEM, "%s", top->origin);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct reader r = {
            .object = json_array_get(list, i), .origin = top->origin, .where = "failed"};
        struct agent_failure *f = &plan->failed[plan->n_failed++];
        if (!json_is_object(r.object)) {
            return err_set(e, ERR_INVALID, "%s: \"failed\" must be a list of objects", r.origin);
        }
        f->file = take_text(&r, "file", AGENTS_PLAN_PATH_MAX, e);
        f->error = f->file != NULL ? take_text(&r, "error", AGENTS_PLAN_FILE_MAX, e) : NULL;
        f->traceback =
            f->error != NULL ? take_text(&r, "traceback", AGENTS_PLAN_FILE_MAX, e) : NULL;
        if (f->traceback == NULL || finish(&r, keys, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int read_plan(struct reader *r, bool found, struct agents_plan *plan, struct err *e)
{
    static const char *const whole[] = {"version", "agents", "failed", "python",
                                        "folder",  "sdk",    NULL};
    static const char *const part[] = {"version", "agents", "failed", NULL};
    uint64_t version = 0;

    if (take_count(r, "version", &version, e) < 0) {
        return -1;
    }
    if (version != AGENTS_PLAN_VERSION) {
        return wrong(r, "version", "is not supported by this version of husk", e);
    }
    json_t *agents = take_list(r, "agents", AGENTS_PLAN_AGENTS_MAX, e);
    json_t *failed = agents != NULL ? take_list(r, "failed", AGENTS_PLAN_AGENTS_MAX, e) : NULL;
    if (failed == NULL || read_agents(r, agents, plan, e) < 0 ||
        read_failed(r, failed, plan, e) < 0) {
        return -1;
    }
    if (!found &&
        (take_copy(r, "python", &plan->python, e) < 0 ||
         take_copy(r, "folder", &plan->folder, e) < 0 || take_copy(r, "sdk", &plan->sdk, e) < 0)) {
        return -1;
    }
    return finish(r, found ? part : whole, e);
}

static int parse(const char *text, size_t n, const char *origin, bool found,
                 struct agents_plan *ret, struct err *e)
{
    json_error_t at;
    struct reader r = {.origin = origin, .where = "the plan"};

    r.object = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    if (r.object == NULL) {
        char shown[160];
        str_printable(shown, sizeof(shown), at.text, strlen(at.text));
        return err_set(e, ERR_INVALID, "%s, line %d: %s", origin, at.line, shown);
    }
    ret->document = r.object;
    int status = json_is_object(r.object)
                     ? read_plan(&r, found, ret, e)
                     : err_set(e, ERR_INVALID, "%s: must be an object", origin);
    if (status == 0) {
        status = agents_plan_check(ret, found, origin, e);
    }
    if (status < 0) {
        agents_plan_release(ret);
    }
    return status;
}

int agents_plan_parse(const char *text, size_t n, const char *origin, struct agents_plan *ret,
                      struct err *e)
{
    return parse(text, n, origin, false, ret, e);
}

int agents_plan_parse_found(const char *text, size_t n, const char *origin, struct agents_plan *ret,
                            struct err *e)
{
    return parse(text, n, origin, true, ret, e);
}

void agents_plan_release(struct agents_plan *plan)
{
    free(plan->agents);
    free(plan->failed);
    free(plan->python);
    free(plan->folder);
    free(plan->sdk);
    json_decref(plan->document);
    *plan = (struct agents_plan){0};
}
