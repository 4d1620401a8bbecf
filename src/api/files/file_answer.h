/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file or an archive of a session as the answer to a call, streamed: what the client does not
 * take is not read from the box.
 *
 * Bytes of a box are hostile also to the browser that shows them: every answer forbids guessing
 * its type and running scripts in it, and nothing is shown in place unless the route is for that.
 */
#pragma once

#include "api/files/file_work.h"

struct file_answer {
    const char *path;
    const char *type;  /* NULL: by the name's extension */
    bool is_shown;     /* in place; otherwise offered as a download */
    bool is_selective; /* conditions and one range, as the client asks */
};

/* Answers, in every case, and ends the work. */
void file_answer_send(struct file_work *w, const struct file_answer *answer);

/*
 * Fields that every answer made of a box's bytes carries. name is the last part of a path: any
 * bytes.
 */
void file_answer_fields(struct api_call *call, const char *name, bool is_shown);
/*
 * For an answer that has begun and cannot be finished: the client sees its connection break. The
 * handler then returns.
 */
void file_answer_break(struct api_call *call);
