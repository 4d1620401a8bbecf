/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors in the words of each dialect: codes, sentences, bodies.
 *
 * Knows nothing of calls and requests. What is said here goes to clients, so it never holds a path
 * of the host or the text of a system error.
 */
#pragma once

#include <jansson.h>

#include "api/contract/route.h"
#include "base/err.h"

/* What is known about a code of /api/v1 or /workspace/se. Texts are static. */
struct api_error_row {
    const char *code; /* "Sandbox.SessionNotFound" */
    const char *description;
    const char *solution;
};

/* A run that has no result since the server failed. */
struct api_fault {
    bool begun;        /* code of the client may have run */
    bool is_retryable; /* the same request may be sent again */
    double queue_ms;
    const char *execution_id; /* borrowed; NULL: it has none */
};

/*
 * One answer that is an error: how a struct err, or what a handler itself refuses, looks to a
 * client. Texts are borrowed.
 */
struct api_error {
    int status;
    const char *code;              /* NULL: what the dialect calls that status */
    const char *description;       /* NULL: the code's */
    const char *detail;            /* NULL: the description again */
    const char *solution;          /* NULL: the code's */
    const struct api_fault *fault; /* NULL: the error is not about a run */
};

#define API_DETAIL_MAX 512

const struct api_error_row *api_error_find(const char *code); /* NULL: no such code */

/* The dialect's code for a status, when nothing more is known. */
const char *api_error_code(enum api_dialect dialect, int status);

/*
 * Dialects whose originals stand on FastAPI: 422 with a list for everything that is wrong in a
 * request.
 */
bool api_is_fastapi(enum api_dialect dialect);

/* The original Runtime knows fewer statuses than we do. */
int api_error_status(enum api_dialect dialect, int status);

/* A message of the layers below, without paths of the host; cut to size. */
void api_error_text(char *dst, size_t size, const char *msg);

/*
 * From an error of the layers below: status, code and detail, which is written to `detail`. What
 * clients must not see (paths, system errors) is left out of it.
 */
void api_error_from(const struct err *e, enum api_dialect dialect,
                    char detail[static API_DETAIL_MAX], struct api_error *ret);

/* The dialect of a path or target that may not be in the contract at all. */
enum api_dialect api_dialect_of(const char *target);

/* Any bytes as a JSON string: what is not UTF-8 becomes U+FFFD. NULL when memory is gone. */
json_t *api_text_json(const char *s, size_t n);

/*
 * The same about a run, as a member of its record: {status, error_code, description, error_detail,
 * solution, begun, retryable}. NULL when memory is gone.
 */
json_t *api_fault_json(const struct api_error *error);

/* The body. request_id is used by /api/v1 only. NULL when memory is gone. */
json_t *api_error_json(enum api_dialect dialect, const struct api_error *error,
                       const char *request_id);
