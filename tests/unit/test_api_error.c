/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors as clients see them: every status and every kind of error in each dialect, and nothing of
 * the host.
 */
#include "api/contract/error.h"

#include <errno.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/str.h"
#include "tap.h"

static const enum api_dialect dialects[] = {API_COMMON, API_V1, API_RUN, API_WORKSPACE_SE,
                                            API_AGENTS};

/* The error_code of a body, or of what is inside its "detail". */
static const char *body_text(json_t *body, const char *name)
{
    json_t *inside = json_object_get(body, "detail");

    return json_string_value(json_object_get(inside != NULL ? inside : body, name));
}

static void check_sentence(const char *text)
{
    CHECK(text != NULL && text[0] >= 'A' && text[0] <= 'Z');
    CHECK(text[strlen(text) - 1] == '.');
}

TEST(every_status_has_a_code_with_sentences)
{
    for (size_t d = 0; d < ARRAY_LEN(dialects); d++) {
        for (int status = 400; status < 600; status++) {
            CASE("dialect %zu status %d", d, status);
            const char *code = api_error_code(dialects[d], status);
            const struct api_error_row *row = api_error_find(code);
            CHECK(row != NULL);
            CHECK(str_starts(code, "Sandbox."));
            check_sentence(row->description);
            check_sentence(row->solution);
        }
    }
}

TEST(the_runtimes_codes_are_spelt_as_in_the_original)
{
    CHECK_STR(api_error_code(API_WORKSPACE_SE, 429), "Sandbox.TooManyRequestsExection");
    CHECK_INT(api_error_status(API_WORKSPACE_SE, 429), 503);
    CHECK_INT(api_error_status(API_V1, 429), 429);
    CHECK_STR(api_error_code(API_WORKSPACE_SE, 503), "Sandbox.NotInitialized");
    CHECK_STR(api_error_code(API_WORKSPACE_SE, 500), "Sandbox.InternalError");
    CHECK_STR(api_error_code(API_WORKSPACE_SE, 400), "Sandbox.InvalidParameter");
    CHECK(api_error_find("Sandbox.ExecException") != NULL);
    CHECK(api_error_find("Sandbox.ExecTimeout") != NULL);
    CHECK(api_error_find("Sandbox.TooManyRequestsExecution") == NULL);
}

/* Trying again would not help. */
TEST(an_unknown_version_is_no_fault_of_the_server)
{
    struct api_error error = {.status = 505,
                              .detail = "only HTTP/1.1 and HTTP/1.0 are spoken here"};
    json_t *body = api_error_json(API_COMMON, &error, "req_1");

    CHECK_STR(body_text(body, "error_code"), "Sandbox.NotImplemented");
    CHECK_STR(body_text(body, "description"), "The server does not do this.");
    CHECK_STR(body_text(body, "error_detail"), error.detail);
    json_decref(body);
    CHECK_STR(api_error_code(API_WORKSPACE_SE, 505), "Sandbox.InvalidParameter");
}

TEST(errors_from_below_get_status_and_code)
{
    static const struct {
        enum err_code code;
        int status;
        const char *want;
        int se_status;
        const char *se_want;
    } rows[] = {
        {ERR_INVALID, 400, "Sandbox.InvalidParameter", 400, "Sandbox.InvalidParameter"},
        {ERR_NOT_FOUND, 404, "Sandbox.NotFound", 404, "Sandbox.InvalidParameter"},
        {ERR_EXISTS, 409, "Sandbox.Conflict", 409, "Sandbox.InvalidParameter"},
        {ERR_CONFLICT, 409, "Sandbox.Conflict", 409, "Sandbox.InvalidParameter"},
        {ERR_LIMIT, 429, "Sandbox.TooManyRequests", 503, "Sandbox.TooManyRequestsExection"},
        {ERR_TEMPLATE, 422, "Sandbox.InvalidParameter", 422, "Sandbox.InvalidParameter"},
        {ERR_ISOLATION, 503, "Sandbox.IsolationMissing", 503, "Sandbox.NotInitialized"},
        {ERR_LAUNCHER, 503, "Sandbox.Unavailable", 503, "Sandbox.NotInitialized"},
        {ERR_TIMEOUT, 503, "Sandbox.Unavailable", 503, "Sandbox.NotInitialized"},
        {ERR_UNAVAILABLE, 503, "Sandbox.Unavailable", 503, "Sandbox.NotInitialized"},
        {ERR_LOST, 503, "Sandbox.ExecutionLost", 503, "Sandbox.NotInitialized"},
        {ERR_STORAGE, 503, "Sandbox.DiskFull", 503, "Sandbox.InternalError"},
        {ERR_QUOTA, 507, "Sandbox.QuotaExceeded", 507, "Sandbox.InternalError"},
        {ERR_PROTOCOL, 500, "Sandbox.InternalError", 500, "Sandbox.InternalError"},
        {ERR_SYSTEM, 500, "Sandbox.InternalError", 500, "Sandbox.InternalError"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char detail[API_DETAIL_MAX];
        struct api_error error;
        struct err e = {0};

        err_set(&e, rows[i].code, "x");
        CASE("row %zu", i);
        api_error_from(&e, API_V1, detail, &error);
        CHECK_STR(error.code, rows[i].want);
        CHECK_INT(error.status, rows[i].status);
        api_error_from(&e, API_WORKSPACE_SE, detail, &error);
        CHECK_STR(error.code, rows[i].se_want);
        CHECK_INT(error.status, rows[i].se_status);
    }
}

/*
 * All kinds of error with a message that holds a path of the host and the text of a system error.
 */
TEST(nothing_of_the_host_is_told)
{
    for (int code = ERR_NONE + 1; code < ERR_CODES; code++) {
        for (int with_errno = 0; with_errno < 2; with_errno++) {
            char detail[API_DETAIL_MAX];
            struct api_error error;
            struct err e = {0};

            err_set(&e, (enum err_code)code, "open /var/lib/husk/x: \"/etc/husk/y\" is bad%s",
                    with_errno ? ": Permission denied" : "");
            e.sys_errno = with_errno ? EACCES : 0;
            CASE("%s errno %d", err_type((enum err_code)code), e.sys_errno);
            api_error_from(&e, API_V1, detail, &error);
            CHECK(strstr(detail, "/var") == NULL);
            CHECK(strstr(detail, "/etc") == NULL);
            CHECK(strstr(detail, "husk/") == NULL);
            CHECK(strstr(detail, "denied") == NULL);
            CHECK(detail[0] != '\0');
        }
    }
}

TEST(a_limit_of_the_host_is_named)
{
    char detail[API_DETAIL_MAX];
    struct api_error error;
    struct err e = {0};

    err_sys(&e, EMFILE, "start a box in /run/husk");
    api_error_from(&e, API_V1, detail, &error);
    CHECK_INT(error.status, 429);
    CHECK_STR(detail, "start a box in ...: Too many open files");
}

TEST(paths_of_the_box_and_of_the_api_are_told)
{
    static const struct {
        const char *msg;
        const char *want;
    } rows[] = {
        {"no file \"data/in.csv\"", "no file \"data/in.csv\""},
        {"write /workspace/out.txt first", "write /workspace/out.txt first"},
        {"use POST /api/v1/sessions", "use POST /api/v1/sessions"},
        {"either/or", "either/or"},
        {"read /proc/1/maps: no", "read ...: no"},
        {"/root", "..."},
        {"key=/srv/a, next", "key=..., next"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char detail[API_DETAIL_MAX];
        struct api_error error;
        struct err e = {0};

        err_set(&e, ERR_INVALID, "%s", rows[i].msg);
        api_error_from(&e, API_V1, detail, &error);
        CHECK_STR(detail, rows[i].want);
    }
}

TEST(bodies_have_the_dialects_shape)
{
    struct api_error error = {
        .status = 404, .code = "Sandbox.SessionNotFound", .detail = "no \xff"};

    json_t *v1 = api_error_json(API_V1, &error, "req_1");
    CHECK_INT(json_object_size(v1), 5);
    CHECK_STR(body_text(v1, "error_code"), "Sandbox.SessionNotFound");
    CHECK_STR(body_text(v1, "error_detail"), "no \xef\xbf\xbd");
    CHECK_STR(body_text(v1, "request_id"), "req_1");
    check_sentence(body_text(v1, "description"));
    check_sentence(body_text(v1, "solution"));
    json_decref(v1);

    json_t *se = api_error_json(API_WORKSPACE_SE, &error, "req_1");
    CHECK_INT(json_object_size(se), 1);
    CHECK_INT(json_object_size(json_object_get(se, "detail")), 4);
    CHECK_STR(body_text(se, "error_code"), "Sandbox.SessionNotFound");
    json_decref(se);

    json_t *run = api_error_json(API_RUN, &error, "req_1");
    CHECK_INT(json_object_size(run), 1);
    CHECK_STR(body_text(run, "error"), "no \xef\xbf\xbd");
    json_decref(run);

    error.status = 500;
    run = api_error_json(API_RUN, &error, "req_1");
    CHECK_STR(body_text(run, "error"), "Internal server error");
    json_decref(run);
}

TEST(the_dialect_is_seen_in_the_path)
{
    static const struct {
        const char *target;
        enum api_dialect want;
    } rows[] = {
        {"/", API_RUN},
        {"/?a=b", API_RUN},
        {"/run", API_RUN},
        {"/run?x", API_RUN},
        {"/health", API_RUN},
        {"/runs", API_COMMON},
        {"/api/v1/x", API_V1},
        {"/api/v2/x", API_COMMON},
        {"/workspace/se/x", API_WORKSPACE_SE},
        {"/workspace/other", API_COMMON},
        {"/metrics", API_COMMON},
        {"*", API_COMMON},
        {"", API_COMMON},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].target);
        CHECK_INT(api_dialect_of(rows[i].target), rows[i].want);
    }
}
