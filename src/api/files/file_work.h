/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on a session's files for one call, and how its failures are answered; shared by /api/v1 and
 * /workspace/se.
 *
 * A file that a client names is only ever touched by the worker inside the box (core/box_files.h):
 * nothing here opens anything. What a box says about its files (names, sizes, times) is shown,
 * never trusted.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/call/call.h"
#include "core/box_files.h"
#include "http/range.h"

#define FILE_TIME_SIZE 32

struct file_work {
    struct api_call *call;
    struct session *session;
    struct box_files *files;
    bool changed;  /* something may have been written */
    bool is_apart; /* it only reads on: others have the workspace */
};

/*
 * Takes the session (which may be NULL: then it was answered) and its files. -1: answered, and
 * nothing is held.
 */
int file_work_begin(struct file_work *w, struct api_call *call, struct session *session);
/*
 * Gives everything back. Before any answer that is not streamed, so that others need not wait for
 * it.
 */
void file_work_end(struct file_work *w);
/* From here on it only sends what it reads: a slow client makes no other one wait. */
void file_work_read_on(struct file_work *w);
/* A fresh connection after one that was given up. -1: answered, and nothing is held. */
int file_work_again(struct file_work *w);

/*
 * Answers a request to the files that failed, in the words of the call's dialect, and ends the
 * work. When our own side gave up (FILES_ABORTED) it answers nothing: the callback that gave up
 * did, or the client is gone.
 */
void file_work_fail(struct file_work *w, const struct err *e);
/*
 * The same for writing: no file can be larger than the disk, so one that is too large has filled
 * it.
 */
void file_work_fail_write(struct file_work *w, const struct err *e);
/* The same for a request that the API itself refuses. */
void file_work_refuse(struct file_work *w, enum files_status status, const char *detail);
/* The same for a condition that does not hold: 412. */
void file_work_refuse_condition(struct file_work *w);

/*
 * Whether If-Match, If-None-Match and If-Unmodified-Since let the file be changed as it is now.
 * -1: answered, and the work has ended.
 */
int file_work_check_conditions(struct file_work *w, const char *path);

/*
 * Whether what the call brings could be kept: what is acknowledged must not be lost for lack of
 * room. -1: answered, and the work has ended.
 */
int file_work_check_quota(struct file_work *w);
/* Writes what source gives; -1: answered or gone, and the work has ended. */
int file_work_write(struct file_work *w, const char *path, struct box_files_write *write);

/* ---- what a file looks like ---- */

const char *file_kind_word(uint32_t kind); /* "file", "directory", "symlink", "other" */
/* RFC 3339 in UTC with milliseconds. */
void file_time_text(int64_t ms, char dst[FILE_TIME_SIZE]);
int64_t file_time_ms(const struct files_info *info);
void file_etag(const struct files_info *info, char dst[HTTP_ETAG_SIZE]);

/* By the extension of the name; application/octet-stream when it says nothing. */
const char *file_content_type(const char *name);
/* The extension without its dot, in lower case; "" when there is none. */
#define FILE_EXTENSION_SIZE 12
void file_extension(const char *name, char dst[FILE_EXTENSION_SIZE]);
