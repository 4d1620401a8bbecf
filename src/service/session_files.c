/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace of a session has one user at a time; see service.h. */
#include "core/box_files.h"
#include "service/service_impl.h"

#define READERS_MAX 5 /* a box has up to 8 file workers: some are left for others and for saving */
#define FILES_PATIENCE_MS 60000

/* Perhaps it was our turn. */
static void files_pass(struct session *s)
{
    if (!s->files_busy) {
        (void)fiber_queue_wake(&s->files_line);
    }
}

static void files_free(struct session *s)
{
    s->files_busy = false;
    (void)fiber_queue_wake(&s->files_line);
    fiber_queue_wake_all(&s->idle);
}

/* Until they are free. A box that is being opened may not have got its files back yet. */
static int files_await(struct session *s, int64_t patience_ms, struct err *e)
{
    while (s->files_busy || session_box_is_changing(s)) {
        if (fiber_queue_wait(s->files_busy ? &s->files_line : &s->opened, patience_ms) < 0) {
            files_pass(s);
            return err_set(e, ERR_TIMEOUT, "the workspace of session %s is busy", s->id);
        }
    }
    return 0;
}

/* The last user may have left a dead box behind: then there is a new one. */
static int files_box(struct session *s, struct err *e)
{
    do {
        if (session_box(s, e) < 0) {
            files_pass(s);
            return -1;
        }
        if (files_await(s, FILES_PATIENCE_MS, e) < 0) {
            return -1;
        }
    } while (s->box == NULL || session_box_is_dead(s));
    return 0;
}

/* The box ended while it was used; the launcher's report of it follows. */
static int await_box_end(struct session *s, struct err *e)
{
    if (s->box == NULL) {
        return 0;
    }
    (void)session_box_hold(s);
    (void)notebook_await_end(s->box, END_PATIENCE_MS, e);
    bool has_ended = notebook_has_ended(s->box);
    session_box_give(s);
    return has_ended
               ? 0
               : err_set(e, ERR_TIMEOUT,
                         "the launcher does not report the end of the box of session %s", s->id);
}

struct box_files *session_files_take(struct session *s, struct err *e)
{
    if (!s->persistent) {
        err_set(e, ERR_CONFLICT, "session %s is ephemeral: it has no workspace to keep", s->id);
        return NULL;
    }
    while (files_box(s, e) == 0) {
        struct box_files *files = files_take(s, e);
        if (files != NULL || e->code != ERR_NOT_FOUND || await_box_end(s, e) < 0) {
            return files;
        }
    }
    return NULL;
}

struct box_files *files_take(struct session *s, struct err *e)
{
    if (files_await(s, FILES_PATIENCE_MS, e) < 0) {
        return NULL;
    }
    if (session_is_ending(s) || s->box == NULL) {
        files_pass(s);
        err_set(e, ERR_CONFLICT, "session %s has ended", s->id);
        return NULL;
    }
    s->files_busy = true;
    s->files_box = s->box;
    /* The user owns it: the session may end meanwhile. */
    struct box_files *files = TAKE_PTR(s->files);
    if (files == NULL) {
        session_box_step(s, BOX_ATTACHING);
        files = box_files_open(s->box, e);
        session_box_step(s, BOX_OPEN);
    }
    if (files == NULL) {
        files_free(s);
    }
    session_touch(s);
    return files;
}

int session_check_upload(const struct session *s, uint64_t bytes, struct err *e)
{
    return quota_check(s, bytes, e);
}

void session_files_give(struct session *s, struct box_files *files, bool changed)
{
    if (session_is_ending(s) || s->box == NULL || s->box != s->files_box ||
        !box_files_is_usable(files)) {
        box_files_close(files);
    } else {
        s->files = files;
    }
    if (changed) {
        workspace_changed(s);
    }
    files_free(s);
    session_touch(s);
}

bool session_files_read_on(struct session *s)
{
    if (s->files_readers >= READERS_MAX) {
        return false;
    }
    s->files_readers++;
    files_free(s);
    return true;
}

void session_files_close(struct session *s, struct box_files *files)
{
    box_files_close(files);
    s->files_readers--;
    session_touch(s);
}
