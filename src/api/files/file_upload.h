/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a call as a source for box_files_write() and box_files_unpack(): read from the
 * client only as fast as the box takes it, never whole in memory.
 */
#pragma once

#include <limits.h>

#include "api/files/file_work.h"

#define FILE_PATH_SIZE 1025

/*
 * Where a raw body comes from; user is the call. A client that fails or sends too much was answered
 * by the call.
 */
ssize_t file_upload_next(void *user, void *buf, size_t size);

/* ---- multipart ---- */

struct file_form {
    struct api_call *call;
    /* parts that the contract does not name are refused; otherwise they are skipped */
    bool is_strict;
    char filename[FILE_PATH_SIZE]; /* of the part; "": it has none */
};

/* Finds the part called "file". -1: there is none, or the body is malformed; answered. */
int file_form_begin(struct file_form *form, struct api_call *call, bool is_strict);
/* next() of a source, user is the form: ends only when the whole form was found well-formed. */
ssize_t file_form_next(void *user, void *buf, size_t size);
/* Answers 422 about the part "file". */
void file_form_refuse(struct api_call *call, const char *type, const char *message);
