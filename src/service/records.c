/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, templates and keys as clients of the service read them; see records.h. */
#include "service/records.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "service/service_impl.h"

_Static_assert(SERVICE_ID_SIZE == STORE_ID_MAX + 1, "ids of the store");
_Static_assert(REQUEST_HASH_SIZE == STORE_HASH_SIZE, "hashes of the store");

bool service_key_used(struct service *svc, const struct request_key *key,
                      char ret[static SERVICE_ID_SIZE])
{
    AUTO_FREE struct store_key *used = NULL;
    struct err e;

    return key->key != NULL &&
           store_find_key(svc->store, key->scope, key->key, clock_wall_ms(), &used, &e) == 0 &&
           used != NULL && memcmp(used->hash, key->hash, sizeof(key->hash)) == 0 &&
           str_copy(ret, SERVICE_ID_SIZE, used->id) == 0;
}

/* ---- sessions ---- */

/* While its box lives, what failed is tried again. */
static const char *workspace_word(const struct store_session *r)
{
    bool is_over = r->ended_ms != 0;

    if (!str_eq(r->mode, "persistent")) {
        return NULL;
    }
    switch ((enum workspace_state)r->workspace) {
    case WORKSPACE_SAVED:
        return r->saved_ms != 0 ? "saved" : "unchanged";
    case WORKSPACE_CHANGED:
        return is_over ? "lost" : "changed";
    case WORKSPACE_NO_DISK:
    case WORKSPACE_NO_QUOTA:
    case WORKSPACE_NO_ANSWER:
        return is_over ? "lost" : "not_saved";
    case WORKSPACE_LOST:
        break;
    }
    return "lost";
}

static const char *workspace_reason(const struct store_session *r)
{
    static const char *const words[] = {[WORKSPACE_NO_DISK] = "disk_full",
                                        [WORKSPACE_NO_QUOTA] = "quota",
                                        [WORKSPACE_NO_ANSWER] = "no_answer",
                                        [WORKSPACE_LOST] = "box_lost"};

    return r->workspace >= 0 && (size_t)r->workspace < ARRAY_LEN(words) ? words[r->workspace]
                                                                        : NULL;
}

static struct session_view view_of_session(const struct store_session *r)
{
    return (struct session_view){
        .id = r->id,
        .mode = r->mode,
        .template = r->template,
        .agent_id = r->agent_id,
        .dialect = r->dialect,
        .min_isolation = r->min_isolation,
        .spec = r->spec,
        .end_reason = r->end_reason,
        .state = (enum session_state)r->status,
        .created_ms = r->created_ms,
        .updated_ms = r->updated_ms,
        .active_ms = r->active_ms,
        .expires_ms = r->expires_ms,
        .ended_ms = r->ended_ms,
        .executions = r->executions,
        .on_idle = r->on_idle,
        .box = (uint64_t)r->box,
        .workspace = workspace_word(r),
        .workspace_reason = workspace_reason(r),
        .saved_ms = r->saved_ms,
    };
}

struct session_view session_view(const struct session *s)
{
    return view_of_session(&s->record);
}

int session_open(struct service *svc, const char *id, struct session_entry *ret, struct err *e)
{
    struct session *s = session_find(svc, id);
    struct store_session *row = NULL;

    if (s != NULL && !session_is_ending(s)) {
        session_ref(s);
        *ret = (struct session_entry){.live = s, .view = session_view(s)};
        return 0;
    }
    if (store_get_session(svc->store, id, &row, e) < 0) {
        return -1;
    }
    *ret = (struct session_entry){.row = row, .view = view_of_session(row)};
    return 0;
}

int session_open_by_box(struct service *svc, uint64_t box, struct session_entry *ret, struct err *e)
{
    AUTO_FREE struct store_session *row = NULL;

    return store_get_session_of_box(svc->store, (int64_t)box, &row, e) < 0
               ? -1
               : session_open(svc, row->id, ret, e);
}

void session_close(struct session_entry *entry)
{
    session_release(entry->live);
    free(entry->row);
}

int session_list(struct service *svc, const struct session_filter *f,
                 int (*fn)(void *user, const struct session_view *v, struct err *e), void *user,
                 struct list_seen *ret, struct err *e)
{
    int status = f->state != NULL ? session_state_find(f->state) : 0;
    struct store_read read = {
        .kind = STORE_SESSIONS,
        .filter = {.status = f->state != NULL ? &status : NULL,
                   .template = f->template,
                   .agent_id = f->agent_id,
                   .mode = f->mode,
                   .limit = f->part.limit,
                   .offset = f->part.offset,
                   .before = f->part.before},
        .with_total = true,
    };

    if (service_read(svc, &read, e) < 0) {
        return -1;
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < read.sessions.n; i++) {
        struct session_view view = view_of_session(read.sessions.rows[i]);
        r = fn(user, &view, e);
    }
    *ret = (struct list_seen){.total = read.sessions.total, .next = read.sessions.next};
    store_session_list_release(&read.sessions);
    return r != 0 ? -1 : 0;
}

int session_each_live(struct service *svc,
                      int (*fn)(void *user, const struct session_view *v, struct err *e),
                      void *user, struct err *e)
{
    for (const struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        struct session_view view = session_view(s);
        bool is_recorded = s->phase != PHASE_RECORDING;
        if (is_recorded && view.ended_ms == 0 && fn(user, &view, e) != 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- templates ---- */

struct template_record *template_record_find(struct service *svc, const char *name)
{
    AUTO_FREE struct store_template *row = NULL;
    struct err ignored;

    if (store_get_template(svc->store, name, &row, &ignored) < 0) {
        return NULL;
    }
    struct template_record *r = malloc(sizeof(*r));
    if (r != NULL) {
        *r = (struct template_record){
            .created_ms = row->created_ms,
            .updated_ms = row->updated_ms,
            .definition = json_loads(row->definition, 0, NULL),
        };
    }
    return r;
}

void template_record_free(struct template_record *r)
{
    if (r != NULL) {
        json_decref(r->definition);
        free(r);
    }
}

/* ---- the store itself ---- */

int service_check_store(struct service *svc, struct err *e)
{
    struct store_batch *b = store_batch_new(svc->store);

    if (b != NULL) {
        store_expire_keys(b, 0);
    }
    return service_commit(svc, b, NULL, e);
}

void service_store_figures(struct service *svc, struct service_store_figures *ret)
{
    struct store_stats s;

    store_get_stats(svc->store, &s);
    *ret = (struct service_store_figures){
        .batches = s.batches,
        .failed = s.failed,
        .transactions = s.transactions,
        .reopened = s.reopened,
        .checkpoints = s.checkpoints,
        .wal_pages = s.wal_pages,
        .queued = s.queued,
    };
}
