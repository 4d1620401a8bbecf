/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers of /workspace/se share: sessions that are created on first use,
 * paths in the original's loose form, and errors in its words.
 *
 * Sessions are persistent ones of the template python whose record says that they are of this
 * dialect. Those of other dialects cannot be reached here, whatever their id.
 */
#pragma once

#include "api/call/call.h"
#include "api/files/file_work.h"
#include "base/buf.h"

#define SE_DIALECT "workspace_se"
#define SE_SIZE "100M" /* of a session that was not created by name */

/* The live session of the call's path, made if there is none. Held. NULL: answered. */
struct session *se_session(struct api_call *call);
/* The same for a request to run something: a refusal says that nothing has begun. */
struct session *se_session_to_run(struct api_call *call);

/* Work on its files. -1: answered. */
int se_file_work_begin(struct file_work *w, struct api_call *call);

/*
 * What boxes of this dialect may use. disk is that of a session; 0: a handler's box, where it is a
 * share of the memory. Files live in memory, and the original counts them apart from what programs
 * use: a disk that is asked for comes on top.
 */
struct husk_limits se_limits(const struct api_call *call, uint64_t disk);

/*
 * "/a//./b/" as "a/b". The contract has refused "..". -1: longer than a path may be. "" is the
 * workspace itself.
 */
int se_path(const char *text, char dst[static FILES_PATH_MAX + 1]);

/* To a result's stderr: a line for everything that the answer leaves out without another sign. */
int se_add_losses(struct buf *err, const struct husk_result *r);

/* Answers 200 with the object, which is taken, and one more member: JSON that stays as it is. */
void se_reply_with(struct api_call *call, json_t *answer, const char *name, const char *json);
/* Answers 400 about the path. */
void se_reply_bad_path(struct api_call *call, const char *detail);
/* Answers 422 about a field of the body. */
void se_reply_field(struct api_call *call, const char *name, const char *type, const char *message);
