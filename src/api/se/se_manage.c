/* SPDX-License-Identifier: Apache-2.0 */
/* /workspace/se: state of one session, list and removal of all; see api/workspace_se.yaml. */
#include <errno.h>
#include <string.h>

#include "api/files/file_list.h"
#include "api/se/se.h"
#include "api/se/se_files.h"
#include "base/str.h"

#define MOUNT_POINT "/workspace"

void api_se_healthy(struct api_call *call)
{
    if (service_fails(call_service(call)) != NULL) {
        call_reply_error(call, 503, "Sandbox.NotInitialized", NULL, NULL, NULL);
        return;
    }
    call_reply_json(call, 200, json_pack("{s:s}", "status", "success"));
}

/* ---- one ---- */

static json_t *status_json(const char *id, const char *created, json_t *files)
{
    return json_pack("{s:s, s:b, s:s?, s:s?, s:b, s:o}", "id", id, "exists", created != NULL,
                     "created_at", created, "mount_point", created != NULL ? MOUNT_POINT : NULL,
                     "is_mounted", created != NULL, "files", files);
}

void api_se_status(struct api_call *call)
{
    const char *id = call_text(call, "session_id");
    AUTO_FILE_LIST struct file_list list = {0};
    char created[FILE_TIME_SIZE];
    struct file_work w;
    struct err e;
    struct session *s = session_hold(call_service(call), id, &e);

    if (s == NULL || !str_eq(session_view(s).dialect, SE_DIALECT)) {
        session_release(s);
        call_reply_json(call, 200, status_json(id, NULL, json_array()));
        return;
    }
    file_time_text(session_view(s).created_ms, created);
    if (file_work_begin(&w, call, s) == 0 && file_list_read(&w, "", false, &list) == 0) {
        file_work_end(&w);
        call_reply_json(call, 200, status_json(id, created, se_files_json(&list)));
    }
}

/* ---- all ---- */

struct row {
    char id[SERVICE_ID_SIZE];
    int64_t created_ms;
};

struct rows {
    struct row *list;
    size_t n;
};

static void rows_release(struct rows *rows)
{
    free(rows->list);
}

static int on_session(void *user, const struct session_view *s, struct err *e)
{
    struct rows *rows = user;

    if (!str_eq(s->dialect, SE_DIALECT)) {
        return 0;
    }
    struct row *list = reallocarray(rows->list, rows->n + 1, sizeof(*list));
    if (list == NULL) {
        return err_sys(e, ENOMEM, "list of sessions");
    }
    rows->list = list;
    rows->list[rows->n] = (struct row){.created_ms = s->created_ms};
    return str_copy(rows->list[rows->n++].id, sizeof(list->id), s->id) == 0
               ? 0
               : err_set(e, ERR_STORAGE, "the id of a session is too long");
}

static int by_id(const void *a, const void *b)
{
    const struct row *left = a;
    const struct row *right = b;

    return strcmp(left->id, right->id);
}

/* Live sessions of this dialect by id. -1: answered. */
static int read_rows(struct api_call *call, struct rows *ret)
{
    struct err e;

    if (session_each_live(call_service(call), on_session, ret, &e) < 0) {
        call_reply_err(call, &e);
        return -1;
    }
    if (ret->n > 1) {
        qsort(ret->list, ret->n, sizeof(ret->list[0]), by_id);
    }
    return 0;
}

void api_se_workspaces(struct api_call *call)
{
    AUTO(rows_release) struct rows rows = {0};
    char created[FILE_TIME_SIZE];

    if (read_rows(call, &rows) < 0) {
        return;
    }
    json_t *all = json_object();
    for (size_t i = 0; i < rows.n; i++) {
        file_time_text(rows.list[i].created_ms, created);
        (void)json_object_set_new(
            all, rows.list[i].id,
            json_pack("{s:s, s:s}", "mount_point", MOUNT_POINT, "created_at", created));
    }
    call_reply_json(call, 200, json_pack("{s:o}", "workspaces", all));
}

static bool is_busy(struct service *svc, const char *id)
{
    struct err gone;
    struct session *s = session_hold(svc, id, &gone);
    bool busy = s != NULL && session_is_working(s);

    session_release(s);
    return busy;
}

void api_se_cleanup_all(struct api_call *call)
{
    struct service *svc = call_service(call);
    bool force = json_is_true(json_object_get(call_body(call), "force"));
    AUTO(rows_release) struct rows rows = {0};
    json_int_t removed = 0;
    struct err e;

    if (read_rows(call, &rows) < 0) {
        return;
    }
    json_t *failed = json_array();
    json_t *skipped = json_array();
    for (size_t i = 0; i < rows.n; i++) {
        const char *id = rows.list[i].id;
        if (!force && is_busy(svc, id)) {
            (void)json_array_append_new(skipped, json_string(id));
        } else if (session_purge(svc, id, &e) < 0 && e.code != ERR_NOT_FOUND) {
            (void)json_array_append_new(failed, json_string(id));
        } else {
            removed++;
        }
    }
    call_reply_json(call, 200,
                    json_pack("{s:I, s:I, s:o, s:o}", "total", (json_int_t)rows.n, "success",
                              removed, "failed", failed, "skipped", skipped));
}
