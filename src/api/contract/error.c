/* SPDX-License-Identifier: Apache-2.0 */
/* Errors in the words of each dialect; see error.h. */
#include "api/contract/error.h"

#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/str.h"

static const struct api_error_row rows[] = {
    {"Sandbox.InvalidParameter", "The request is not valid.",
     "Correct what error_detail names; the contract is at /docs."},
    {"Sandbox.Forbidden", "The request is not allowed.",
     "Call the server by a name and from an origin that its configuration allows."},
    {"Sandbox.NotFound", "There is nothing at this address.",
     "Look up the address in the contract at /docs."},
    {"Sandbox.SessionNotFound", "The session does not exist.",
     "Create one with POST /api/v1/sessions."},
    {"Sandbox.ExecutionNotFound", "The execution does not exist.",
     "List them with GET /api/v1/sessions/{session_id}/executions."},
    {"Sandbox.TemplateNotFound", "The template does not exist.",
     "List them with GET /api/v1/templates."},
    {"Sandbox.ContainerNotFound", "The sandbox does not exist.",
     "List them with GET /api/v1/containers."},
    {"Sandbox.FileNotFound", "The file does not exist.",
     "List the workspace with GET /api/v1/sessions/{session_id}/files."},
    {"Sandbox.MethodNotAllowed", "The address does not have this method.",
     "Use one of the methods in the Allow header."},
    {"Sandbox.RequestTimeout", "The request took too long.",
     "Send the request faster, or wait for less."},
    {"Sandbox.Conflict", "The current state does not allow this.",
     "Look at the state that error_detail names, then change the request or the state."},
    {"Sandbox.Unsupported", "This kind of thing cannot do that.",
     "error_detail says what can; do it there, or do without."},
    {"Sandbox.TooLarge", "The request is too large.", "Send less, or large data as a file."},
    {"Sandbox.RangeNotSatisfiable", "The range lies outside the file.",
     "Ask for bytes that exist, or leave out Range."},
    {"Sandbox.TooManyRequests", "Too many requests.",
     "Try again after the time in Retry-After, or end what is no longer used."},
    {"Sandbox.ExecutionLost", "The server failed while the code was running.",
     "Look at what the code may have done before you run it again: its end is not known."},
    {"Sandbox.ExecTimeout", "The execution took too long.",
     "Raise the timeout, or give the code less to do."},
    {"Sandbox.IsolationMissing", "The isolation that is asked for cannot be had.",
     "Ask for less isolation, or let the operator run `husk doctor`."},
    {"Sandbox.NotImplemented", "The server does not do this.",
     "Look up in the contract at /docs what it does instead."},
    {"Sandbox.Unavailable", "The server cannot do this now.",
     "Try again after the time in Retry-After."},
    {"Sandbox.DiskFull", "The server's disk cannot take this now.",
     "Delete sessions that are no longer used, then try again."},
    {"Sandbox.QuotaExceeded", "No more can be kept of the session, or of all sessions.",
     "Delete files, or remove sessions with DELETE /api/v1/sessions/{session_id}?purge=true."},
    {"Sandbox.InternalError", "The server failed.",
     "Try again; if it stays, report it with the request id."},
    /* Words of the original Runtime, also where it misspells them. */
    {"Sandbox.NotInitialized", "The sandboxes are not ready.",
     "Try again after the time in Retry-After."},
    {"Sandbox.ExecException", "The execution failed.",
     "Look at error_detail and correct the code."},
    {"Sandbox.TooManyRequestsExection", "Too many executions at once.",
     "Try again after the time in Retry-After."},
};

const struct api_error_row *api_error_find(const char *code)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_eq(rows[i].code, code)) {
            return &rows[i];
        }
    }
    return NULL;
}

/* ---- from a status ---- */

static const struct {
    int status;
    const char *v1;
    const char *se;
} by_status[] = {
    {400, "Sandbox.InvalidParameter", "Sandbox.InvalidParameter"},
    {403, "Sandbox.Forbidden", "Sandbox.InvalidParameter"},
    {404, "Sandbox.NotFound", "Sandbox.InvalidParameter"},
    {405, "Sandbox.MethodNotAllowed", "Sandbox.InvalidParameter"},
    {408, "Sandbox.RequestTimeout", "Sandbox.InvalidParameter"},
    {409, "Sandbox.Conflict", "Sandbox.InvalidParameter"},
    {412, "Sandbox.Conflict", "Sandbox.InvalidParameter"},
    {413, "Sandbox.TooLarge", "Sandbox.InvalidParameter"},
    {416, "Sandbox.RangeNotSatisfiable", "Sandbox.InvalidParameter"},
    {421, "Sandbox.Forbidden", "Sandbox.InvalidParameter"},
    {429, "Sandbox.TooManyRequests", "Sandbox.TooManyRequestsExection"},
    {500, "Sandbox.InternalError", "Sandbox.InternalError"},
    {501, "Sandbox.NotImplemented", "Sandbox.InternalError"},
    {503, "Sandbox.Unavailable", "Sandbox.NotInitialized"},
    {505, "Sandbox.NotImplemented", "Sandbox.InvalidParameter"},
};

const char *api_error_code(enum api_dialect dialect, int status)
{
    bool is_se = dialect == API_WORKSPACE_SE;

    for (size_t i = 0; i < ARRAY_LEN(by_status); i++) {
        if (by_status[i].status == status) {
            return is_se ? by_status[i].se : by_status[i].v1;
        }
    }
    return status < 500 ? "Sandbox.InvalidParameter" : "Sandbox.InternalError";
}

bool api_is_fastapi(enum api_dialect dialect)
{
    return dialect == API_RUN || dialect == API_WORKSPACE_SE || dialect == API_AGENTS;
}

int api_error_status(enum api_dialect dialect, int status)
{
    return dialect == API_WORKSPACE_SE && status == 429 ? 503 : status;
}

/* ---- from an error of the layers below ---- */

static const struct {
    enum err_code code;
    int status; /* the contract's; err_http() is for programs without a contract */
    const char *v1;
    const char *se;
    /* instead of the message, which may name things of the host; NULL: it does not */
    const char *detail;
} by_error[] = {
    {ERR_INVALID, 400, NULL, NULL, NULL},
    {ERR_NOT_FOUND, 404, NULL, NULL, NULL},
    {ERR_EXISTS, 409, NULL, NULL, NULL},
    {ERR_CONFLICT, 409, NULL, NULL, NULL},
    {ERR_UNSUPPORTED, 409, "Sandbox.Unsupported", NULL, NULL},
    {ERR_LIMIT, 429, NULL, NULL, NULL},
    {ERR_TEMPLATE, 422, NULL, NULL, NULL},
    {ERR_ISOLATION, 503, "Sandbox.IsolationMissing", NULL,
     "this host cannot enforce a layer of isolation that is asked for"},
    {ERR_LAUNCHER, 503, NULL, NULL, "the launcher is being restarted"},
    {ERR_TIMEOUT, 503, NULL, NULL, "the server's own deadline for this has passed"},
    {ERR_UNAVAILABLE, 503, NULL, NULL, NULL},
    {ERR_LOST, 503, "Sandbox.ExecutionLost", NULL, NULL},
    {ERR_STORAGE, 503, "Sandbox.DiskFull", "Sandbox.InternalError",
     "the change could not be made durable"},
    {ERR_QUOTA, 507, "Sandbox.QuotaExceeded", "Sandbox.InternalError", NULL},
};

/*
 * A path that begins at the root is the host's, unless it is one of the box's own or of the API's.
 */
static bool is_host_path(const char *at)
{
    static const char *const known[] = {"/workspace", "/api/", "/docs", "/run "};

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (str_starts(at, known[i])) {
            return false;
        }
    }
    return at[1] != '\0' && at[1] != ' ';
}

void api_error_text(char *dst, size_t size, const char *msg)
{
    size_t used = 0;

    for (const char *p = msg; *p != '\0' && used + 5 < size;) {
        bool starts_word = p == msg || strchr(" \"'(=:,", p[-1]) != NULL;
        if (*p == '/' && starts_word && is_host_path(p)) {
            memcpy(dst + used, "...", 3);
            used += 3;
            p += strcspn(p, " \"',;:)");
            continue;
        }
        dst[used++] = *p++;
    }
    dst[used] = '\0';
}

/* The text of an errno stays inside, unless it names the limit that was reached. */
static bool is_limit(const struct err *e)
{
    return e->code == ERR_LIMIT && (e->sys_errno == EMFILE || e->sys_errno == ENFILE);
}

void api_error_from(const struct err *e, enum api_dialect dialect,
                    char detail[static API_DETAIL_MAX], struct api_error *ret)
{
    bool is_se = dialect == API_WORKSPACE_SE;

    *ret = (struct api_error){.status = 500, .detail = detail};
    (void)str_copy(detail, API_DETAIL_MAX, "an internal error; the server's log has more");
    for (size_t i = 0; i < ARRAY_LEN(by_error); i++) {
        if (by_error[i].code != e->code) {
            continue;
        }
        ret->status = by_error[i].status;
        ret->code = is_se ? by_error[i].se : by_error[i].v1;
        if (by_error[i].detail != NULL) {
            (void)str_copy(detail, API_DETAIL_MAX, by_error[i].detail);
        } else if (e->sys_errno == 0 || is_limit(e)) {
            api_error_text(detail, API_DETAIL_MAX, e->msg);
        }
    }
    if (ret->code == NULL) {
        ret->code = api_error_code(dialect, ret->status);
    }
    ret->status = api_error_status(dialect, ret->status);
}

/* ---- bodies ---- */

enum api_dialect api_dialect_of(const char *target)
{
    static const char *const run[] = {"/", "/run", "/health"};
    size_t n = strcspn(target, "?");

    for (size_t i = 0; i < ARRAY_LEN(run); i++) {
        if (n == strlen(run[i]) && memcmp(target, run[i], n) == 0) {
            return API_RUN;
        }
    }
    if (str_starts(target, "/workspace/se/")) {
        return API_WORKSPACE_SE;
    }
    if (str_starts(target, "/agents")) {
        return API_AGENTS;
    }
    return str_starts(target, "/api/v1/") ? API_V1 : API_COMMON;
}

json_t *api_text_json(const char *s, size_t n)
{
    json_t *whole = json_stringn(s, n); /* checks that it is UTF-8, which nearly everything is */

    if (whole != NULL) {
        return whole;
    }
    AUTO_BUF struct buf b = BUF_INIT(n * 3 + 1);
    return buf_add_utf8(&b, s, n) < 0 ? NULL : json_stringn(b.data != NULL ? b.data : "", b.len);
}

/* {error_code, description, error_detail, solution}: what all dialects that have codes share. */
static json_t *words_json(enum api_dialect dialect, const struct api_error *error)
{
    const char *code = error->code != NULL ? error->code : api_error_code(dialect, error->status);
    const struct api_error_row *row = api_error_find(code);
    const char *description = error->description != NULL ? error->description
                              : row != NULL              ? row->description
                                                         : code;
    const char *detail = error->detail != NULL ? error->detail : description;
    const char *solution = error->solution != NULL ? error->solution
                           : row != NULL           ? row->solution
                                                   : "";

    return json_pack("{s:s, s:s, s:o, s:s}", "error_code", code, "description", description,
                     "error_detail", api_text_json(detail, strlen(detail)), "solution", solution);
}

static void set_fault(json_t *to, const struct api_fault *fault)
{
    if (fault != NULL) {
        json_object_set_new(to, "begun", json_boolean(fault->begun));
        json_object_set_new(to, "retryable", json_boolean(fault->is_retryable));
        json_object_set_new(to, "queue_ms", json_real(fault->queue_ms));
    }
    if (fault != NULL && fault->execution_id != NULL) {
        json_object_set_new(to, "execution_id", json_string(fault->execution_id));
    }
}

/* One text; /run has the code, too, where the client can do something about it. */
static json_t *text_json(enum api_dialect dialect, const struct api_error *error, json_t *words)
{
    static const char internal[] = "Internal server error";
    json_t *detail = json_incref(json_object_get(words, "error_detail"));
    bool is_run = dialect == API_RUN;

    if (is_run && error->status == 500) {
        json_decref(detail);
        detail = json_string(internal);
    }
    json_t *to = json_pack("{s:o}", is_run ? "error" : "detail", detail);
    if (is_run && error->fault != NULL) {
        json_object_set(to, "error_code", json_object_get(words, "error_code"));
        set_fault(to, error->fault);
    }
    json_decref(words);
    return to;
}

json_t *api_fault_json(const struct api_error *error)
{
    json_t *to = words_json(API_V1, error);

    json_object_set_new(to, "status", json_integer(error->status));
    json_object_set_new(to, "begun", json_boolean(error->fault->begun));
    json_object_set_new(to, "retryable", json_boolean(error->fault->is_retryable));
    return to;
}

json_t *api_error_json(enum api_dialect dialect, const struct api_error *error,
                       const char *request_id)
{
    json_t *words = words_json(dialect, error);

    if (dialect == API_RUN || dialect == API_AGENTS) {
        return text_json(dialect, error, words);
    }
    set_fault(words, error->fault);
    if (dialect == API_WORKSPACE_SE) {
        return json_pack("{s:o}", "detail", words);
    }
    json_object_set_new(words, "request_id", json_string(request_id));
    return words;
}
