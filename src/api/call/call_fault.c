/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that have no result since the server failed: the same answer in every dialect, in its own
 * words. A client reads from it whether anything had begun, and whether it may ask again.
 */
#include "api/call/call_impl.h"

/* One that is refused for what the host lacks is refused again. */
static bool is_retryable(const struct run_fault *fault, int status)
{
    return fault->can_repeat && (status == 429 || status == 503) &&
           fault->err.code != ERR_ISOLATION;
}

/* The texts are written to `detail`; *ret borrows it and *run. */
static void translate(const struct run_fault *fault, enum api_dialect dialect,
                      char detail[static API_DETAIL_MAX], struct api_fault *run,
                      struct api_error *ret)
{
    api_error_from(&fault->err, dialect, detail, ret);
    *run = (struct api_fault){
        .begun = fault->begun,
        .is_retryable = is_retryable(fault, ret->status),
        .queue_ms = fault->queue_ms,
    };
    ret->fault = run;
}

void call_reply_fault(struct api_call *call, const struct run_fault *fault,
                      const char *execution_id)
{
    char detail[API_DETAIL_MAX];
    struct api_fault run;
    struct api_error error;

    translate(fault, call->dialect, detail, &run, &error);
    run.execution_id = execution_id;
    call->no_retry = !run.is_retryable;
    call_log_error(call, &fault->err, error.status);
    call_reply_api_error(call, &error);
}

void call_reply_unbegun(struct api_call *call, const struct err *e)
{
    const struct run_fault fault = {.err = *e, .can_repeat = true};

    call_reply_fault(call, &fault, NULL);
}

json_t *call_fault_json(const struct run_fault *fault)
{
    char detail[API_DETAIL_MAX];
    struct api_fault run;
    struct api_error error;

    translate(fault, API_V1, detail, &run, &error);
    return api_fault_json(&error);
}
