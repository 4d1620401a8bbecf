/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of results (service/result.h): what a box claims is parsed here, once. */
#include "service/result.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static struct husk_result result_of(char *out, char *err)
{
    return (struct husk_result){
        .out = out, .out_len = strlen(out), .err = err, .err_len = strlen(err)};
}

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

TEST(a_result_has_its_streams_value_and_error)
{
    struct husk_result r = result_of("out\n", "err\n");

    r.exit_code = 3;
    r.value = "{'a': 1}";
    r.value_json = "{\"a\": 1}";
    r.error.type = "ValueError";
    json_t *all = result_json(&r);
    CHECK_INT(json_integer_value(json_object_get(all, "exit_code")), 3);
    CHECK_STR(text_of(all, "stdout"), "out\n");
    CHECK_STR(text_of(all, "stderr"), "err\n");
    CHECK_STR(text_of(all, "value"), "{'a': 1}");
    CHECK_INT(json_integer_value(json_object_get(json_object_get(all, "return_value"), "a")), 1);
    CHECK_STR(text_of(json_object_get(all, "error"), "type"), "ValueError");
    CHECK_STR(text_of(json_object_get(all, "error"), "message"), "");
    CHECK(json_object_get(all, "stdout_base64") == NULL);
    CHECK(json_object_get(all, "variables") == NULL);
    json_decref(all);
}

TEST(a_claim_that_is_no_json_is_null)
{
    static char *const claims[] = {"{", "[1,]", "{\"a\":1,\"a\":2}",
                                   "123456789012345678901234567890", "nonsense"};

    for (size_t i = 0; i < ARRAY_LEN(claims); i++) {
        struct husk_result r = result_of("", "");
        CASE("%s", claims[i]);
        r.value_json = claims[i];
        r.variables_json = claims[i];
        json_t *all = result_json(&r);
        CHECK(json_is_null(json_object_get(all, "return_value")));
        CHECK(json_is_null(json_object_get(all, "variables")));
        json_decref(all);
    }
}

TEST(a_claim_with_too_many_values_is_not_parsed)
{
    size_t n = 2 * (size_t)(RESULT_VALUES_MAX + 10);
    char *json = malloc(n + 1);

    for (size_t i = 0; i < n; i += 2) {
        memcpy(json + i, i == 0 ? "[1" : ",1", 2);
    }
    json[n - 1] = ']';
    json[n - 2] = '1';
    json[n - 3] = ',';
    json[n] = '\0';
    CHECK(result_is_too_much(json));
    CHECK(!result_is_too_much("[1, 2, 3]"));
    struct husk_result r = result_of("", "");
    r.value_json = json;
    json_t *all = result_json(&r);
    CHECK(json_is_null(json_object_get(all, "return_value")));
    json_decref(all);
    free(json);
}

TEST(output_that_is_no_text_is_kept_as_bytes_too)
{
    struct husk_result r = result_of("\xff\xfe", "plain");
    json_t *all = result_json(&r);

    CHECK_STR(text_of(all, "stdout"), "\xef\xbf\xbd\xef\xbf\xbd");
    CHECK_STR(text_of(all, "stdout_base64"), "//4=");
    CHECK(json_object_get(all, "stderr_base64") == NULL);
    json_decref(all);
}

TEST(a_display_has_its_forms_each_in_its_encoding)
{
    struct husk_mime forms[] = {{"text/plain", "hi", 2},
                                {"application/json", "[1]", 3},
                                {"image/png", "\x89PN", 3},
                                {"application/vnd.x+json", "{", 1}};
    static const char *const encodings[] = {"text", "json", "base64", "text"};
    struct husk_display d = {.forms = forms, .n_forms = ARRAY_LEN(forms)};

    json_t *one = result_display_json(&d);
    const json_t *list = json_object_get(one, "forms");
    CHECK_INT(json_array_size(list), ARRAY_LEN(forms));
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        CASE("%s", forms[i].type);
        CHECK_STR(text_of(json_array_get(list, i), "mime_type"), forms[i].type);
        CHECK_STR(text_of(json_array_get(list, i), "encoding"), encodings[i]);
    }
    CHECK(json_is_array(json_object_get(json_array_get(list, 1), "data")));
    json_decref(one);
}

TEST(what_there_is_so_far_and_what_was_lost)
{
    AUTO_BUF struct buf out = BUF_INIT(100);
    AUTO_BUF struct buf err = BUF_INIT(100);

    CHECK_INT(buf_add_str(&out, "seen"), 0);
    json_t *far = result_so_far_json(&out, &err, NULL);
    CHECK_STR(text_of(far, "stdout"), "seen");
    CHECK_STR(text_of(far, "stderr"), "");
    CHECK_INT(json_array_size(json_object_get(far, "outputs")), 0);
    CHECK(json_object_get(far, "exit_code") == NULL);
    json_decref(far);

    json_t *lost = result_lost_json(&out, &err);
    CHECK_STR(text_of(lost, "stdout"), "seen");
    CHECK_STR(text_of(json_object_get(lost, "error"), "type"), "lost");
    CHECK_INT(json_integer_value(json_object_get(lost, "exit_code")), 125);
    json_decref(lost);
}
