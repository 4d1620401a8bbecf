/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer of calls with handlers of our own behind the real routes: one answer whatever a
 * handler does, bodies, back-pressure, and clients that go away. The server is a child process;
 * the test is its client.
 */
#include "api/call/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/contract/schema.h"
#include "api_call_fixture.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/fiber.h"
#include "base/str.h"
#include "tap.h"

#define STREAM_BYTES ((size_t)8 << 20)

/* ---- handlers ---- */

static unsigned gone_seen;
static unsigned form_reads;

static void no_answer(struct api_call *call)
{
    (void)call;
}

static void two_answers(struct api_call *call)
{
    call_reply_json(call, 201, json_pack("{s:i}", "first", 1));
    call_reply_json(call, 200, json_pack("{s:i}", "second", 2));
}

static void echo_body(struct api_call *call)
{
    fiber_sleep(5);
    call_reply_json(call, 200, json_incref(call_body(call)));
}

static void fail_below(struct api_call *call)
{
    struct err e = {0};

    err_sys(&e, EACCES, "open /var/lib/husk/secret");
    call_reply_err(call, &e);
}

static void stream(struct api_call *call)
{
    char piece[4096];

    memset(piece, 'x', sizeof(piece));
    call_begin(call, 200, "text/plain", HTTP_LENGTH_UNKNOWN);
    for (size_t i = 0; i < STREAM_BYTES; i += sizeof(piece)) {
        if (call_write(call, piece, sizeof(piece)) < 0) {
            gone_seen++;
            return;
        }
    }
    call_end(call);
}

static void cut_stream(struct api_call *call)
{
    call_begin(call, 200, "text/plain", HTTP_LENGTH_UNKNOWN);
    (void)call_write(call, "part", 4);
}

static void events(struct api_call *call)
{
    call_sse_begin(call);
    for (int i = 0; i < 3; i++) {
        char id[16];
        snprintf(id, sizeof(id), "%d", i);
        json_t *data = json_pack("{s:s, s:i}", "text", "a\nb", "n", i);
        CHECK_INT(call_sse_event(call, id, "news", data), 0);
        json_decref(data);
    }
    call_end(call);
}

static void count_raw(struct api_call *call)
{
    char data[1000];
    uint64_t total = 0;
    ssize_t n;

    while ((n = call_read(call, data, sizeof(data))) > 0) {
        total += (uint64_t)n;
        if (total % 100000 == 0) {
            fiber_sleep(1);
        }
    }
    if (n == 0) {
        call_reply_json(call, 201, json_pack("{s:I}", "total", (json_int_t)total));
    } else {
        gone_seen += n == -ECONNRESET ? 1 : 0;
        call_reply_json(call, 200, json_pack("{s:i}", "never", 1)); /* was answered already */
    }
}

static void list_parts(struct api_call *call)
{
    json_t *list = json_array();
    const char *name;
    const char *filename;
    char data[4096];
    int r;

    while ((r = call_next_part(call, &name, &filename)) > 0) {
        size_t size = str_eq(name, "file") ? 7 : sizeof(data);
        size_t total = 0;
        ssize_t n;
        json_t *part = json_pack("{s:s, s:s?}", "name", name, "filename", filename);
        while (!str_eq(name, "skip") && (n = call_read(call, data, size)) > 0) {
            total += (size_t)n;
            form_reads++;
        }
        json_object_set_new(part, "size", json_integer((json_int_t)total));
        json_array_append_new(list, part);
    }
    if (r == 0) {
        char reads[16];
        snprintf(reads, sizeof(reads), "%u", form_reads);
        call_add_header(call, "X-Reads", reads);
        call_reply_json(call, 200, list);
    } else {
        json_decref(list);
    }
}

static void tell_hash(struct api_call *call)
{
    const unsigned char *hash = call_body_hash(call);
    char hex[65];

    for (int i = 0; i < 32; i++) {
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    }
    call_add_header(call, "X-Hash", hex);
    call_reply_empty(call, 204);
}

static void wait_gone(struct api_call *call)
{
    struct pollfd p = {.fd = call_gone_fd(call), .events = POLLIN};

    if (fiber_poll(&p, 1, 10000) == 1) {
        gone_seen++;
    }
    call_reply_empty(call, 204);
}

static void tell_state(struct api_call *call)
{
    call_reply_json(call, 200,
                    json_pack("{s:i, s:i}", "fibers", (int)fiber_count(), "gone", (int)gone_seen));
}

static void tell_params(struct api_call *call)
{
    CHECK_INT(call_int(call, "limit", -1), 50);
    CHECK_INT(call_int(call, "nothing", -1), -1);
    CHECK(call_text(call, "nothing") == NULL);
    CHECK(call_bool(call, "nothing", true));
    call_reply_empty(call, 200);
}

void (*const api_handlers[API_OPS])(struct api_call *call) = {
    [API_RUN_HEALTH] = no_answer,
    [API_RUN_ROOT] = two_answers,
    [API_RUN_EXECUTE] = echo_body,
    [API_V1_VERSION] = fail_below,
    [API_V1_HEALTH] = stream,
    [API_V1_HEALTH_LIVE] = events,
    [API_V1_HEALTH_READY] = wait_gone,
    [API_V1_POOL] = cut_stream,
    [API_V1_FILE_PUT] = count_raw,
    [API_V1_SESSION_LIST] = tell_params,
    [API_V1_SESSION_CREATE] = tell_hash,
    [API_V1_SESSION_EXTEND] = tell_hash,
    [API_V1_EXECUTE] = tell_hash,
    [API_SE_UPLOAD] = list_parts,
    [API_METRICS] = tell_state,
};

/* ---- tests ---- */

TEST(exactly_one_answer_leaves)
{
    uint16_t port = start();

    EXPECT(port, "GET /health", "", "HTTP/1.1 500 ", "{\"error\":\"Internal server error\"}",
           "X-Request-ID: req_");
    EXPECT(port, "GET /", "", "HTTP/1.1 201 ", "{\"first\":1}");
    AUTO_FREE char *cut = ask(port, "GET /api/v1/pool", "");
    CHECK(strstr(cut, "\r\n0\r\n") == NULL); /* the end of a chunked body must not come */
    EXPECT(port, "GET /metrics", "", "{\"fibers\":1,\"gone\":0}");
}

TEST(errors_speak_the_dialect_and_hide_the_host)
{
    uint16_t port = start();

    EXPECT(port, "GET /api/v1/version", "", "HTTP/1.1 500 ", "Sandbox.InternalError",
           "\"request_id\":\"req_");
    AUTO_FREE char *answer = ask(port, "GET /api/v1/version", "");
    CHECK(strstr(answer, "secret") == NULL);
    CHECK(strstr(answer, "denied") == NULL);
    check_has(answer, "X-Process-Time: 0.0");
    EXPECT(port, "GET /api/v1/none", "", "HTTP/1.1 404 ", "Sandbox.NotFound");
    EXPECT(port, "GET /api/v1/a%00b", "", "HTTP/1.1 400 ", "X-Request-ID: req_",
           "malformed target");
    EXPECT(port, "GET /api%2Fv1/version", "", "HTTP/1.1 404 ", "X-Request-ID: req_");
    EXPECT(port, "GET /api/v1%2Fversion", "", "HTTP/1.1 404 ", "Sandbox.NotFound");
    EXPECT(port, "TRACE /api/v1/version", "", "HTTP/1.1 405 ", "Allow: GET, HEAD\r\n");
    EXPECT(port, "NONE /", "", "HTTP/1.1 501 ", "X-Request-ID: req_", "Sandbox.NotImplemented");
    EXPECT(port, "GET /workspace/se/none", "", "HTTP/1.1 404 ", "{\"detail\":{\"error_code\"");
    EXPECT(port, "DELETE /run", "", "HTTP/1.1 405 ", "Allow: POST\r\n", "{\"error\":");
    EXPECT(port, "GET /api/v1/sessions?limit=x&zzz=1", "", "HTTP/1.1 422 ", "limit must be", "zzz");
    EXPECT(port, "GET /api/v1/sessions", "", "HTTP/1.1 200 ");
}

TEST(bodies_must_be_json_of_bounded_size)
{
    uint16_t port = start();
    size_t large = ((size_t)1 << 20) + 1;
    AUTO_FREE char *much = malloc(large + 1);

    EXPECT(port, "POST /run", "{\"code\":\"1\"}", "HTTP/1.1 200 ",
           "{\"code\":\"1\",\"timeout\":30,\"memory_limit\":512,\"auto_print\":true}");
    EXPECT(port, "POST /run", "{\"code\":", "HTTP/1.1 422 ", "json_invalid");
    EXPECT(port, "POST /run", "", "HTTP/1.1 422 ", "\"detail\":[");
    EXPECT(port, "POST /api/v1/sessions", "[", "HTTP/1.1 400 ", "not JSON");
    EXPECT(port, "POST /run", "{\"code\":\"1\",\"x\":1}", "HTTP/1.1 422 ", "extra_forbidden");

    memset(much, 'x', large);
    AUTO_FREE char *answer = talk(port, "POST /run", much, large);
    check_has(answer, "HTTP/1.1 413 ");
    check_has(answer, "{\"error\":\"the body may have at most 1048576 bytes\"}");

    /* Larger than what is parsed at once: on another thread, same result. */
    memcpy(much, "{\"code\":\"", 9);
    memcpy(much + 900000, "\"}", 3);
    AUTO_FREE char *fine = talk(port, "POST /run", much, 900002);
    check_has(fine, "HTTP/1.1 200 ");
    check_has(fine, "xxx\",\"timeout\":30");
    much[900001] = 'x';
    AUTO_FREE char *bad = talk(port, "POST /run", much, 900002);
    check_has(bad, "HTTP/1.1 422 ");
}

TEST(bodies_of_too_many_values_are_refused)
{
    uint16_t port = start();
    AUTO_BUF struct buf text = BUF_INIT((size_t)1 << 20);

    CHECK_INT(buf_add_str(&text, "{\"code\":["), 0);
    for (size_t i = 0; i < API_JSON_VALUES_MAX / 2; i++) {
        CHECK_INT(buf_add_str(&text, "{},"), 0);
    }
    CHECK_INT(buf_add_str(&text, "{}]}"), 0);
    EXPECT(port, "POST /run", text.data, "HTTP/1.1 413 ",
           "{\"error\":\"the body has more than 200000 values\"}");
    EXPECT(port, "POST /api/v1/sessions", text.data, "HTTP/1.1 413 ", "Sandbox.TooLarge",
           "\"error_detail\":\"the body has more than 200000 values\"");
}

TEST(other_types_are_refused)
{
    static const char *const types[] = {
        "Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded",
        "Content-Type: multipart/form-data; boundary=x", "X-Nothing: 1",
        "Content-Type: application/json\r\nContent-Encoding: gzip"};
    uint16_t port = start();

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        AUTO_CLOSE int fd = dial(port);
        char text[512];
        char answer[4096];

        CASE("%s", types[i]);
        CHECK_INT(str_format(text, sizeof(text),
                             "POST /run HTTP/1.1\r\nHost: test\r\nConnection: close\r\n%s\r\n"
                             "Content-Length: 12\r\n\r\n{\"code\":\"1\"}",
                             types[i]),
                  0);
        CHECK_INT(fd_write_all(fd, text, strlen(text)), 0);
        ssize_t n = fd_read_all(fd, answer, sizeof(answer) - 1);
        CHECK(n > 0);
        answer[n] = '\0';
        check_has(answer, "HTTP/1.1 415 ");
        check_has(answer, "{\"error\":\"");
    }
}

/* How many requests are being served, and how many handlers have lost their client. */
static bool is_measured(uint16_t port, const char *want)
{
    AUTO_FREE char *got = ask(port, "GET /metrics", "");

    return strstr(got, want) != NULL;
}

TEST(streams_wait_for_slow_clients)
{
    uint16_t port = start();

    AUTO_FREE char *answer = ask(port, "GET /api/v1/health", "");
    CHECK(strlen(answer) > STREAM_BYTES);
    check_has(answer + strlen(answer) - 7, "\r\n0\r\n\r\n");

    /* One that reads nothing and goes away: the handler hears of it, and nothing is left. */
    int fd = dial(port);
    CHECK_INT(fd_write_all(fd, "GET /api/v1/health HTTP/1.1\r\nHost: test\r\n\r\n", 44), 0);
    AWAIT(is_measured(port, "{\"fibers\":2,\"gone\":0}"));
    fd_close(&fd);
    AWAIT(is_measured(port, "{\"fibers\":1,\"gone\":1}"));
}

TEST(events_are_sent)
{
    uint16_t port = start();

    EXPECT(port, "GET /api/v1/health/live", "", "Content-Type: text/event-stream",
           "id: 0\nevent: news\ndata: {\"text\":\"a\\nb\",\"n\":0}\n\n", "id: 2\n");
}

TEST(a_client_that_hangs_up_is_noticed)
{
    uint16_t port = start();
    int fd = dial(port);

    CHECK_INT(fd_write_all(fd, "GET /api/v1/health/ready HTTP/1.1\r\nHost: test\r\n\r\n", 50), 0);
    AWAIT(is_measured(port, "{\"fibers\":2,\"gone\":0}"));
    fd_close(&fd);
    AWAIT(is_measured(port, "{\"fibers\":1,\"gone\":1}"));
}

TEST(uploads_are_read_in_pieces)
{
    static const char head[] = "PUT /api/v1/sessions/s1/files/a.bin";
    uint16_t port = start();
    size_t large = ((size_t)1 << 20) + 1;
    AUTO_FREE char *data = calloc(1, large);

    AUTO_FREE char *all = talk(port, head, data, large - 1);
    check_has(all, "{\"total\":1048576}");
    AUTO_FREE char *none = talk(port, head, data, 0);
    check_has(none, "{\"total\":0}");
    AUTO_FREE char *more = talk(port, head, data, large);
    check_has(more, "HTTP/1.1 413 ");
    check_has(more, "Sandbox.TooLarge");

    /* Without a length the excess is seen while reading. */
    AUTO_CLOSE int fd = dial(port);
    static const char chunked[] = "PUT /api/v1/sessions/s1/files/a HTTP/1.1\r\nHost: test\r\n"
                                  "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "100001\r\n";
    char answer[4096];
    CHECK_INT(fd_write_all(fd, chunked, strlen(chunked)), 0);
    (void)fd_write_all(fd, data, large);
    ssize_t n = fd_read_all(fd, answer, sizeof(answer) - 1);
    CHECK(n > 0);
    answer[n] = '\0';
    check_has(answer, "HTTP/1.1 413 ");

    /* Gone in the middle. */
    int gone = dial(port);
    CHECK_INT(fd_write_all(gone, chunked, strlen(chunked)), 0);
    CHECK_INT(fd_write_all(gone, data, 5000), 0);
    AWAIT(is_measured(port, "{\"fibers\":2,\"gone\":0}"));
    fd_close(&gone);
    AWAIT(is_measured(port, "{\"fibers\":1,\"gone\":1}"));
}

#define FORM_HEAD                                                                                  \
    "POST /workspace/se/upload/s1 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"                 \
    "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: %zu\r\n\r\n"

static char *send_form(uint16_t port, const char *body)
{
    AUTO_CLOSE int fd = dial(port);
    char *answer = calloc(1, 4096);
    char head[512];

    CHECK_INT(str_format(head, sizeof(head), FORM_HEAD, strlen(body)), 0);
    CHECK_INT(fd_write_all(fd, head, strlen(head)), 0);
    for (const char *p = body; *p != '\0'; p++) { /* in the smallest pieces there are */
        CHECK_INT(fd_write_all(fd, p, 1), 0);
    }
    CHECK(fd_read_all(fd, answer, 4095) > 0);
    return answer;
}

TEST(forms_are_read_part_by_part)
{
    uint16_t port = start();

    AUTO_FREE char *fine = send_form(
        port, "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
              "0123456789\r\n--b\r\nContent-Disposition: form-data; name=\"skip\"\r\n\r\n"
              "unread\r\n--b\r\nContent-Disposition: form-data; name=\"last\"\r\n\r\n\r\n"
              "--b--\r\n");
    check_has(fine, "HTTP/1.1 200 ");
    check_has(fine, "[{\"name\":\"file\",\"filename\":\"a\",\"size\":10},"
                    "{\"name\":\"skip\",\"filename\":null,\"size\":0},"
                    "{\"name\":\"last\",\"filename\":null,\"size\":0}]");
    AUTO_FREE char *bad = send_form(port, "--c\r\n");
    check_has(bad, "HTTP/1.1 400 ");
    check_has(bad, "{\"detail\":{\"error_code\":\"Sandbox.InvalidParameter\"");
    AUTO_FREE char *cut =
        send_form(port, "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nabc");
    check_has(cut, "HTTP/1.1 400 ");
}

/*
 * A CR may begin a boundary, so the parser hands on what is before it and what it has held back one
 * by one.
 */
TEST(form_data_is_not_read_in_crumbs)
{
    static const char start_text[] = "--b\r\nContent-Disposition: form-data; name=\"crs\"\r\n\r\n";
    static const char end_text[] = "\r\n--b--\r\n";
    size_t crs = 200000;
    size_t len = strlen(start_text) + crs + strlen(end_text);
    uint16_t port = start();
    AUTO_CLOSE int fd = dial(port);
    AUTO_FREE char *body = malloc(len + 1);
    char text[4096];

    memcpy(body, start_text, strlen(start_text));
    memset(body + strlen(start_text), '\r', crs);
    memcpy(body + strlen(start_text) + crs, end_text, sizeof(end_text));
    CHECK_INT(str_format(text, sizeof(text), FORM_HEAD, len), 0);
    CHECK_INT(fd_write_all(fd, text, strlen(text)), 0);
    CHECK_INT(fd_write_all(fd, body, len), 0);
    ssize_t n = fd_read_all(fd, text, sizeof(text) - 1);
    CHECK(n > 0);
    text[n] = '\0';
    check_has(text, "[{\"name\":\"crs\",\"filename\":null,\"size\":200000}]");
    const char *reads = strstr(text, "X-Reads: ");
    CHECK(reads != NULL);
    CHECK(strtol(reads + 9, NULL, 10) < 2000);
}

static void hash_of(uint16_t port, const char *head, const char *body, char ret[static 65])
{
    AUTO_FREE char *answer = ask(port, head, body);
    const char *at = strstr(answer, "X-Hash: ");

    if (at == NULL) {
        tap_fail(__FILE__, __LINE__, "no hash in: %.600s", answer);
    }
    CHECK_INT(str_format(ret, 65, "%.64s", at + 8), 0);
}

TEST(equal_requests_have_equal_hashes)
{
    uint16_t port = start();
    char first[65];
    char other[65];

    hash_of(port, "POST /api/v1/sessions", "{\"template_id\":\"python\",\"timeout\":60}", first);
    hash_of(port, "POST /api/v1/sessions", " { \"timeout\" : 60, \"template_id\":\"python\"}",
            other);
    CHECK_STR(other, first);
    hash_of(port, "POST /api/v1/sessions", "{\"template_id\":\"python\",\"timeout\":61}", other);
    CHECK(!str_eq(other, first));
    hash_of(port, "POST /api/v1/sessions/a/execute", "{\"code\":\"1\",\"language\":\"python\"}",
            first);
    hash_of(port, "POST /api/v1/sessions/b/execute", "{\"code\":\"1\",\"language\":\"python\"}",
            other);
    CHECK(!str_eq(other, first));
}
