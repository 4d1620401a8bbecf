/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/multipart.h: forms at every split, and everything that is refused. */
#include "http/multipart.h"

#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "tap.h"

#define TYPE "multipart/form-data; boundary=b"
#define PART(name) "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n"

struct seen {
    struct buf text; /* {name|filename|type|data} for each part */
    int stop_at;     /* callbacks until one says stop; 0: never */
};

static int count_down(struct seen *seen)
{
    return seen->stop_at > 0 && --seen->stop_at == 0 ? -1 : 0;
}

static int on_part(void *user, const struct http_part *part)
{
    struct seen *seen = user;

    CHECK_INT(buf_printf(&seen->text, "{%s|%s|%s|", part->name,
                         part->has_filename ? part->filename : "-", part->type),
              0);
    return count_down(seen);
}

static int on_data(void *user, const char *data, size_t len)
{
    struct seen *seen = user;

    CHECK(len > 0);
    CHECK_INT(buf_add(&seen->text, data, len), 0);
    return count_down(seen);
}

static int on_part_end(void *user)
{
    struct seen *seen = user;

    CHECK_INT(buf_add(&seen->text, "}", 1), 0);
    return count_down(seen);
}

static const struct http_multipart_calls calls = {on_part, on_data, on_part_end};

static int run(const char *type, const char *body, size_t step, struct seen *seen, const char **why)
{
    static struct http_multipart m;
    size_t n = strlen(body);
    int r = http_multipart_init(&m, type, 3, &calls, seen);

    for (size_t at = 0; r == 0 && at < n; at += step) {
        r = http_multipart_feed(&m, body + at, MIN(step, n - at));
    }
    if (r == 0) {
        r = http_multipart_finish(&m);
    } else {
        CHECK_INT(http_multipart_feed(&m, "x", 1), -1); /* stays broken */
        CHECK_INT(http_multipart_finish(&m), -1);
    }
    *why = m.why;
    return r;
}

TEST(good_forms)
{
    static const struct {
        const char *type;
        const char *body;
        const char *want;
    } rows[] = {
        {TYPE, PART("a") "1\r\n--b--\r\n", "{a|-|text/plain|1}"},
        {TYPE, PART("a") "1\r\n--b--", "{a|-|text/plain|1}"},
        {TYPE, PART("a") "\r\n--b--\r\n", "{a|-|text/plain|}"},
        {TYPE, PART("a") "1\r\n" PART("b") "2\r\n--b--\r\n",
         "{a|-|text/plain|1}{b|-|text/plain|2}"},
        {TYPE, PART("a") "x\r\n--\r\n--a\r\n-b\r\r\n\n\r\n--b--\r\n",
         "{a|-|text/plain|x\r\n--\r\n--a\r\n-b\r\r\n\n}"},
        {TYPE, PART("a") "--b\r\n--b--\r\n", "{a|-|text/plain|--b}"},
        {TYPE, PART("a") "\r\r\n\r\n--b--", "{a|-|text/plain|\r\r\n}"},
        {TYPE, "--b--\r\n", ""},
        {TYPE,
         "--b\r\ncontent-disposition:form-data; name=f; filename=\"x.txt\"\r\n"
         "Content-Type: image/png\r\nX-Other: y\r\n\r\ndata\r\n--b--\r\n",
         "{f|x.txt|image/png|data}"},
        {TYPE,
         "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"\"\r\n\r\n\r\n--b--\r\n",
         "{f||text/plain|}"},
        {TYPE,
         "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n\\\"q\"\r\n\r\n\r\n--b--",
         "{f|n\"q|text/plain|}"},
        {TYPE,
         "--b\r\nContent-Disposition: form-data; name=f; filename*=UTF-8''na%C3%AFve%20x\r\n\r\n"
         "\r\n--b--",
         "{f|na\xc3\xafve x|text/plain|}"},
        {"Multipart/Form-Data; charset=x; boundary=\"a b:'()+_,-./=?\"",
         "--a b:'()+_,-./=?\r\nContent-Disposition: form-data; name=n\r\n\r\nv\r\n"
         "--a b:'()+_,-./=?--\r\n",
         "{n|-|text/plain|v}"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t step = 1; step <= strlen(rows[i].body); step++) {
            struct seen seen = {.text = BUF_INIT(10000)};
            const char *why;
            CASE("row %zu by %zu", i, step);
            CHECK_INT(run(rows[i].type, rows[i].body, step, &seen, &why), 0);
            CHECK_STR(seen.text.data != NULL ? seen.text.data : "", rows[i].want);
            buf_release(&seen.text);
        }
    }
}

/* 60 characters of three bytes, of which each takes nine in filename*. */
TEST(long_file_names)
{
    AUTO_BUF struct buf body = BUF_INIT(10000);
    struct seen seen = {.text = BUF_INIT(10000)};
    const char *why;

    CHECK_INT(buf_add_str(&body, "--b\r\nContent-Disposition: form-data; name=f; "
                                 "filename=x; filename*=UTF-8''"),
              0);
    for (int i = 0; i < 60; i++) {
        CHECK_INT(buf_add_str(&body, "%E4%BD%A0"), 0);
    }
    CHECK_INT(buf_add_str(&body, "\r\n\r\n\r\n--b--\r\n"), 0);
    CHECK_INT(run(TYPE, body.data, body.len, &seen, &why), 0);
    CHECK_INT(seen.text.len, strlen("{f||text/plain|}") + 180);
    CHECK(strncmp(seen.text.data, "{f|\xe4\xbd\xa0\xe4", 7) == 0);
    buf_release(&seen.text);
}

TEST(bad_forms)
{
    static const char *const rows[] = {
        "",
        "--b",
        "--b\r\n",
        "--b-",
        "preamble\r\n" PART("a") "1\r\n--b--\r\n",
        "\r\n" PART("a") "1\r\n--b--\r\n",
        PART("a") "1\r\n--b--\r\nepilogue",
        PART("a") "1\r\n--b--x",
        PART("a") "1\r\n--b--\n",
        PART("a") "1\r\n--b--x\n",
        PART("a") "1\r\n--b \r\n",
        PART("a") "1\r\n--bx\r\n--b--",
        PART("a") "1\r\n--b-x",
        PART("a") "1\r\n--b\n",
        PART("a") "1",
        PART("a") "1\r\n--",
        PART("a") "1\n--b--\r\n",
        PART("1") PART("a"),
        "--b\r\n\r\nno disposition\r\n--b--",
        "--b\r\nContent-Type: a/b\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"\"\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"a\x01\"\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a; filename=\"\xc0\xaf\"\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a; filename*=UTF-8''%00\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a; filename*=UTF-8''%0a\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a; filename*=latin1''x\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a; filename*=UTF-8\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition : form-data; name=a\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a\r\n folded\r\n\r\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a\n\nx\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: "
        "form-data\r\n\r\n--b--",
        "--b\r\na\n\r\n--b--",
        "--b\r\nno colon\r\n\r\nx\r\n--b--",
        PART("1") "\r\n" PART("2") "\r\n" PART("3") "\r\n" PART(
            "4") "\r\n--b--", /* three at most */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t step = 1; step <= strlen(rows[i]) + 1; step++) {
            struct seen seen = {.text = BUF_INIT(10000)};
            const char *why = NULL;
            CASE("row %zu by %zu", i, step);
            CHECK_INT(run(TYPE, rows[i], step, &seen, &why), -1);
            CHECK(why != NULL);
            buf_release(&seen.text);
        }
    }
}

TEST(bad_types)
{
    static const char *const rows[] = {
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=\"a \"",
        "multipart/form-data; boundary=\"a@b\"",
        "multipart/form-data; boundary=a; boundary=b",
        "multipart/mixed; boundary=b",
        "text/plain",
        ("multipart/form-data; boundary="
         "01234567890123456789012345678901234567890123456789012345678901234567890"),
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct seen seen = {.text = BUF_INIT(10)};
        const char *why = NULL;
        CASE("%s", rows[i]);
        CHECK_INT(run(rows[i], "--b--", 5, &seen, &why), -1);
        CHECK(why != NULL);
    }
    struct seen seen = {.text = BUF_INIT(10)};
    const char *why = NULL;
    CHECK_INT(run(NULL, "--b--", 5, &seen, &why), -1);
}

TEST(head_of_a_part_is_bounded)
{
    static char body[HTTP_PART_HEAD_MAX + 1000];
    static const char start[] = "--b\r\nContent-Disposition: form-data; name=a\r\nX: ";
    static const char end[] = "\r\n\r\ndata\r\n--b--";
    const char *why;

    for (int more = 0; more <= 1; more++) {
        struct seen seen = {.text = BUF_INIT(1000)};
        size_t n = HTTP_PART_HEAD_MAX + 5 - 4 + (size_t)more; /* "--b" CR LF does not count */
        memset(body, 'x', sizeof(body));
        memcpy(body, start, sizeof(start) - 1);
        memcpy(body + n, end, sizeof(end));
        CASE("%d more than allowed", more);
        CHECK_INT(run(TYPE, body, 7, &seen, &why), more == 0 ? 0 : -1);
        buf_release(&seen.text);
    }
}

TEST(callbacks_can_stop)
{
    for (int stop = 1; stop <= 3; stop++) {
        struct seen seen = {.text = BUF_INIT(1000), .stop_at = stop};
        const char *why = "x";
        CASE("stop at callback %d", stop);
        CHECK_INT(run(TYPE, PART("a") "1\r\n--b--\r\n", 1000, &seen, &why), -1);
        CHECK(why == NULL);
        buf_release(&seen.text);
    }
}
