/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of sessions below DATA: counted as it is written, bounded per session and in all.
 *
 * Three things count: texts of records (requests, results, and ROW_BYTES for the rest of a row),
 * spooled output, and copies of workspaces. What records take is part of the session's own record,
 * written with them, so that a start adds up one column; copies are looked at once, when the
 * server starts. After that no write walks the tree.
 *
 * An execution takes its bytes before they are written: those of its request when it is made,
 * those of its output as it comes. Output that has no room is cut. When the execution ends, what it
 * took becomes what its record really has; a result that has no room loses what is not output.
 *
 * Must not refuse what was acknowledged before: quota_force() counts it and makes the next request
 * fail instead.
 */
#include <inttypes.h>
#include <string.h>

#include "base/units.h"
#include "service/service_impl.h"

#define ROW_BYTES 1024    /* of a record beside its texts: other columns, indexes, its key */
#define RESULT_LEAST 4096 /* of a result without output: how it ended, metrics, receipt */
/*
 * What a byte of output takes until its execution is over: one in the spool, one in the result's
 * text, and up to one and a half more there if the output is no text. What JSON escapes may take
 * more; that is counted when it is known.
 */
#define OUTPUT_COST 3
#define OUTPUT_STEP ((uint64_t)64 << 10) /* bytes of output that are taken at a time */

static uint64_t room_of(uint64_t most, uint64_t used)
{
    return most - MIN(most, used);
}

uint64_t quota_room(const struct session *s)
{
    return MIN(room_of(s->svc->config->session_quota_bytes, s->kept_bytes),
               room_of(s->svc->config->data_quota_bytes, s->svc->kept_bytes));
}

void quota_force(struct session *s, uint64_t n)
{
    s->kept_bytes += n;
    s->svc->kept_bytes += n;
}

void quota_give(struct session *s, uint64_t n)
{
    s->kept_bytes -= MIN(n, s->kept_bytes);
    s->svc->kept_bytes -= MIN(n, s->svc->kept_bytes);
}

static int refuse(const struct session *s, struct err *e)
{
    const struct config *c = s->svc->config;
    uint64_t own = room_of(c->session_quota_bytes, s->kept_bytes);

    if (own <= room_of(c->data_quota_bytes, s->svc->kept_bytes)) {
        return err_set(e, ERR_QUOTA,
                       "session %s has %" PRIu64 " KiB of the %" PRIu64
                       " KiB that are kept of a session (session_quota)",
                       s->id, s->kept_bytes / KIB, c->session_quota_bytes / KIB);
    }
    return err_set(e, ERR_QUOTA,
                   "the server keeps %" PRIu64 " MiB of the %" PRIu64
                   " MiB that it may (data_quota)",
                   s->svc->kept_bytes / MIB, c->data_quota_bytes / MIB);
}

int quota_check(const struct session *s, uint64_t n, struct err *e)
{
    return n > quota_room(s) ? refuse(s, e) : 0;
}

int quota_take(struct session *s, uint64_t n, struct err *e)
{
    if (quota_check(s, n, e) < 0) {
        return -1;
    }
    quota_force(s, n);
    return 0;
}

/* ---- sessions ---- */

static uint64_t row_bytes(const char *text)
{
    return ROW_BYTES + (text != NULL ? strlen(text) : 0);
}

int quota_begin_session(struct session *s, struct err *e)
{
    uint64_t n = row_bytes(s->record.spec);

    if (quota_take(s, n, e) < 0) {
        return -1;
    }
    s->record.kept_bytes = (int64_t)n;
    return 0;
}

void quota_adopt_session(struct session *s)
{
    s->copy_bytes = workspace_size(s->svc, s->id);
    s->kept_bytes = (uint64_t)s->record.kept_bytes + s->copy_bytes;
}

void quota_forget(struct service *svc, uint64_t n)
{
    svc->kept_bytes -= MIN(n, svc->kept_bytes);
}

/* ---- executions ---- */

int quota_begin_execution(struct execution *x, struct err *e)
{
    uint64_t n = row_bytes(x->record.request);

    if (x->row == ROW_NEVER) {
        return 0;
    }
    if (quota_take(x->session, n + RESULT_LEAST, e) < 0) {
        return -1;
    }
    x->charged = n + RESULT_LEAST;
    x->row_bytes = n;
    x->session->record.kept_bytes += (int64_t)n;
    return 0;
}

void quota_adopt_execution(struct execution *x)
{
    size_t displays = x->kept != NULL ? x->kept->displays.len : 0;

    x->charged = RESULT_LEAST + (x->out.len + x->err.len) * OUTPUT_COST + displays;
    quota_force(x->session, x->charged);
}

void quota_prepare_output(struct execution *x, struct buf *text, size_t size)
{
    size_t want = MIN(size, text->max - text->len);
    struct err ignored;

    if (x->row == ROW_NEVER || want <= x->output_room) {
        return;
    }
    uint64_t left = quota_room(x->session) / OUTPUT_COST;
    uint64_t more = MIN(MAX(OUTPUT_STEP, want - x->output_room), left);
    if (quota_take(x->session, more * OUTPUT_COST, &ignored) == 0) {
        x->charged += more * OUTPUT_COST;
        x->output_room += more;
    }
    if (want > x->output_room) {
        text->max = text->len + x->output_room;
        x->is_cut = true;
    }
}

void quota_use_output(struct execution *x, size_t n)
{
    x->output_room -= MIN(n, x->output_room);
}

bool quota_take_display(struct execution *x, size_t n)
{
    struct err ignored;

    if (quota_take(x->session, n, &ignored) < 0) {
        return false;
    }
    x->charged += n;
    return true;
}

bool quota_end_execution(struct execution *x, size_t result_len, bool is_least)
{
    uint64_t has = x->row_bytes + result_len;

    if (x->row == ROW_NEVER) {
        return true;
    }
    if (!is_least && has > x->charged && has - x->charged > quota_room(x->session)) {
        return false;
    }
    quota_give(x->session, x->charged);
    quota_force(x->session, has);
    x->charged = 0;
    x->session->record.kept_bytes += (int64_t)result_len;
    return true;
}

void quota_drop_execution(struct execution *x)
{
    if (x->charged > 0) { /* it has no end */
        quota_give(x->session, x->charged);
        x->session->record.kept_bytes -= x->row == ROW_STORED ? 0 : (int64_t)x->row_bytes;
        x->charged = 0;
    }
}

/* ---- start ---- */

int quota_open(struct service *svc, struct err *e)
{
    int64_t records = 0;

    if (store_kept_bytes(svc->store, &records, e) < 0) {
        return -1;
    }
    svc->kept_bytes = (uint64_t)MAX(records, (int64_t)0) + workspace_total(svc);
    return 0;
}
