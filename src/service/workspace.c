/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable copies of workspaces: one tar per persistent session in DATA/workspaces.
 *
 * A workspace lives in its box, in memory, with a size limit. Its copy is written by our worker
 * inside the box (core/box_files.h): no process outside walks what the box can rearrange. Written
 * to a temporary name, synced, renamed, so that there is always one whole copy.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/box_files.h"
#include "service/service_impl.h"

#define QUIET_MS 2000         /* without work, before a copy is written */
#define RETRY_MS 10000        /* a full disk must not keep us busy */
#define QUOTA_RETRY_MS 300000 /* nor a workspace that stays too large */
#define SAVES_AT_ONCE 4

#define NOT_COPIED "write the copy of a workspace"

struct copy {
    struct session *session;
    int fd;
    int failed;       /* errno of a write */
    uint64_t written; /* bytes */
    uint64_t taken;   /* of these: beyond what the copy before has */
    struct err quota; /* why the quota did not take it */
};

/*
 * Bytes beyond those of the copy before, which goes when this one is there. A quota of all
 * sessions is like a full disk: others may make room.
 */
static int take_quota(struct copy *copy, size_t n)
{
    struct session *s = copy->session;
    uint64_t paid = s->copy_bytes + copy->taken;
    uint64_t more = copy->written + n - MIN(paid, copy->written + n);

    if (quota_take(s, more, &copy->quota) < 0) {
        bool is_own = s->kept_bytes + more > s->svc->config->session_quota_bytes;
        copy->quota.code = is_own ? ERR_QUOTA : ERR_STORAGE;
        return -1;
    }
    copy->taken += more;
    copy->written += n;
    return 0;
}

static int write_some(void *user, const void *data, size_t n)
{
    struct copy *copy = user;

    if (take_quota(copy, n) < 0) {
        return -1;
    }
    copy->failed = -fd_write_all(copy->fd, data, n);
    return copy->failed != 0 ? -1 : 0;
}

static int save_to(struct copy *copy, struct err *e)
{
    struct session *s = copy->session;
    struct box_files_sink sink = {.on_data = write_some, .user = copy};

    /* A session that ends does not wait for an upload that stalls: a worker of its own reads. */
    bool is_last = session_is_ending(s);
    struct box_files *files = is_last ? box_files_open(s->box, e) : files_take(s, e);
    if (files == NULL) {
        return -1;
    }
    bool more = false;
    int r = box_files_copy(files, notebook_limits(s->box), &sink, &more, e);
    if (more) {
        log_warn("workspace_saved_in_part",
                 "session=%s: what is too deep, too long or mostly holes is left out", s->id);
    }
    if (is_last) {
        box_files_close(files);
    } else {
        session_files_give(s, files, false);
    }
    if (r < 0 && copy->quota.code != ERR_NONE) {
        *e = copy->quota;
        return -1;
    }
    if (r < 0 && copy->failed != 0) {
        return err_disk(e, copy->failed, NOT_COPIED);
    }
    return r == 0 && fdatasync(copy->fd) < 0 ? err_disk(e, errno, NOT_COPIED) : r;
}

static int save(struct session *s, struct err *e)
{
    char path[DATA_PATH_SIZE];
    char temporary[DATA_PATH_SIZE];

    data_file_path(s->svc->config, DATA_WORKSPACES, s->id, ".tar", path);
    data_file_path(s->svc->config, DATA_WORKSPACES, s->id, ".new", temporary);
    AUTO_CLOSE int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_disk(e, errno, NOT_COPIED);
    }
    FAULT_POINT("workspace.save.opened");
    struct copy copy = {.session = s, .fd = fd};
    int r = save_to(&copy, e);
    FAULT_POINT("workspace.save.synced");
    if (r == 0 && rename(temporary, path) < 0) {
        r = err_disk(e, errno, NOT_COPIED);
    }
    FAULT_POINT("workspace.save.renamed");
    if (r < 0) {
        (void)unlink(temporary);
        quota_give(s, copy.taken);
        return -1;
    }
    quota_give(s, s->copy_bytes + copy.taken - copy.written);
    s->copy_bytes = copy.written;
    return 0;
}

/* Few at a time: then how long one takes does not depend on how many there are. */
static void begin_save(struct service *svc)
{
    while (svc->saves >= SAVES_AT_ONCE) {
        (void)fiber_queue_wait(&svc->saves_line, -1);
    }
    svc->saves++;
}

static void end_save(struct service *svc)
{
    svc->saves--;
    (void)fiber_queue_wake(&svc->saves_line);
}

int workspace_save(struct session *s, struct err *e)
{
    while (s->saving) { /* it has the temporary name */
        (void)fiber_queue_wait(&s->saved, -1);
    }
    if (!s->dirty) {
        return 0;
    }
    s->saving = true;
    begin_save(s->svc);
    int64_t began = clock_wall_ms();
    s->saved_ms = clock_ms();
    s->dirty = false; /* before, so that a change meanwhile is not forgotten */
    int r = s->box != NULL ? save(s, e) : err_set(e, ERR_NOT_FOUND, "its box is gone");
    if (r < 0) {
        s->dirty = true;
        s->save_at = clock_ms() + (e->code == ERR_QUOTA ? QUOTA_RETRY_MS : RETRY_MS);
    }
    end_save(s->svc);
    workspace_tried(s, began, r < 0 ? e : NULL);
    s->saving = false;
    fiber_queue_wake_all(&s->saved);
    return r;
}

enum save_outcome workspace_save_next(struct service *svc, bool even_at_work)
{
    uint64_t now = clock_ms();
    struct err e = {0};

    for (struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        bool quiet =
            even_at_work || (s->working == 0 && !s->files_busy && now - s->active_ms >= QUIET_MS);
        bool is_due = s->dirty ? now >= s->save_at : even_at_work && s->saving;
        if (is_due && s->persistent && s->box != NULL && !session_is_ending(s) && quiet) {
            uint64_t active = s->active_ms;
            session_ref(s);
            int r = workspace_save(s, &e);
            if (r < 0) {
                log_warn("workspace_not_saved", "session=%s: %s", s->id, e.msg);
            }
            s->active_ms = active; /* saving is no activity of the session */
            session_release(s);
            return r < 0 ? SAVE_FAILED : SAVE_DONE;
        }
    }
    return SAVE_NONE;
}

static ssize_t read_some(void *user, void *buf, size_t size)
{
    return read(*(int *)user, buf, size);
}

int workspace_restore(struct session *s, struct err *e)
{
    char path[DATA_PATH_SIZE];

    data_file_path(s->svc->config, DATA_WORKSPACES, s->id, ".tar", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? 0 : err_sys(e, errno, "read the copy of a workspace");
    }
    struct box_files_unpack unpack = {.source = {.next = read_some, .user = &fd}, .copy = true};
    struct box_files *files = box_files_open(s->box, e);
    FAULT_POINT("workspace.restore.before");
    int r = files == NULL ? -1 : box_files_unpack(files, "", &unpack, e);
    FAULT_POINT("workspace.restore.after");
    if (unpack.more) {
        log_warn("workspace_restored_in_part", "session=%s: not all of it fits into the box",
                 s->id);
    }
    box_files_close(files);
    fd_close(&fd);
    return r;
}

/*
 * Half-written, or of a session that was removed: the daemon was killed between the record and the
 * file.
 */
static bool is_stray(struct service *svc, const char *file)
{
    AUTO_FREE struct store_session *row = NULL;
    struct err e = {0};
    char id[ID_SIZE];

    const char *dot = strrchr(file, '.');
    if (dot == NULL || !str_eq(dot, ".tar")) {
        return dot != NULL && str_eq(dot, ".new");
    }
    return str_format(id, sizeof(id), "%.*s", (int)(dot - file), file) == 0 &&
           store_get_session(svc->store, id, &row, &e) < 0 && e.code == ERR_NOT_FOUND;
}

void workspace_sweep(struct service *svc)
{
    char path[DATA_PATH_SIZE];

    data_folder_path(svc->config, DATA_WORKSPACES, path);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (!is_stray(svc, entry->d_name)) {
            continue;
        }
        const char *dot = strrchr(entry->d_name, '.');
        struct stat st = {0};
        bool counts = str_eq(dot, ".tar") && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0;
        if (unlinkat(dirfd(dir), entry->d_name, 0) < 0) {
            log_warn("workspace_not_removed", "file=%s", entry->d_name);
        } else if (counts) {
            quota_forget(svc, (uint64_t)st.st_size);
        }
    }
    closedir(dir);
}

uint64_t workspace_size(const struct service *svc, const char *session_id)
{
    char path[DATA_PATH_SIZE];
    struct stat st;

    data_file_path(svc->config, DATA_WORKSPACES, session_id, ".tar", path);
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

uint64_t workspace_total(struct service *svc)
{
    char path[DATA_PATH_SIZE];
    uint64_t total = 0;
    struct stat st;

    data_folder_path(svc->config, DATA_WORKSPACES, path);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return 0;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot != NULL && str_eq(dot, ".tar") && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0) {
            total += (uint64_t)st.st_size;
        }
    }
    closedir(dir);
    return total;
}

void workspace_remove(struct service *svc, const char *session_id)
{
    uint64_t size = workspace_size(svc, session_id);
    char path[DATA_PATH_SIZE];

    data_file_path(svc->config, DATA_WORKSPACES, session_id, ".tar", path);
    if (unlink(path) == 0) {
        struct session *s = table_session(svc, session_id);
        if (s != NULL) {
            s->kept_bytes -= MIN(s->copy_bytes, s->kept_bytes);
            s->copy_bytes = 0;
        }
        quota_forget(svc, size);
    } else if (errno != ENOENT) {
        log_warn("workspace_not_removed", "session=%s", session_id);
    }
}
