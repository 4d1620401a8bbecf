/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of workers: heads that are whole, cut or lies, and payloads of every type. */
#include "agents/agent_frame.h"

#include <stdlib.h>

#include "base/attr.h"
#include "base/buf.h"
#include "tap.h"

TEST(a_head_is_written_in_little_endian_and_read_back)
{
    const struct agent_frame frame = {.len = 0x010203, .type = AGENT_TEXT, .id = 0x0a0b0c0d};
    struct agent_frame got = {0};
    char head[AGENT_HEAD_SIZE];

    agent_frame_write(&frame, head);
    CHECK(memcmp(head, "\x03\x02\x01\0\x42\0\0\0\x0d\x0c\x0b\x0a", sizeof(head)) == 0);
    for (size_t n = 0; n < sizeof(head); n++) {
        CHECK_INT(agent_frame_read(head, n, &got), 0);
    }
    CHECK_INT(agent_frame_read(head, sizeof(head), &got), 1);
    CHECK_INT(got.len, frame.len);
    CHECK_INT(got.type, frame.type);
    CHECK_INT(got.id, frame.id);
}

TEST(heads_that_no_worker_may_send)
{
    static const struct agent_frame bad[] = {
        {.type = 0, .id = 1},
        {.type = AGENT_CALL, .id = 1}, /* ours */
        {.type = AGENT_DRAIN, .id = 0},
        {.type = AGENT_BEGUN + 1, .id = 1},
        {.type = AGENT_BEGUN, .id = 0},
        {.type = AGENT_BEGUN, .id = 1, .len = 1},
        {.type = 0xffffffff, .id = 1},
        {.type = AGENT_DONE, .id = 0}, /* of no request */
        {.type = AGENT_READY, .id = 1},
        {.type = AGENT_PONG, .id = 1},
        {.type = AGENT_PONG, .id = 0, .len = 1},
        {.type = AGENT_HTTP_END, .id = 1, .len = 1},
        {.type = AGENT_DONE, .id = 1, .len = AGENT_PAYLOAD_MAX + 1},
        {.type = AGENT_HTTP_BODY, .id = 1, .len = 0xffffffff},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct agent_frame got;
        char head[AGENT_HEAD_SIZE];
        CASE("row %zu", i);
        agent_frame_write(&bad[i], head);
        CHECK_INT(agent_frame_read(head, sizeof(head), &got), -1);
    }
}

TEST(the_largest_payload_is_accepted)
{
    const struct agent_frame frame = {.len = AGENT_PAYLOAD_MAX, .type = AGENT_DONE, .id = 1};
    struct agent_frame got;
    char head[AGENT_HEAD_SIZE];

    agent_frame_write(&frame, head);
    CHECK_INT(agent_frame_read(head, sizeof(head), &got), 1);
}

TEST(three_types_end_a_request)
{
    for (uint32_t type = 0; type < 100; type++) {
        CASE("type %u", type);
        bool is_last = type == AGENT_DONE || type == AGENT_ERROR || type == AGENT_HTTP_END;
        CHECK_INT(agent_frame_is_last(type), is_last);
    }
}

static int read_text(uint32_t type, const char *text)
{
    json_t *value = NULL;
    int r = agent_payload_read(type, text, strlen(text), &value);

    CHECK(r == 0 || value == NULL);
    json_decref(value);
    return r;
}

TEST(payloads_that_are_what_their_type_says)
{
    static const struct {
        uint32_t type;
        const char *text;
    } good[] = {
        {AGENT_READY, "{\"pid\":1,\"streams\":[]}"},
        {AGENT_READY, "{\"pid\":1,\"streams\":[\"text\"],\"version\":\"1\"}"},
        {AGENT_FAILED, "{\"error\":\"e\",\"traceback\":\"\"}"},
        {AGENT_TEXT, "{\"content\":\"\"}"},
        {AGENT_TEXT, "{\"content\":\"a\\u0000b\"}"},
        {AGENT_EVENT, "{}"},
        {AGENT_EVENT, "{\"n\":123456789012345678901234567890}"},
        {AGENT_DONE, "{\"response\":\"\"}"},
        {AGENT_DONE, "{ \"result\" : null }"},
        {AGENT_ERROR, "{\"type\":\"T\",\"message\":\"m\",\"status\":422}"},
        {AGENT_HTTP_HEAD, "{\"status\":200,\"headers\":[]}"},
        {AGENT_HTTP_HEAD, "{\"status\":599,\"headers\":[[\"a\",\"b\"],[\"a\",\"c\"]]}"},
        {AGENT_HTTP_BODY, "anything"},
        {AGENT_HTTP_END, ""},
        {AGENT_PONG, ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        CASE("%u %s", good[i].type, good[i].text);
        CHECK_INT(read_text(good[i].type, good[i].text), 0);
    }
}

TEST(payloads_that_are_not)
{
    static const struct {
        uint32_t type;
        const char *text;
    } bad[] = {
        {AGENT_READY, "{\"pid\":\"1\",\"streams\":[]}"},
        {AGENT_READY, "{\"pid\":1,\"streams\":[1]}"},
        {AGENT_READY, "{\"pid\":1}"},
        {AGENT_FAILED, "{\"error\":\"e\"}"},
        {AGENT_TEXT, ""},
        {AGENT_TEXT, "{}"},
        {AGENT_TEXT, "{\"content\":1}"},
        {AGENT_TEXT, "[\"content\"]"},
        {AGENT_TEXT, " {\"content\":\"x\"}"},
        {AGENT_TEXT, "{\"content\":\"x\"} "},
        {AGENT_TEXT, "{\"content\":\"x\"}{}"},
        {AGENT_TEXT, "{\"content\":\"x\",\"content\":\"y\"}"},
        {AGENT_TEXT, "{\"content\":\"\xff\"}"},
        {AGENT_EVENT, "{"},
        {AGENT_EVENT, "null"},
        {AGENT_EVENT, "{\"a\":NaN}"},
        {AGENT_DONE, "{}"},
        {AGENT_DONE, "{\"response\":1}"},
        {AGENT_DONE, "{\"response\":\"\",\"session_id\":\"\"}"}, /* would be there twice */
        {AGENT_ERROR, "{\"type\":\"T\",\"message\":\"m\",\"status\":200}"},
        {AGENT_ERROR, "{\"type\":\"T\",\"message\":null,\"status\":500}"},
        {AGENT_HTTP_HEAD, "{\"status\":101,\"headers\":[]}"},
        {AGENT_HTTP_HEAD, "{\"status\":600,\"headers\":[]}"},
        {AGENT_HTTP_HEAD, "{\"status\":200,\"headers\":{\"a\":\"b\"}}"},
        {AGENT_HTTP_HEAD, "{\"status\":200,\"headers\":[[\"a\"]]}"},
        {AGENT_HTTP_HEAD, "{\"status\":200,\"headers\":[[\"a\",1]]}"},
        {AGENT_CALL, "{}"},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CASE("%u %s", bad[i].type, bad[i].text);
        CHECK_INT(read_text(bad[i].type, bad[i].text), -1);
    }
}

/* What is parsed is printed by code that recurses, on small stacks. */
TEST(depth_is_bounded)
{
    for (int levels = AGENT_JSON_DEPTH_MAX; levels <= AGENT_JSON_DEPTH_MAX + 1; levels++) {
        AUTO_BUF struct buf b = BUF_INIT(10000);
        CHECK_INT(buf_add_str(&b, "{\"x\":"), 0);
        for (int i = 1; i < levels; i++) {
            CHECK_INT(buf_add(&b, "[", 1), 0);
        }
        for (int i = 1; i < levels; i++) {
            CHECK_INT(buf_add(&b, "]", 1), 0);
        }
        CHECK_INT(buf_add(&b, "}", 1), 0);
        CHECK_INT(read_text(AGENT_EVENT, b.data), levels > AGENT_JSON_DEPTH_MAX ? -1 : 0);
    }
}

TEST(headers_are_counted)
{
    for (int n = AGENT_HEADERS_MAX; n <= AGENT_HEADERS_MAX + 1; n++) {
        AUTO_BUF struct buf b = BUF_INIT(10000);
        CHECK_INT(buf_add_str(&b, "{\"status\":200,\"headers\":["), 0);
        for (int i = 0; i < n; i++) {
            CHECK_INT(buf_add_str(&b, i == 0 ? "[\"a\",\"b\"]" : ",[\"a\",\"b\"]"), 0);
        }
        CHECK_INT(buf_add_str(&b, "]}"), 0);
        CHECK_INT(read_text(AGENT_HTTP_HEAD, b.data), n > AGENT_HEADERS_MAX ? -1 : 0);
    }
}
