/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of api_params_check(): path, query and header parameters as clients write them. */
#include <stdlib.h>

#include "api/contract/schema.h"
#include "base/attr.h"
#include "base/str.h"
#include "tap.h"

#define LIST_PATH "/api/v1/sessions"
#define SYNC_PATH "/api/v1/sessions/s/execute-sync"
#define EVENTS_PATH "/api/v1/executions/e/events"
#define RANGE_TEXT "limit must be at least 1 and at most 200"

static const char *test_header(void *user, const char *name)
{
    const struct api_pair *headers = user;

    for (; headers->name != NULL; headers++) {
        if (str_eq(headers->name, name)) {
            return headers->value;
        }
    }
    return NULL;
}

struct request {
    const char *method;
    const char *path;
    struct api_pair query[3];
    struct api_pair headers[2];
    const char *want; /* the parameters as JSON, or what is wrong */
};

static void check_request(struct request r)
{
    struct api_match m = {0};
    struct api_violations v = {0};
    struct api_request_text text = {.match = &m, .query = r.query, .header = test_header};
    json_t *params = NULL;
    char message[1024];

    CASE("%s %s %s=%s", r.method, r.path, r.query[0].name, r.query[0].value);
    text.user = r.headers;
    while (text.n_query < ARRAY_LEN(r.query) && r.query[text.n_query].name != NULL) {
        text.n_query++;
    }
    CHECK_INT(api_route_match(r.method, r.path, strlen(r.path), &m), API_FOUND);
    if (api_params_check(&text, &params, &v) < 0) {
        CHECK(params == NULL && v.n > 0);
        api_violations_text(&v, message, sizeof(message));
        CHECK_STR(message, r.want);
        return;
    }
    AUTO_FREE char *json = json_dumps(params, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK_STR(json, r.want);
    json_decref(params);
}

static const struct request requests[] = {
    {"GET", LIST_PATH, {{0}}, {{0}}, "{\"limit\":50,\"offset\":0}"},
    {"GET", LIST_PATH, {{"limit", "200"}}, {{0}}, "{\"limit\":200,\"offset\":0}"},
    {"GET", LIST_PATH, {{"limit", "0"}}, {{0}}, RANGE_TEXT},
    {"GET", LIST_PATH, {{"limit", "-1"}}, {{0}}, RANGE_TEXT},
    {"GET", LIST_PATH, {{"limit", "201"}}, {{0}}, RANGE_TEXT},
    {"GET", LIST_PATH, {{"limit", "99999999999999999999999"}}, {{0}}, RANGE_TEXT},
    {"GET", LIST_PATH, {{"limit", "-99999999999999999999999"}}, {{0}}, RANGE_TEXT},
    {"GET", LIST_PATH, {{"limit", "9223372036854775808"}}, {{0}}, RANGE_TEXT},
    {"GET", LIST_PATH, {{"limit", ""}}, {{0}}, "limit must be a whole number"},
    {"GET", LIST_PATH, {{"limit", "1.0"}}, {{0}}, "limit must be a whole number"},
    {"GET", LIST_PATH, {{"limit", " 1"}}, {{0}}, "limit must be a whole number"},
    {"GET", LIST_PATH, {{"limit", "+1"}}, {{0}}, "limit must be a whole number"},
    {"GET", LIST_PATH, {{"limit", "0x1"}}, {{0}}, "limit must be a whole number"},
    {"GET", LIST_PATH, {{"limit", "1"}, {"limit", "1"}}, {{0}}, "limit is given twice"},
    {"GET", LIST_PATH, {{"Limit", "1"}}, {{0}}, "Limit is not a known query parameter"},
    {"GET",
     LIST_PATH,
     {{"status", "up"}},
     {{0}},
     "status must be one of creating, running, completed, failed, timeout, terminated"},
    {"GET",
     LIST_PATH,
     {{"template_id", "A"}},
     {{0}},
     "template_id must be a lower-case letter or digit, then those and . _ -"},
    {"GET", LIST_PATH, {{"template_id", "\xff"}}, {{0}}, "template_id must be UTF-8 text"},
    {"GET",
     "/api/v1/sessions/a.b",
     {{0}},
     {{0}},
     "session_id must be a letter or digit, then letters, digits, _ and -"},
    {"DELETE", "/api/v1/sessions/s", {{0}}, {{0}}, "{\"purge\":false,\"session_id\":\"s\"}"},
    {"DELETE",
     "/api/v1/sessions/s",
     {{"purge", "true"}},
     {{0}},
     "{\"purge\":true,\"session_id\":\"s\"}"},
    {"DELETE",
     "/api/v1/sessions/s",
     {{"purge", "True"}},
     {{0}},
     "{\"purge\":true,\"session_id\":\"s\"}"},
    {"DELETE",
     "/api/v1/sessions/s",
     {{"purge", "FALSE"}},
     {{0}},
     "{\"purge\":false,\"session_id\":\"s\"}"},
    {"DELETE", "/api/v1/sessions/s", {{"purge", "yes"}}, {{0}}, "purge must be true or false"},
    {"POST",
     "/api/v1/sessions/s/contexts/7/branch",
     {{0}},
     {{0}},
     "{\"context_id\":7,\"session_id\":\"s\"}"},
    {"POST",
     "/api/v1/sessions/s/contexts/x/branch",
     {{0}},
     {{0}},
     "context_id must be a whole number"},
    {"POST",
     SYNC_PATH,
     {{"poll_interval", "0.1"}},
     {{0}},
     "{\"poll_interval\":0.10000000000000001,\"session_id\":\"s\",\"sync_timeout\":300}"},
    {"POST",
     SYNC_PATH,
     {{"poll_interval", "0.09"}},
     {{0}},
     "poll_interval must be at least 0.1 and at most 10"},
    {"POST", SYNC_PATH, {{"poll_interval", "1e0"}}, {{0}}, "poll_interval must be a number"},
    {"POST", SYNC_PATH, {{"poll_interval", "inf"}}, {{0}}, "poll_interval must be a number"},
    {"POST", SYNC_PATH, {{"poll_interval", "."}}, {{0}}, "poll_interval must be a number"},
    {"POST", SYNC_PATH, {{"poll_interval", "1."}}, {{0}}, "poll_interval must be a number"},
    {"POST", LIST_PATH, {{0}}, {{"idempotency-key", "k1"}}, "{\"idempotency-key\":\"k1\"}"},
    {"POST",
     LIST_PATH,
     {{0}},
     {{"idempotency-key", "k 1"}},
     "idempotency-key must be 1 to 128 visible ASCII characters"},
    {"GET",
     EVENTS_PATH,
     {{"offset", "5"}},
     {{"last-event-id", "5.0.0.2"}},
     "{\"execution_id\":\"e\",\"last-event-id\":\"5.0.0.2\",\"offset\":\"5\"}"},
    {"GET",
     "/api/v1/sessions/s/files/../x",
     {{0}},
     {{0}},
     "path must be a path relative to the workspace without empty parts, . or .., its names at "
     "most 255 bytes"},
    {"GET",
     "/workspace/se/files/s",
     {{"more", "x"}},
     {{0}},
     "{\"path\":\"\",\"recursive\":false,\"session_id\":\"s\"}"},
    {"GET", "/workspace/se/files/preview/s/a.html", {{0}}, {{0}}, "sid is required"},
};

TEST(parameters_from_text)
{
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        check_request(requests[i]);
    }
}
