/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers of /api/v1 share: sessions and executions as JSON, pages, and errors in the
 * words of this API.
 *
 * One place for each shape of api/v1_schemas.yaml. Reads records and the service, changes nothing,
 * never waits.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/call/call.h"
#include "base/attr.h"
#include "base/err.h"
#include "service/service.h"

/* "2026-01-15T09:30:00.000Z"; null for 0. */
json_t *v1_time(int64_t ms);

/* "box_3f2a" and back; false: not of that form. */
#define V1_BOX_NAME_MAX 24
void v1_box_name(uint64_t id, char ret[static V1_BOX_NAME_MAX]);
bool v1_box_id(const char *name, uint64_t *ret);

/* "512Mi": the largest unit that says it exactly. */
json_t *v1_size(uint64_t bytes);

/* What the sessions of one answer have in common; looked up once. */
struct v1_sessions {
    struct service *svc;
    char template_name[SERVICE_ID_SIZE]; /* of the last session, and */
    const char *language;                /* its language, or NULL */
};

json_t *v1_session_json(struct v1_sessions *sessions, const struct session_view *record);

/* Answers with the session of that id as it is now. */
/* A session as JSON; NULL: there is none, and the call is answered. */
json_t *v1_session_by_id(struct api_call *call, const char *id);
void v1_reply_session(struct api_call *call, int status, const char *id);

/* The first has everything, the second no output. */
json_t *v1_execution_json(const struct execution_entry *it);
json_t *v1_execution_state_json(const struct execution_entry *it);

/* {items, total, limit, offset, has_more}; takes items. */
json_t *v1_page(const struct api_call *call, json_t *items, int64_t total);

/* Lists of records: limit, and offset or cursor. -1: answered. */
int v1_list_part(struct api_call *call, struct list_part *ret);
/* v1_page() with next_cursor; takes items. */
json_t *v1_list_page(const struct api_call *call, json_t *items, const struct list_seen *seen);

/* What was not found, for the error's code. */
enum v1_thing { V1_SESSION, V1_EXECUTION, V1_TEMPLATE, V1_CONTAINER, V1_CONTEXT, V1_OTHER };

/* The error of the service; ERR_NOT_FOUND is answered as that thing's own. */
void v1_reply_err(struct api_call *call, const struct err *e, enum v1_thing thing);
/* 422 for one field that the contract alone cannot judge. */
void v1_reply_field(struct api_call *call, const char *in, const char *name, const char *message);

/* The request's Idempotency-Key; the scope is borrowed. */
struct request_key v1_key(const struct api_call *call, const char *scope);

/* The session that the path names; answered and NULL when it is not there or has ended. */
struct session *v1_hold_session(struct api_call *call);
static inline void v1_session_cleanup(struct session **s)
{
    session_release(*s);
}
#define AUTO_SESSION AUTO(v1_session_cleanup)

#define AUTO_EXECUTION AUTO(execution_close) /* an execution_entry */

static inline void v1_template_cleanup(struct template_record **r)
{
    template_record_free(*r);
}
#define AUTO_TEMPLATE AUTO(v1_template_cleanup)

/* template_modules.c: preload, not_preloaded, and what they mean for is_active and missing. */
void template_modules_json(struct service *svc, const struct husk_template_info *info, json_t *to);
