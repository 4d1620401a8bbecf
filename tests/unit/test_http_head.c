/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/head.h: what is accepted, what is refused with which status, at every split. */
#include "http/head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "tap.h"

#define HOST "Host: a\r\n"
#define LINE "GET / HTTP/1.1\r\n"

/* Gives the text to the parser in pieces of step bytes, each time in a fresh place. */
static int parse_in_steps(const char *text, size_t n, size_t step, struct http_head *h, char *buf)
{
    int r = HTTP_HEAD_MORE;

    memset(h, 0, sizeof(*h));
    for (size_t len = MIN(step, n); r == HTTP_HEAD_MORE; len = MIN(len + step, n)) {
        memcpy(buf, text, len);
        r = http_head_parse(h, buf, len);
        if (len == n) {
            break;
        }
    }
    return r;
}

static int parse(const char *text, struct http_head *h, char *buf)
{
    size_t n = strlen(text);
    int whole = parse_in_steps(text, n, n, h, buf);

    for (size_t step = 1; step < 8; step++) {
        struct http_head other;
        static char there[HTTP_HEAD_MAX * 2];
        CHECK_INT(parse_in_steps(text, n, step, &other, there), whole);
        CHECK_INT(other.length, h->length);
    }
    return whole;
}

TEST(plain_request)
{
    static char buf[1024];
    struct http_head h;

    CHECK_INT(parse("POST /a?b=c HTTP/1.1\r\nHost: h:80\r\nContent-Length: 5\r\nX:  y z\t\r\n"
                    "Empty:\r\n\r\nhello",
                    &h, buf),
              HTTP_HEAD_DONE);
    CHECK_INT(h.method, HTTP_POST);
    CHECK_STR(http_head_target(&h), "/a?b=c");
    CHECK_INT(h.minor, 1);
    CHECK_INT(h.content_length, 5);
    CHECK(h.has_length && !h.is_chunked && !h.wants_close && !h.expects_continue);
    CHECK_INT(h.nfields, 4);
    CHECK_STR(http_head_find(&h, "x"), "y z");
    CHECK_STR(http_head_find(&h, "EMPTY"), "");
    CHECK(http_head_find(&h, "y") == NULL);
    CHECK_STR(http_head_known(&h, HTTP_HOST), "h:80");
    CHECK(http_head_known(&h, HTTP_ORIGIN) == NULL);
    CHECK_STR(buf + h.length, "hello");
}

TEST(odd_but_valid)
{
    static const char *const rows[] = {
        LINE HOST "\r\n",
        "\r\n" LINE HOST "\r\n",
        "GET / HTTP/1.0\r\n" HOST "\r\n",
        "OPTIONS * HTTP/1.1\r\n" HOST "\r\n",
        "GET http://a/x HTTP/1.1\r\n" HOST "\r\n",
        LINE "hOsT:a\r\n\r\n",
        LINE HOST "X: \x80\xff\r\n\r\n",
        LINE HOST "X:\t \r\n\r\n",
        LINE HOST "!#$%&'*+-.^_`|~: x\r\n\r\n",
        LINE "Host: [::1]:8080\r\n\r\n",
        LINE HOST "Content-Length: 0\r\n\r\n",
        LINE HOST "Content-Length: 000000000000000012\r\n\r\n",
        LINE HOST "Content-Length: 999999999999999999\r\n\r\n",
        LINE HOST "Transfer-Encoding: chunked\r\n\r\n",
        LINE HOST "Transfer-Encoding: CHUNKED \r\n\r\n",
        LINE HOST "Expect: 100-Continue\r\n\r\n",
        LINE HOST "Cookie: a\r\nCookie: b\r\n\r\n",
        "GET / HTTP/1.0\r\n" HOST "Expect: tea\r\n\r\n",
    };
    static char buf[1024];
    struct http_head h;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("row %zu", i);
        CHECK_INT(parse(rows[i], &h, buf), HTTP_HEAD_DONE);
        CHECK_INT(h.length, strlen(rows[i]));
    }
}

static const struct {
    int status;
    const char *text;
} refusals[] = {
    {400, LINE HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {400, LINE HOST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"},
    {400, LINE HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"},
    {400, LINE HOST "Content-Length: 1\r\ncontent-length: 2\r\n\r\n"},
    {400, LINE HOST "Content-Length: 1, 1\r\n\r\n"},
    {400, LINE HOST "Content-Length: -1\r\n\r\n"},
    {400, LINE HOST "Content-Length: +1\r\n\r\n"},
    {400, LINE HOST "Content-Length: 0x1\r\n\r\n"},
    {400, LINE HOST "Content-Length: 1 1\r\n\r\n"},
    {400, LINE HOST "Content-Length: 1.0\r\n\r\n"},
    {400, LINE HOST "Content-Length: \r\n\r\n"},
    {400, LINE HOST "Content-Length: 18446744073709551616\r\n\r\n"},
    {400, LINE HOST "Content-Length: 9999999999999999999\r\n\r\n"},
    {400, LINE HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {400, LINE HOST "Transfer-Encoding: gzip, chunked\r\n\r\n"},
    {400, LINE HOST "Transfer-Encoding: chunked, chunked\r\n\r\n"},
    {400, LINE HOST "Transfer-Encoding: chunked;a=b\r\n\r\n"},
    {400, LINE HOST "Transfer-Encoding: \r\n\r\n"},
    {400, LINE HOST "Transfer-Encoding: \"chunked\"\r\n\r\n"},
    {501, LINE HOST "Transfer-Encoding: xchunked\r\n\r\n"},
    {501, LINE HOST "Transfer-Encoding: identity\r\n\r\n"},
    {501, LINE HOST "Transfer-Encoding: gzip\r\n\r\n"},
    {400, LINE HOST "Transfer-Encoding : chunked\r\n\r\n"},
    {400, LINE HOST "Transfer-Encoding\t: chunked\r\n\r\n"},
    {400, LINE HOST "Transfer\r-Encoding: chunked\r\n\r\n"},
    {400, LINE HOST "Transfer-Encoding: chunked\r \r\n\r\n"},
    {400, "GET / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"},
    {400, LINE HOST "X: a\r\n b\r\n\r\n"},
    {400, LINE HOST "X: a\r\n\tb\r\n\r\n"},
    {400, LINE " X: a\r\n" HOST "\r\n"},
    {400, LINE HOST "X: a\nY: b\r\n\r\n"},
    {400, LINE HOST "X: a\rY: b\r\n\r\n"},
    {400, "GET / HTTP/1.1\n" HOST "\r\n"},
    {400, LINE "Host: a\n\r\n"},
    {400, LINE HOST "\n"},
    {400, "\n" LINE HOST "\r\n"},
    {400, "\r\n\r\n" LINE HOST "\r\n"},
    {400, LINE HOST "X: a\x01"
                    "b\r\n\r\n"},
    {400, LINE HOST "X: a\x7f\r\n\r\n"},
    {400, LINE HOST "X\x80: a\r\n\r\n"},
    {400, LINE HOST ": a\r\n\r\n"},
    {400, LINE HOST "X\r\n\r\n"},
    {400, LINE HOST "X Y: a\r\n\r\n"},
    {400, LINE HOST "(X): a\r\n\r\n"},
    {400, LINE "\r\n"},
    {400, LINE HOST HOST "\r\n"},
    {400, LINE HOST "hOST: b\r\n\r\n"},
    {400, LINE "Host:\r\n\r\n"},
    {400, LINE "Host: a b\r\n\r\n"},
    {400, LINE "Host: a, b\r\n\r\n"},
    {400, LINE "Host: a/b\r\n\r\n"},
    {400, LINE "Host: u@a\r\n\r\n"},
    {400, LINE "Host: a:\r\n\r\n"},
    {400, LINE "Host: a:65536\r\n\r\n"},
    {400, LINE "Host: a:x\r\n\r\n"},
    {400, LINE "Host: [::1\r\n\r\n"},
    {400, LINE "Host: []\r\n\r\n"},
    {400, "GET / HTTP/1.0\r\n\r\n"},
    {400, LINE HOST "Content-Type: a/b\r\nContent-Type: a/b\r\n\r\n"},
    {400, LINE HOST "Authorization: a\r\nAuthorization: b\r\n\r\n"},
    {400, LINE HOST "Origin: a\r\nOrigin: b\r\n\r\n"},
    {400, "GET  / HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /  HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET / HTTP/1.1 \r\n" HOST "\r\n"},
    {400, " GET / HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET\t/\tHTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /\x01 HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /\x7f HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /\r\n" HOST "\r\n"},
    {400, "GET\r\n\r\n"},
    {400, "G@T / HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET / HTTP/1.10\r\n" HOST "\r\n"},
    {400, "GET / HTTP/1\r\n" HOST "\r\n"},
    {400, "GET / http/1.1\r\n" HOST "\r\n"},
    {400, "GET / HTTPS/1.1\r\n" HOST "\r\n"},
    {400, "GET / HTTP/ 1.1\r\n" HOST "\r\n"},
    {400, "GET / HTTP/+1.1\r\n" HOST "\r\n"},
    {505, "GET / HTTP/2.0\r\n" HOST "\r\n"},
    {505, "GET / HTTP/1.2\r\n" HOST "\r\n"},
    {505, "GET / HTTP/0.9\r\n" HOST "\r\n"},
    {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
    {501, "BREW / HTTP/1.1\r\n" HOST "\r\n"},
    {501, "get / HTTP/1.1\r\n" HOST "\r\n"},
    {501, "CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n"},
    {501, "TRACK / HTTP/1.1\r\n" HOST "\r\n"},
    {417, LINE HOST "Content-Length: 1\r\nExpect: 200-ok\r\n\r\n"},
    {417, LINE HOST "Expect: 100-continue, x\r\n\r\n"},
    {400, "\x16\x03\x01\x02"}, /* a TLS hello needs no line end to be refused */
};

TEST(refusals)
{
    static char buf[1024];
    struct http_head h;

    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        CASE("row %zu: %s", i, refusals[i].text);
        CHECK_INT(parse(refusals[i].text, &h, buf), refusals[i].status);
        CHECK(h.why != NULL);
    }
}

TEST(nul_bytes_are_refused_everywhere)
{
    static const char good[] = LINE HOST "X: abc\r\n\r\n";
    static char buf[sizeof(good)];
    struct http_head h;

    for (size_t i = 0; i + 2 < sizeof(good); i++) {
        char bad[sizeof(good)];
        memcpy(bad, good, sizeof(good));
        bad[i] = '\0';
        CASE("NUL at %zu", i);
        int r = parse_in_steps(bad, sizeof(good) - 1, sizeof(good) - 1, &h, buf);
        CHECK(r == 400 || r == 501 || r == 505);
    }
}

TEST(incomplete_heads_wait)
{
    static const char good[] = "PUT /x HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\n";
    static char buf[sizeof(good)];
    struct http_head h;

    for (size_t n = 0; n + 1 < sizeof(good); n++) {
        CASE("%zu bytes", n);
        memset(&h, 0, sizeof(h));
        memcpy(buf, good, n);
        CHECK_INT(http_head_parse(&h, buf, n), HTTP_HEAD_MORE);
    }
}

/* A request whose target has the given length. */
static char *with_target(size_t n)
{
    char *text = malloc(n + 64);

    CHECK(text != NULL);
    memcpy(text, "GET /", 5);
    memset(text + 5, 'a', n - 1);
    memcpy(text + 4 + n, " HTTP/1.1\r\n" HOST "\r\n", 22 + 1);
    return text;
}

TEST(sizes_are_bounded)
{
    static char buf[HTTP_HEAD_MAX * 2];
    struct http_head h;

    static const struct {
        size_t n;
        int status;
    } rows[] = {
        {HTTP_TARGET_MAX, HTTP_HEAD_DONE}, {HTTP_TARGET_MAX + 1, 414}, {16000, 414}, {20000, 414}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE char *text = with_target(rows[i].n);
        CASE("target of %zu", rows[i].n);
        CHECK_INT(parse_in_steps(text, strlen(text), strlen(text), &h, buf), rows[i].status);
        CHECK_INT(parse_in_steps(text, strlen(text), 1000, &h, buf), rows[i].status);
    }
}

/* A head of exactly that many bytes, by one long field. */
static int parse_of_size(size_t n)
{
    static char text[HTTP_HEAD_MAX * 2];
    static char buf[HTTP_HEAD_MAX * 2];
    static const char start[] = LINE HOST "X: ";
    struct http_head h;

    memset(text, 'x', n);
    memcpy(text, start, sizeof(start) - 1);
    memcpy(text + n - 4, "\r\n\r\n", 4);
    return parse_in_steps(text, n, 4096, &h, buf);
}

TEST(head_of_the_largest_size)
{
    CHECK_INT(parse_of_size(HTTP_HEAD_MAX), HTTP_HEAD_DONE);
    CHECK_INT(parse_of_size(HTTP_HEAD_MAX + 1), 431);
    CHECK_INT(parse_of_size(HTTP_HEAD_MAX + 5000), 431);
}

static int parse_with_fields(size_t n)
{
    static char text[HTTP_HEAD_MAX];
    static char buf[HTTP_HEAD_MAX];
    struct http_head h;
    size_t len = (size_t)snprintf(text, sizeof(text), "%s", LINE HOST);

    for (size_t i = 1; i < n; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "X%zu: y\r\n", i);
    }
    len += (size_t)snprintf(text + len, sizeof(text) - len, "\r\n");
    return parse_in_steps(text, len, len, &h, buf);
}

TEST(number_of_fields_is_bounded)
{
    CHECK_INT(parse_with_fields(HTTP_FIELDS_MAX), HTTP_HEAD_DONE);
    CHECK_INT(parse_with_fields(HTTP_FIELDS_MAX + 1), 431);
}

TEST(connection_and_expectation)
{
    static const struct {
        const char *text;
        bool wants_close;
        bool expects;
    } rows[] = {
        {LINE HOST "\r\n", false, false},
        {LINE HOST "Connection: close\r\n\r\n", true, false},
        {LINE HOST "Connection: keep-alive, Close\r\n\r\n", true, false},
        {LINE HOST "Connection: x\r\nConnection: close\r\n\r\n", true, false},
        {LINE HOST "Connection: closed\r\n\r\n", false, false},
        {"GET / HTTP/1.0\r\n" HOST "Connection: keep-alive\r\n\r\n", true, false},
        {LINE HOST "Expect: 100-continue\r\n\r\n", false, false}, /* nothing to continue with */
        {LINE HOST "Content-Length: 1\r\nExpect: 100-continue\r\n\r\n", false, true},
        {LINE HOST "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n", false, true},
        {"PUT / HTTP/1.0\r\n" HOST "Content-Length: 1\r\nExpect: 100-continue\r\n\r\n", true,
         false},
    };
    static char buf[1024];
    struct http_head h;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("row %zu", i);
        CHECK_INT(parse(rows[i].text, &h, buf), HTTP_HEAD_DONE);
        CHECK_INT(h.wants_close, rows[i].wants_close);
        CHECK_INT(h.expects_continue, rows[i].expects);
    }
}
