/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of api/contract/schema.h with the real contract: bodies that pass, bodies that do not, and
 * what the error says about them.
 */
#include "api/contract/schema.h"

#include <stdio.h>
#include <stdlib.h>

#include "api_examples.h"
#include "base/attr.h"
#include "base/str.h"
#include "tap.h"

static json_t *parse(const char *text)
{
    struct err e = {0};
    json_t *value = api_json_parse(text, strlen(text), &e);

    CHECK_STR(e.code == ERR_NONE ? "" : e.msg, "");
    return value;
}

/* The first violation's message for a body, or "" when it passes. */
static const char *verdict(enum api_op op, const char *body)
{
    static struct api_violations v;
    static char text[4096];

    v = (struct api_violations){0};
    json_t *value = body != NULL ? parse(body) : NULL;
    int r = api_body_check(op, &value, &v);
    CHECK((r == 0) == (v.n == 0));
    api_violations_text(&v, text, sizeof(text));
    json_decref(value);
    return text;
}

TEST(examples_of_the_contract_pass)
{
    for (size_t i = 0; i < ARRAY_LEN(api_examples); i++) {
        if (api_examples[i].body != NULL) {
            CASE("%s", api_examples[i].path);
            CHECK_STR(verdict(api_examples[i].op, api_examples[i].body), "");
        }
    }
}

static const struct {
    enum api_op op;
    const char *body;
    const char *want;
} bodies[] = {
    {API_RUN_EXECUTE, NULL, "the body is required"},
    {API_RUN_EXECUTE, "[]", "the body must be an object, not an array"},
    {API_RUN_EXECUTE, "null", "the body must be an object, not null"},
    {API_RUN_EXECUTE, "{}", "code is required"},
    {API_RUN_EXECUTE, "{\"code\":1}", "code must be a string, not a whole number"},
    {API_RUN_EXECUTE, "{\"code\":null}", "code must be a string, not null"},
    {API_RUN_EXECUTE, "{\"code\":\"\"}", "Code cannot be empty"},
    {API_RUN_EXECUTE, "{\"code\":\" \\n\\t\\u00a0\"}", "Code cannot be empty"},
    {API_RUN_EXECUTE, "{\"code\":\"x\",\"timeout\":0}",
     "timeout must be at least 1 and at most 300"},
    {API_RUN_EXECUTE, "{\"code\":\"x\",\"timeout\":30.5}",
     "timeout must be a whole number, not a number"},
    {API_RUN_EXECUTE, "{\"code\":\"x\",\"timeout\":301.0}",
     "timeout must be at least 1 and at most 300"},
    {API_RUN_EXECUTE, "{\"code\":\"x\",\"timeout\":1e300}",
     "timeout must be at least 1 and at most 300"},
    {API_RUN_EXECUTE, "{\"code\":\"x\",\"timeout\":-1e300}",
     "timeout must be at least 1 and at most 300"},
    {API_RUN_EXECUTE, "{\"code\":\"x\",\"timeout\":\"30\"}",
     "timeout must be a whole number, not a string"},
    {API_RUN_EXECUTE, "{\"code\":\"x\",\"timeout\":true}",
     "timeout must be a whole number, not a boolean"},
    {API_RUN_EXECUTE, "{\"code\":\"x\",\"auto_print\":1}",
     "auto_print must be true or false, not a whole number"},
    {API_RUN_EXECUTE, "{\"code\":\"x\",\"y\":1}",
     "y is not a known field; known: code, timeout, memory_limit, auto_print"},
    {API_RUN_EXECUTE, "{\"Code\":\"x\"}",
     "code is required; Code is not a known field; known: code, timeout, memory_limit, "
     "auto_print"},
    {API_V1_SESSION_CREATE, NULL, ""},
    {API_V1_SESSION_CREATE, "{}", ""},
    {API_V1_SESSION_CREATE, "{\"id\":\"-a\"}",
     "id must be a letter or digit, then letters, digits, _ and -"},
    {API_V1_SESSION_CREATE, "{\"id\":\"../x\"}",
     "id must be a letter or digit, then letters, digits, _ and -"},
    {API_V1_SESSION_CREATE, "{\"mode\":\"forever\"}", "mode must be one of ephemeral, persistent"},
    {API_V1_SESSION_CREATE, "{\"mode\":\"Ephemeral\"}",
     "mode must be one of ephemeral, persistent"},
    {API_V1_SESSION_CREATE, "{\"cpu\":\"0.5\",\"memory\":\"512Mi\",\"disk\":1073741824}", ""},
    {API_V1_SESSION_CREATE, "{\"cpu\":0.5}", ""},
    {API_V1_SESSION_CREATE, "{\"cpu\":2}", ""},
    {API_V1_SESSION_CREATE, "{\"cpu\":0}", "cpu must be at least 0.01 and at most 1024"},
    {API_V1_SESSION_CREATE, "{\"cpu\":\"0\"}", "cpu must be at least 0.01 and at most 1024"},
    {API_V1_SESSION_CREATE, "{\"cpu\":\"99999999999999\"}",
     "cpu must be at least 0.01 and at most 1024"},
    {API_V1_SESSION_CREATE, "{\"cpu\":0.12345}",
     "cpu must be a number of cores such as \"0.5\", with at most three decimals"},
    {API_V1_SESSION_CREATE, "{\"cpu\":\"all\"}",
     "cpu must be a number of cores such as \"0.5\", with at most three decimals"},
    {API_V1_SESSION_CREATE, "{\"memory\":\"lots\"}",
     "memory must be a size such as \"512Mi\" or \"1Gi\", or a number of bytes"},
    {API_V1_SESSION_CREATE, "{\"memory\":\"1Ki\"}",
     "memory must be at least 16Mi and at most 1048576Mi"},
    {API_V1_SESSION_CREATE, "{\"memory\":1}", "memory must be at least 16Mi and at most 1048576Mi"},
    {API_V1_SESSION_CREATE, "{\"memory\":1.5}",
     "memory must be a whole number or a string, not a number"},
    {API_V1_SESSION_CREATE, "{\"memory\":\"17179869183G\"}",
     "memory must be at least 16Mi and at most 1048576Mi"},
    {API_V1_SESSION_CREATE, "{\"resources\":{\"max_processes\":31}}",
     "resources.max_processes must be at least 32 and at most 1024"},
    {API_V1_SESSION_CREATE, "{\"resources\":{\"gpu\":1}}",
     "resources.gpu is not a known field; known: cpu, memory, disk, max_processes"},
    {API_V1_SESSION_CREATE, "{\"resources\":{},\"cpu\":1}",
     "the body must not have resources, cpu together"},
    {API_V1_SESSION_CREATE, "{\"env_vars\":{\"A_1\":\"x\"}}", ""},
    {API_V1_SESSION_CREATE, "{\"env_vars\":{\"A_1\":1}}",
     "env_vars.A_1 must be a string, not a whole number"},
    {API_V1_SESSION_CREATE, "{\"env_vars\":{\"1A\":\"x\"}}",
     "env_vars.1A is not a good name: it must be a letter or _, then letters, digits and _"},
    {API_V1_SESSION_CREATE, "{\"env_vars\":{\"\":\"x\"}}",
     "env_vars. is not a good name: it must be a letter or _, then letters, digits and _"},
    {API_V1_SESSION_CREATE, "{\"env_vars\":[]}", "env_vars must be an object, not an array"},
    {API_V1_SESSION_EXTEND, NULL, "the body is required"},
    {API_V1_EXECUTE, "{}",
     "the body must have exactly one of code, command, handler_code, and has none"},
    {API_V1_EXECUTE, "{\"code\":\"1\",\"command\":\"ls\"}",
     "the body must have exactly one of code, command, handler_code, and has code, command"},
    {API_V1_EXECUTE, "{\"code\":\"1\",\"event\":{}}", ""},
    {API_V1_EXECUTE, "{\"command\":\"ls\",\"event\":{}}",
     "the body must not have command, event together"},
    {API_V1_EXECUTE, "{\"code\":\"1\",\"context\":{}}",
     "the body has context, which needs handler_code"},
    {API_V1_EXECUTE, "{\"handler_code\":\"1\",\"context\":{},\"event\":{\"a\":[1]}}", ""},
    {API_V1_EXECUTE, "{\"code\":\"\"}", "code must not be empty"},
    {API_V1_EXECUTE, "{\"code\":\"1\",\"language\":\"perl\"}",
     "language must be one of python, javascript, shell"},
    {API_V1_EXECUTE, "{\"code\":\"1\",\"args\":[\"a\",1]}",
     "args[1] must be a string, not a whole number"},
    {API_V1_FILE_MKDIR, "{\"path\":\"a/../b\"}",
     "path must be a path relative to the workspace without empty parts, . or .., its names at "
     "most 255 bytes"},
    {API_V1_FILE_MOVE, "{\"from\":\"a\"}", "to is required"},
    {API_V1_TEMPLATE_CREATE, "{\"id\":\"t\",\"default_cpu_cores\":0.1}", ""},
    {API_V1_TEMPLATE_CREATE, "{\"id\":\"t\",\"default_cpu_cores\":0.0999}",
     "default_cpu_cores must be at least 0.1 and at most 4"},
    {API_V1_TEMPLATE_UPDATE, "{}", "the body must have at least 1 fields"},
    {API_SE_EXECUTE_CODE, "{\"code\":\"1\",\"whatever\":[1]}", ""},
    {API_SE_EXECUTE_CODE, "{\"code\":\"1\",\"filename\":null,\"args\":null}", ""},
    {API_SE_EXECUTE_CODE, "{\"code\":\"1\",\"filename\":\"../x\"}",
     "filename must be a path in the workspace without .., its names at most 255 bytes"},
    {API_SE_EXECUTE_CODE, "{\"code\":\"1\",\"script_type\":\"ruby\"}",
     "script_type must be one of python, shell"},
    {API_SE_DOWNLOAD_FROM_EFAST, "{\"file_params\":[]}", ""}, /* its handler refuses that */
    {API_SE_DOWNLOAD_FROM_EFAST, "{\"file_params\":[{\"docid\":\"x\"},{\"docid\":1}]}",
     "file_params[1].docid must be a string, not a whole number"},
    {API_SE_CREATE, "{\"content\":\"\",\"filename\":\"a\",\"mode\":512}",
     "mode must be at least 0 and at most 511"},
    {API_V1_HEALTH, "{}", "the body must not be sent: this request has none"},
};

TEST(bodies_and_what_is_said_about_them)
{
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        CASE("%s", bodies[i].body != NULL ? bodies[i].body : "no body");
        CHECK_STR(verdict(bodies[i].op, bodies[i].body), bodies[i].want);
    }
}

/* A body {"code": "..."} with n times the bytes of one character. */
static char *code_body(const char *character, size_t n)
{
    size_t len = strlen(character);
    static const char start[] = "{\"code\":\"";
    const size_t at = sizeof(start) - 1;
    char *text = calloc(1, n * len + 16);

    CHECK(text != NULL);
    memcpy(text, start, at);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + at + i * len, character, len);
    }
    memcpy(text + at + n * len, "\"}", 3);
    return text;
}

TEST(lengths_are_characters_and_bytes)
{
    static const struct {
        enum api_op op;
        const char *character;
        size_t n;
        const char *want;
    } rows[] = {
        {API_RUN_EXECUTE, "a", 1000000, ""},
        {API_RUN_EXECUTE, "a", 1000001, "Code too large"},
        {API_RUN_EXECUTE, "\xf0\x9f\x98\x80", 1000000, ""},
        {API_RUN_EXECUTE, "\xf0\x9f\x98\x80", 1000001, "Code too large"},
        {API_V1_EXECUTE, "a", 1048576, ""},
        {API_V1_EXECUTE, "a", 1048577, "code must have at most 1048576 characters, not 1048577"},
        {API_V1_EXECUTE, "\xc3\xa9", 524288, ""},
        {API_V1_EXECUTE, "\xc3\xa9", 524289, "code must have at most 1048576 bytes, not 1048578"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE char *body = code_body(rows[i].character, rows[i].n);

        CASE("%zu of %s", rows[i].n, rows[i].character);
        CHECK_STR(verdict(rows[i].op, body), rows[i].want);
    }
}

TEST(defaults_are_written_into_the_body)
{
    struct api_violations v = {0};
    json_t *run = parse("{\"code\":\"1\",\"timeout\":7}");
    json_t *session = NULL;

    CHECK_INT(api_body_check(API_RUN_EXECUTE, &run, &v), 0);
    CHECK_INT(json_integer_value(json_object_get(run, "timeout")), 7);
    CHECK_INT(json_integer_value(json_object_get(run, "memory_limit")), 512);
    CHECK(json_is_true(json_object_get(run, "auto_print")));

    CHECK_INT(api_body_check(API_V1_SESSION_CREATE, &session, &v), 0);
    CHECK(json_object_get(session, "timeout") == NULL); /* the template decides */
    CHECK_STR(json_string_value(json_object_get(session, "mode")), "ephemeral");
    CHECK_STR(json_string_value(json_object_get(session, "min_isolation")), "full");
    CHECK(json_is_object(json_object_get(session, "env_vars")));
    CHECK(json_object_get(session, "memory") == NULL); /* the template decides */
    json_decref(run);
    json_decref(session);
}

TEST(violations_are_counted_and_bounded)
{
    struct api_violations v = {0};
    json_t *body = json_object();
    char text[256];

    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof(name), "x%d", i);
        json_object_set_new(body, name, json_null());
    }
    CHECK_INT(api_body_check(API_RUN_EXECUTE, &body, &v), -1);
    CHECK_INT(v.n, API_VIOLATIONS_MAX);
    CHECK(v.total > v.n);
    /* A full list still makes the next check fail. */
    CHECK_INT(api_body_check(API_RUN_EXECUTE, &body, &v), -1);
    api_violations_text(&v, text, sizeof(text));
    CHECK_INT(strlen(text), sizeof(text) - 1);
    json_decref(body);
}

TEST(violations_as_pyrunner_shows_them)
{
    struct api_violations v = {0};
    json_t *body = parse("{\"code\":\"x\",\"timeout\":301}");
    json_t *nested = parse("{\"file_params\":[{\"docid\":1}]}");

    CHECK_INT(api_body_check(API_RUN_EXECUTE, &body, &v), -1);
    CHECK_INT(api_body_check(API_SE_DOWNLOAD_FROM_EFAST, &nested, &v), -1);
    CHECK_INT(api_violation_add(&v, "body", "code", "value_error", "mine"), -1);
    json_t *json = api_violations_json(&v);
    AUTO_FREE char *text = json_dumps(json, JSON_COMPACT);
    CHECK_STR(text,
              "{\"detail\":[{\"loc\":[\"body\",\"timeout\"],\"msg\":\"timeout must be at "
              "least 1 and at most 300\",\"type\":\"less_than_equal\"},"
              "{\"loc\":[\"body\",\"file_params\",0,\"docid\"],\"msg\":\"file_params[0].docid "
              "must be a string, not a whole number\",\"type\":\"string_type\"},"
              "{\"loc\":[\"body\",\"code\"],\"msg\":\"mine\",\"type\":\"value_error\"}]}");
    json_decref(json);
    json_decref(body);
    json_decref(nested);
}

TEST(names_of_clients_are_shown_safely)
{
    struct api_violations v = {0};
    json_t *body = json_object();
    char name[300];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    name[0] = '\x1b';
    memcpy(name + 60, "\xe2\x82\xac", 3);
    json_object_set_new(body, name, json_null());
    CHECK_INT(api_body_check(API_V1_SESSION_CREATE, &body, &v), -1);
    CHECK(str_starts(v.list[0].message, "\\x1bnnn"));
    CHECK(strlen(v.list[0].message) < sizeof(v.list[0].message));
    json_t *json = api_violations_json(&v);
    CHECK(json != NULL && json_array_size(json_object_get(json, "detail")) == 1);
    json_decref(json);
    json_decref(body);
}
