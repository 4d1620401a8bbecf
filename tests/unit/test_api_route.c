/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of api/contract/route.h: every route of the contract is found, and nothing else is. */
#include "api/contract/route.h"

#include <stdio.h>

#include "api_examples.h"
#include "base/attr.h"
#include "tap.h"

static enum api_found match(const char *method, const char *path, struct api_match *ret)
{
    return api_route_match(method, path, strlen(path), ret);
}

TEST(every_example_matches_itself)
{
    for (size_t i = 0; i < ARRAY_LEN(api_examples); i++) {
        struct api_match m = {0};

        CASE("%s %s", api_examples[i].method, api_examples[i].path);
        CHECK_INT(match(api_examples[i].method, api_examples[i].path, &m), API_FOUND);
        CHECK_INT(m.op, api_examples[i].op);
        CHECK_INT(m.n_params, api_op_get(m.op)->n_path);
        CHECK(!m.is_head);
    }
}

TEST(every_operation_has_an_example_and_facts)
{
    for (unsigned op = 0; op < API_OPS; op++) {
        const struct api_op_info *info = api_op_get((enum api_op)op);
        bool is_there = false;

        CASE("%s", info->id);
        for (size_t i = 0; i < ARRAY_LEN(api_examples); i++) {
            is_there |= api_examples[i].op == op;
        }
        CHECK(is_there);
        CHECK((info->body == API_BODY_NONE) == (info->body_max == 0));
        CHECK((info->body == API_BODY_JSON) == (info->body_schema != NULL));
    }
}

TEST(paths_with_a_trailing_slash_do_not_match)
{
    for (size_t i = 0; i < ARRAY_LEN(api_examples); i++) {
        char path[256];
        struct api_match m = {0};
        const struct api_op_info *info = api_op_get(api_examples[i].op);

        bool has_rest = info->n_path > 0 && strchr(api_examples[i].path, '.') != NULL;
        if (has_rest || api_examples[i].op == API_RUN_ROOT || api_examples[i].op == API_SE_FILES) {
            continue;
        }
        snprintf(path, sizeof(path), "%s/", api_examples[i].path);
        CASE("%s", path);
        CHECK(match(api_examples[i].method, path, &m) != API_FOUND);
    }
}

TEST(parameters_are_slices_of_the_path)
{
    static const struct {
        const char *method;
        const char *path;
        enum api_op op;
        const char *params[3];
    } rows[] = {
        {"GET", "/api/v1/sessions/s1", API_V1_SESSION_GET, {"s1"}},
        {"GET", "/api/v1/sessions/..", API_V1_SESSION_GET, {".."}}, /* the grammar refuses it */
        {"GET", "/api/v1/sessions/s1/files/a/b/c.txt", API_V1_FILE_DOWNLOAD, {"s1", "a/b/c.txt"}},
        {"GET", "/api/v1/sessions/s1/files/upload", API_V1_FILE_DOWNLOAD, {"s1", "upload"}},
        {"PUT", "/api/v1/sessions/s1/files/move", API_V1_FILE_PUT, {"s1", "move"}},
        {"POST", "/api/v1/sessions/s1/files/upload", API_V1_FILE_UPLOAD, {"s1"}},
        {"GET", "/api/v1/sessions/s1/files/a//b", API_V1_FILE_DOWNLOAD, {"s1", "a//b"}},
        {"GET", "/api/v1/sessions/s1/files/a/", API_V1_FILE_DOWNLOAD, {"s1", "a/"}},
        {"GET", "/api/v1/sessions/s1/files//etc", API_V1_FILE_DOWNLOAD, {"s1", "/etc"}},
        {"GET", "/api/v1/sessions/s1/files", API_V1_FILE_LIST, {"s1"}},
        {"POST", "/api/v1/sessions/s1/contexts/2/branch", API_V1_CONTEXT_BRANCH, {"s1", "2"}},
        {"POST", "/api/v1/executions/sessions/s1/execute", API_V1_EXECUTE, {"s1"}},
        {"POST", "/api/v1/executions/sessions/s1/execute-sync", API_V1_EXECUTE_SYNC, {"s1"}},
        {"GET", "/api/v1/executions/sessions/s1/executions", API_V1_EXECUTION_LIST, {"s1"}},
        {"GET", "/api/v1/executions/e1/result", API_V1_EXECUTION_RESULT, {"e1"}},
        {"GET", "/workspace/se/files/s1/a/b", API_SE_FILES, {"s1", "a/b"}},
        {"GET", "/workspace/se/files/s1/", API_SE_FILES, {"s1", ""}},
        {"GET", "/workspace/se/files/s1", API_SE_FILES, {"s1", ""}},
        {"GET", "/workspace/se/files/preview/s1/a.html", API_SE_FILES_PREVIEW, {"s1", "a.html"}},
        {"GET", "/", API_RUN_ROOT, {NULL}},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api_match m = {0};

        CASE("%s %s", rows[i].method, rows[i].path);
        CHECK_INT(match(rows[i].method, rows[i].path, &m), API_FOUND);
        CHECK_INT(m.op, rows[i].op);
        for (size_t k = 0; k < ARRAY_LEN(rows[i].params); k++) {
            CHECK((k < m.n_params) == (rows[i].params[k] != NULL));
            if (k < m.n_params) {
                CHECK_INT(m.params[k].len, strlen(rows[i].params[k]));
                CHECK(memcmp(m.params[k].data, rows[i].params[k], m.params[k].len) == 0);
            }
        }
    }
}

TEST(unknown_paths_are_not_found)
{
    static const char *const paths[] = {
        "",
        "x",
        "health",
        "//",
        "//health",
        "/health/",
        "/Health",
        "/healthy",
        "/api",
        "/api/",
        "/api/v1",
        "/api/v1/",
        "/api/v2/sessions",
        "/api/v1//sessions",
        "/api/v1/sessions/",
        "/api/v1/sessions//execute",
        "/api/v1/sessions/s1/",
        "/api/v1/sessions/s1/files/",
        "/api/v1/sessions/s1/none",
        "/api/v1/sessions/s1/execute/x",
        "/api/v1/sessions/../sessions",
        "/api/v1/../v1/sessions",
        "/api/v1/./sessions",
        "/api/v1/sessions\\s1",
        "/api/v1/executions/sessions/s1",
        "/run/",
        "/run/x",
        "/../run",
        "/workspace",
        "/workspace/se",
        "/workspace/se/",
        "/workspace/se/download/s1",
        "/workspace/se/download/s1/",
        "/workspace/se/files/preview",
        "/workspace/se/files/preview/s1",
        "/openapi.json.gz",
        "/metrics?x",
        "/docs#x",
        "*",
    };
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", ""};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        for (size_t k = 0; k < ARRAY_LEN(methods); k++) {
            struct api_match m = {.op = API_OPS};

            CASE("%s \"%s\"", methods[k], paths[i]);
            CHECK_INT(match(methods[k], paths[i], &m), API_NOT_FOUND);
            CHECK_INT(m.op, API_OPS);
        }
    }
}

TEST(nul_in_a_path_is_compared_not_obeyed)
{
    static const char path[] = "/run\0x";
    struct api_match m = {0};

    CHECK_INT(api_route_match("POST", path, sizeof(path) - 1, &m), API_NOT_FOUND);
    CHECK_INT(api_route_match("POST", path, 4, &m), API_FOUND);
}

TEST(other_methods_are_refused_with_a_list)
{
    static const struct {
        const char *method;
        const char *path;
        const char *allow;
    } rows[] = {
        {"PUT", "/api/v1/sessions", "GET, HEAD, POST"},
        {"PATCH", "/api/v1/sessions", "GET, HEAD, POST"},
        {"OPTIONS", "/api/v1/sessions/s1", "GET, HEAD, DELETE"},
        {"GET", "/run", "POST"},
        {"HEAD", "/run", "POST"},
        {"get", "/run", "POST"},
        {"", "/run", "POST"},
        {"POST", "/", "GET, HEAD"},
        {"POST", "/api/v1/sessions/s1/files/a", "GET, HEAD, PUT, DELETE"},
        {"PATCH", "/api/v1/sessions/s1/files/upload", "GET, HEAD, POST, PUT, DELETE"},
        {"GET", "/api/v1/sessions/s1/execute", "POST"},
        {"DELETE", "/workspace/se/workspaces", "GET, HEAD"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api_match m = {0};
        char allow[API_ALLOW_MAX];

        CASE("%s %s", rows[i].method, rows[i].path);
        CHECK_INT(match(rows[i].method, rows[i].path, &m), API_METHOD_REFUSED);
        api_allow_text(m.allow, allow);
        CHECK_STR(allow, rows[i].allow);
    }
}

TEST(head_is_get_without_a_body)
{
    struct api_match m = {0};

    CHECK_INT(match("HEAD", "/health", &m), API_FOUND);
    CHECK_INT(m.op, API_RUN_HEALTH);
    CHECK(m.is_head);
}

TEST(documents_are_embedded)
{
    for (unsigned i = 0; i < API_ASSETS; i++) {
        const struct api_asset *a = api_asset_get((enum api_asset_name)i);

        CASE("%u", i);
        CHECK(a->len > 1000 && a->gzip_len > 100 && a->gzip_len < a->len);
        CHECK(a->gzip[0] == 0x1f && a->gzip[1] == 0x8b);
        CHECK_INT(strlen(a->etag), 18);
        CHECK(a->etag[0] == '"' && a->etag[17] == '"');
    }
    CHECK(api_asset_get(API_ASSET_OPENAPI)->data[0] == '{');
    CHECK(memcmp(api_asset_get(API_ASSET_DOCS_HTML)->data, "<!doctype", 9) == 0);
}
