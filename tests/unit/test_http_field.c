/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/field.h, http/host.h, http/handshake.h and http/status.h. */
#include "http/field.h"

#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "http/handshake.h"
#include "http/host.h"
#include "http/status.h"
#include "tap.h"

TEST(token_characters)
{
    static const char delimiters[] = "\"(),/:;<=>?@[\\]{} ";

    for (int c = 0; c < 256; c++) {
        char text = (char)c;
        bool want = c > 0x20 && c < 0x7f && strchr(delimiters, c) == NULL;
        CASE("byte %d", c);
        CHECK_INT(http_is_token(&text, 1), want);
    }
    CHECK(!http_is_token("", 0));
    CHECK(!http_is_token("a b", 3));
}

TEST(value_characters)
{
    for (int c = 0; c < 256; c++) {
        char text = (char)c;
        CASE("byte %d", c);
        CHECK_INT(http_is_value(&text, 1), (c >= 0x20 && c != 0x7f) || c == '\t');
    }
    CHECK(http_is_value("", 0));
}

TEST(lists)
{
    CHECK(http_list_has("close", "close"));
    CHECK(http_list_has("Keep-Alive, CLOSE", "close"));
    CHECK(http_list_has(" , close ,x", "close"));
    CHECK(http_list_has("a,b\t,c", "b"));
    CHECK(!http_list_has("closed", "close"));
    CHECK(!http_list_has("closer", "close"));
    CHECK(!http_list_has("a close", "close"));
    CHECK(!http_list_has("", "close"));
    CHECK(!http_list_has(",,", "close"));
}

TEST(media_types)
{
    CHECK(http_type_is("application/json", "application/json"));
    CHECK(http_type_is("Application/JSON; charset=utf-8", "application/json"));
    CHECK(http_type_is("application/json ;x", "application/json"));
    CHECK(!http_type_is("application/jsonx", "application/json"));
    CHECK(!http_type_is("application/json x", "application/json"));
    CHECK(!http_type_is("application", "application/json"));
    CHECK(!http_type_is("", "application/json"));
}

TEST(parameters)
{
    static const struct {
        const char *value;
        int length;
        const char *want;
    } rows[] = {
        {"a/b; name=x", 1, "x"},
        {"a/b;NAME=x", 1, "x"},
        {"a/b; name=\"x y\"", 3, "x y"},
        {"a/b; name=\"a\\\"b\"", 3, "a\"b"},
        {"a/b; name=\"C:\\dir\"", 6, "C:\\dir"},
        {"a/b; name=\"\"", 0, ""},
        {"a/b; other=\"; name=y\"; name=x", 1, "x"},
        {"a/b; name=x;", 1, "x"},
        {"a/b", -1, NULL},
        {"a/b; namex=y", -1, NULL},
        {"a/b; name=x; name=y", -2, NULL},
        {"a/b; name", -2, NULL},
        {"a/b; name=", -2, NULL},
        {"a/b; name=\"x", -2, NULL},
        {"a/b; name=x y", -2, NULL},
        {"a/b; name =x", -2, NULL},
        {"a/b; name=\"x\"y", -2, NULL},
        {"a/b; name=0123456789012345", -2, NULL},
        {"a/b; name=012345678901234", 15, "012345678901234"},
        {"a/b; name=\"0123456789012345\"", -2, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char dst[16];
        CASE("%s", rows[i].value);
        CHECK_INT(http_param(rows[i].value, "name", dst, sizeof(dst)), rows[i].length);
        if (rows[i].want != NULL) {
            CHECK_STR(dst, rows[i].want);
        }
    }
}

TEST(other_parameters_may_be_long)
{
    static const char *const quotes[] = {"", "\""};
    char value[4096];
    char dst[16];

    for (size_t i = 0; i < ARRAY_LEN(quotes); i++) {
        CASE("quoted by %s", quotes[i]);
        int n = snprintf(value, sizeof(value), "a/b; other=%s%03000d%s; name=x", quotes[i], 0,
                         quotes[i]);
        CHECK(n > 3000 && n < (int)sizeof(value));
        CHECK_INT(http_param(value, "name", dst, sizeof(dst)), 1);
        CHECK_STR(dst, "x");
    }
}

TEST(hosts)
{
    static const char *const list[] = {"localhost", "name:80", "[::1]"};
    static const struct {
        const char *host;
        bool want;
    } rows[] = {
        {"localhost", true},
        {"LOCALHOST", true},
        {"localhost:1", true},
        {"name:80", true},
        {"[::1]", true},
        {"[::1]:99", true},
        {"name", false},
        {"name:81", false},
        {"localhost.", false},
        {"xlocalhost", false},
        {"::1", false},
        {"", false},
        {"localhost:", false},
        {"localhost:x", false},
        /* An address is no name: all are served, but no other spelling of one. */
        {"10.1.2.3:8000", true},
        {"10.1.2.3", true},
        {"[fd00::1]:8000", true},
        {"[::2]", true},
        {"[::ffff:1.2.3.4]", true},
        {"10.1.2.3.evil.example", false},
        {"127.1", false},
        {"2130706433", false},
        {"0x7f.0.0.1", false},
        {"10.1.2.3.", false},
        {"10.1.2.256", false},
        {"[::g]", false},
        {"[1.2.3.4]", false},
        {"[:::]", false},
        {"01.2.3.4", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].host);
        CHECK_INT(http_host_served(list, ARRAY_LEN(list), rows[i].host), rows[i].want);
    }
    CHECK(!http_host_served(NULL, 0, "localhost"));
}

TEST(origins)
{
    static const char *const list[] = {"friend", "port:81", "https://exact:443"};
    static const struct {
        const char *origin;
        bool want;
    } rows[] = {
        {"http://friend", true},
        {"https://friend:9", true},
        {"http://port:81", true},
        {"https://exact:443", true},
        {"http://me:8000", true},
        {"https://me:8000", true},
        {"http://port", false},
        {"http://exact:443", false},
        {"http://me", false},
        {"http://me:8001", false},
        {"http://evil", false},
        {"null", false},
        {"file://friend", false},
        {"friend", false},
        {"", false},
        {"http://friend/x", false},
        {"http://evil@friend", false},
        {"http://friend.evil", false},
        {"http://", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].origin);
        CHECK_INT(http_origin_listed(list, ARRAY_LEN(list), rows[i].origin, "me:8000"),
                  rows[i].want);
    }
}

/* The example of RFC 6455, 1.3. */
TEST(handshake_answer)
{
    char accept[HTTP_WEBSOCKET_ACCEPT_SIZE];

    http_handshake_accept("dGhlIHNhbXBsZSBub25jZQ==", accept);
    CHECK_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#define WS_START "GET /ws HTTP/1.1\r\nHost: a\r\n"
#define WS_UPGRADE "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
#define WS_KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define WS_VERSION "Sec-WebSocket-Version: 13\r\n"

TEST(handshakes)
{
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {WS_START WS_UPGRADE WS_KEY WS_VERSION "\r\n", 0},
        {WS_START "Upgrade: h2c, WebSocket\r\nConnection: upgrade\r\n" WS_KEY WS_VERSION "\r\n", 0},
        {WS_START WS_KEY WS_VERSION "\r\n", 426},
        {WS_START "Upgrade: websocket\r\n" WS_KEY WS_VERSION "\r\n", 426},
        {WS_START "Connection: upgrade\r\n" WS_KEY WS_VERSION "\r\n", 426},
        {WS_START WS_UPGRADE WS_KEY "Sec-WebSocket-Version: 8\r\n\r\n", 426},
        {WS_START WS_UPGRADE WS_KEY "\r\n", 400},
        {WS_START WS_UPGRADE WS_VERSION "\r\n", 400},
        {WS_START WS_UPGRADE WS_VERSION "Sec-WebSocket-Key: short\r\n\r\n", 400},
        {WS_START WS_UPGRADE WS_VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR==\r\n\r\n", 400},
        {WS_START WS_UPGRADE WS_VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=a\r\n\r\n", 400},
        {WS_START WS_UPGRADE WS_KEY WS_VERSION "Content-Length: 1\r\n\r\n", 400},
        {WS_START WS_UPGRADE WS_KEY WS_VERSION "Transfer-Encoding: chunked\r\n\r\n", 400},
        {"POST /ws HTTP/1.1\r\nHost: a\r\n" WS_UPGRADE WS_KEY WS_VERSION "\r\n", 400},
        {"GET /ws HTTP/1.0\r\nHost: a\r\n" WS_UPGRADE WS_KEY WS_VERSION "\r\n", 400},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char buf[512];
        struct http_head h = {0};
        int n = snprintf(buf, sizeof(buf), "%s", rows[i].text);
        CASE("row %zu", i);
        CHECK_INT(http_head_parse(&h, buf, (size_t)n), HTTP_HEAD_DONE);
        CHECK_INT(http_handshake_check(&h), rows[i].status);
    }
}

TEST(reasons)
{
    CHECK_STR(http_reason(200), "OK");
    CHECK_STR(http_reason(431), "Request Header Fields Too Large");
    CHECK_STR(http_reason(299), "Unknown");
    CHECK_STR(http_reason(-1), "Unknown");
    CHECK_STR(http_reason(100000), "Unknown");
}
