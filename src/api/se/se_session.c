/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /workspace/se: sessions are created on first use; see se.h and api/workspace_se.yaml.
 */
#include <string.h>

#include "api/se/se.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/str.h"

#define TRIES 4               /* when others create and remove the same session at the same time */
#define SESSION_PROCESSES 100 /* as in the original, whose setting is for its pool only */

struct husk_limits se_limits(const struct api_call *call, uint64_t disk)
{
    const struct config *c = service_config(call_service(call));
    uint64_t with_files = c->se_memory_bytes + disk;

    return (struct husk_limits){
        .memory_bytes = MAX(with_files, limits_memory_for(disk)),
        .process_bytes = disk != 0 ? c->se_memory_bytes : 0, /* without, the box has no more */
        .disk_bytes = disk,
        .timeout_ms = c->se_timeout_ms,
        .cpu_milli = (uint32_t)c->se_cpu_milli,
        .pids = disk != 0 ? SESSION_PROCESSES : (uint32_t)c->se_max_processes,
    };
}

static int create(struct api_call *call, const char *id, uint64_t disk, struct session **ret,
                  struct err *e)
{
    const struct config *c = service_config(call_service(call));
    enum session_origin ignored;
    json_t *spec = json_pack("{s:I}", "disk", (json_int_t)disk);
    const struct session_ask ask = {
        .id = id,
        .template_name = "python",
        .persistent = true,
        .dialect = SE_DIALECT,
        .limits = se_limits(call, disk),
        .timeout_ms = c->se_expiration_ms,
        .lifetime_ms = c->se_expiration_ms,
        .on_idle = ON_IDLE_END, /* with its expiration */
        .has_own_bounds = true,
        .isolation = (enum husk_isolation)c->min_isolation,
        .spec = spec,
    };

    int r = session_create(call_service(call), &ask, ret, &ignored, e);
    json_decref(spec);
    return r;
}

/*
 * One that has ended does not exist for this dialect: it goes, with its files, so that its id is
 * free again.
 */
static int remove_ended(struct service *svc, const char *id, struct err *e)
{
    AUTO(session_close) struct session_entry it = {0};

    if (session_open(svc, id, &it, e) < 0) {
        return e->code == ERR_NOT_FOUND ? 0 : -1;
    }
    if (!str_eq(it.view.dialect, SE_DIALECT)) {
        return err_set(e, ERR_CONFLICT, "session \"%s\" belongs to /api/v1", id);
    }
    return session_purge(svc, id, e);
}

/* A live session of this dialect. NULL and ERR_NOT_FOUND: there is none. */
static struct session *hold(struct service *svc, const char *id, struct err *e)
{
    struct session *s = session_hold(svc, id, e);

    if (s == NULL && e->code == ERR_CONFLICT && remove_ended(svc, id, e) == 0) {
        (void)err_set(e, ERR_NOT_FOUND, "no session \"%s\"", id);
    }
    if (s != NULL && !str_eq(session_view(s).dialect, SE_DIALECT)) {
        session_release(s);
        (void)err_set(e, ERR_CONFLICT, "session \"%s\" belongs to /api/v1", id);
        return NULL;
    }
    return s;
}

/* Made if it is not there. NULL and *e. */
static struct session *take(struct api_call *call, struct err *e)
{
    const char *id = call_text(call, "session_id");
    uint64_t disk = 0;

    (void)parse_size(SE_SIZE, &disk);
    for (int i = 0; i < TRIES; i++) {
        struct session *s = hold(call_service(call), id, e);
        if (s != NULL) {
            return s;
        }
        if (e->code != ERR_NOT_FOUND) {
            break;
        }
        if (create(call, id, disk, &s, e) == 0) {
            return s;
        }
        if (e->code != ERR_EXISTS) {
            break;
        }
    }
    return NULL;
}

struct session *se_session(struct api_call *call)
{
    struct err e;
    struct session *s = take(call, &e);

    if (s == NULL) {
        call_reply_err(call, &e);
    }
    return s;
}

struct session *se_session_to_run(struct api_call *call)
{
    struct err e;
    struct session *s = take(call, &e);

    if (s == NULL) {
        call_reply_unbegun(call, &e);
    }
    return s;
}

int se_file_work_begin(struct file_work *w, struct api_call *call)
{
    return file_work_begin(w, call, se_session(call));
}

/* ---- handlers ---- */

static uint64_t asked_size(const json_t *body)
{
    const json_t *size = json_object_get(body, "size");
    uint64_t bytes = 0;

    if (json_is_integer(size)) {
        return (uint64_t)json_integer_value(size);
    }
    (void)parse_size(json_string_value(size), &bytes); /* the contract has checked it */
    return bytes;
}

void api_se_session_create(struct api_call *call)
{
    const char *id = call_text(call, "session_id");
    uint64_t disk = asked_size(call_body(call));
    struct err e;

    if (se_limits(call, disk).memory_bytes > limits_machine_memory()) {
        se_reply_field(call, "size", "less_than_equal",
                       "size is kept in memory and comes on top of what programs may use: together "
                       "that is more than a box can have on this machine");
        return;
    }
    struct session *s = hold(call_service(call), id, &(struct err){0});
    if (s != NULL) {
        session_release(s);
        (void)err_set(&e, ERR_EXISTS, "session \"%s\" exists already", id);
        call_reply_err(call, &e);
        return;
    }
    if (create(call, id, disk, &s, &e) < 0) {
        call_reply_err(call, &e);
        return;
    }
    session_release(s);
    call_reply_json(call, 200, json_pack("{s:s}", "session_id", id));
}

void api_se_session_delete(struct api_call *call)
{
    const char *id = call_text(call, "session_id");
    struct service *svc = call_service(call);
    struct err e;
    struct session *s = hold(svc, id, &e);
    bool exists = s != NULL;

    session_release(s);
    if ((exists && session_purge(svc, id, &e) < 0) || (!exists && e.code != ERR_NOT_FOUND)) {
        call_reply_err(call, &e);
        return;
    }
    call_reply_json(call, 200, json_pack("{s:s}", "status", "success"));
}
