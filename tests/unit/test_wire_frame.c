/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to and from a box: what is built can be read, and what is malformed cannot. */
#include "wire/frame.h"

#include <errno.h>
#include <string.h>

#include "tap.h"

#define HEAD sizeof(struct frame_head)

static const uint8_t token[FRAME_TOKEN_SIZE] = "0123456789abcdef";

static void build(struct buf *b, enum frame_type type)
{
    CHECK_INT(frame_begin(b, type, token), 0);
    CHECK_INT(frame_end(b), 0);
}

TEST(a_frame_without_fields_is_its_head)
{
    AUTO_BUF struct buf b = BUF_INIT(1000);
    struct frame_head head = {0};

    build(&b, FRAME_READY);
    CHECK_INT(b.len, HEAD);
    CHECK_INT(frame_parse_head(b.data, b.len, 0, &head), 1);
    CHECK_INT(head.type, FRAME_READY);
    CHECK_INT(head.len, 0);
    CHECK(memcmp(head.token, token, sizeof(token)) == 0);
}

TEST(a_frame_without_token_has_zeroes_there)
{
    AUTO_BUF struct buf b = BUF_INIT(1000);
    static const uint8_t zero[FRAME_TOKEN_SIZE];
    struct frame_head head = {.token = {1}};

    CHECK_INT(frame_begin(&b, FRAME_SIGNAL, NULL), 0);
    CHECK_INT(frame_end(&b), 0);
    CHECK_INT(frame_parse_head(b.data, b.len, 0, &head), 1);
    CHECK(memcmp(head.token, zero, sizeof(zero)) == 0);
}

TEST(fields_are_read_in_the_order_they_were_added)
{
    AUTO_BUF struct buf b = BUF_INIT(1000);
    struct frame_head head;
    struct frame_field f;
    size_t at = 0;
    uint32_t u32 = 0;
    uint64_t u64 = 0;

    CHECK_INT(frame_begin(&b, FRAME_RUN, token), 0);
    CHECK_INT(frame_add_str(&b, KEY_NAME, "x.py"), 0);
    CHECK_INT(frame_add(&b, KEY_CODE, "a\0b", 3), 0);
    CHECK_INT(frame_add(&b, KEY_ARG, "", 0), 0);
    CHECK_INT(frame_add_u32(&b, KEY_EXIT, 0xfedcba98u), 0);
    CHECK_INT(frame_add_u64(&b, KEY_TIMEOUT_MS, UINT64_MAX - 1), 0);
    CHECK_INT(frame_end(&b), 0);
    CHECK_INT(frame_parse_head(b.data, b.len, 1000, &head), 1);
    CHECK_INT(head.len, b.len - HEAD);

    const char *body = b.data + HEAD;
    CHECK_INT(frame_next(body, head.len, &at, &f), 1);
    CHECK_INT(f.key, KEY_NAME);
    CHECK(f.len == 4 && memcmp(f.data, "x.py", 4) == 0);
    CHECK_INT(frame_next(body, head.len, &at, &f), 1);
    CHECK(f.key == KEY_CODE && f.len == 3 && memcmp(f.data, "a\0b", 3) == 0);
    CHECK_INT(frame_next(body, head.len, &at, &f), 1);
    CHECK(f.key == KEY_ARG && f.len == 0);
    CHECK_INT(frame_next(body, head.len, &at, &f), 1);
    CHECK_INT(frame_field_u32(&f, &u32), 0);
    CHECK_INT(u32, 0xfedcba98u);
    CHECK_INT(frame_next(body, head.len, &at, &f), 1);
    CHECK_INT(frame_field_u64(&f, &u64), 0);
    CHECK(u64 == UINT64_MAX - 1);
    CHECK_INT(frame_next(body, head.len, &at, &f), 0);
    CHECK_INT(frame_next(body, head.len, &at, &f), 0); /* and it stays the end */
}

TEST(begin_forgets_what_was_in_the_buffer)
{
    AUTO_BUF struct buf b = BUF_INIT(1000);

    CHECK_INT(frame_begin(&b, FRAME_RUN, token), 0);
    CHECK_INT(frame_add_str(&b, KEY_CODE, "old"), 0);
    build(&b, FRAME_DONE);
    CHECK_INT(b.len, HEAD);
}

TEST(a_field_that_does_not_fit_is_left_out_whole)
{
    AUTO_BUF struct buf b = BUF_INIT(HEAD + 8 + 4);
    struct frame_head head;

    CHECK_INT(frame_begin(&b, FRAME_RUN, token), 0);
    CHECK_INT(frame_add(&b, KEY_CODE, "12345", 5), -EMSGSIZE);
    CHECK_INT(b.len, HEAD);
    CHECK_INT(frame_add(&b, KEY_CODE, "1234", 4), 0);
    CHECK_INT(frame_add(&b, KEY_ARG, "", 0), -EMSGSIZE);
    CHECK_INT(frame_end(&b), 0);
    CHECK_INT(frame_parse_head(b.data, b.len, 12, &head), 1);
    CHECK_INT(head.len, 12);
}

TEST(a_buffer_too_small_for_a_head_is_refused)
{
    AUTO_BUF struct buf b = BUF_INIT(HEAD - 1);

    CHECK_INT(frame_begin(&b, FRAME_RUN, token), -EMSGSIZE);
    CHECK_INT(b.len, 0);
}

TEST(a_field_longer_than_its_length_can_say_is_refused)
{
    AUTO_BUF struct buf b = BUF_INIT(SIZE_MAX);

    CHECK_INT(frame_begin(&b, FRAME_RUN, token), 0);
    CHECK_INT(frame_add(&b, KEY_CODE, "", (size_t)UINT32_MAX + 1), -EMSGSIZE);
    CHECK_INT(b.len, HEAD);
}

TEST(a_head_needs_all_its_bytes)
{
    AUTO_BUF struct buf b = BUF_INIT(1000);
    struct frame_head head = {.type = 77};

    build(&b, FRAME_READY);
    for (size_t n = 0; n < HEAD; n++) {
        CASE("%zu bytes", n);
        CHECK_INT(frame_parse_head(b.data, n, 1000, &head), 0);
        CHECK_INT(head.type, 77); /* left alone */
    }
    CHECK_INT(frame_parse_head(b.data, HEAD, 1000, &head), 1);
}

TEST(unknown_types_and_bodies_beyond_the_bound_are_refused)
{
    static const struct {
        uint32_t type, len;
        int want;
    } rows[] = {
        {0, 0, -EBADMSG},
        {FRAME_LAST + 1, 0, -EBADMSG},
        {UINT32_MAX, 0, -EBADMSG},
        {FRAME_RUN, 100, 1},
        {FRAME_RUN, 101, -EMSGSIZE},
        {FRAME_LAST, UINT32_MAX, -EMSGSIZE},
        {0, UINT32_MAX, -EBADMSG},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct frame_head in = {.type = rows[i].type, .len = rows[i].len};
        struct frame_head out = {.type = 77};
        CASE("type %u, %u bytes", rows[i].type, rows[i].len);
        CHECK_INT(frame_parse_head(&in, sizeof(in), 100, &out), rows[i].want);
        CHECK_INT(out.type, rows[i].want == 1 ? rows[i].type : 77);
    }
}

/* A list of fields in which the last one claims a length. */
static int walk(uint32_t claim, size_t there, size_t *at)
{
    char body[64] = {0};
    uint32_t head[2] = {KEY_DATA, claim};
    struct frame_field f;

    memcpy(body, head, sizeof(head));
    *at = 0;
    return frame_next(body, sizeof(head) + there, at, &f);
}

TEST(a_field_may_not_reach_beyond_its_frame)
{
    size_t at;

    CHECK_INT(walk(4, 4, &at), 1);
    CHECK_INT(at, 12);
    CHECK_INT(walk(0, 0, &at), 1);
    CHECK_INT(at, 8);
    CHECK_INT(walk(5, 4, &at), -EBADMSG);
    CHECK_INT(walk(UINT32_MAX, 4, &at), -EBADMSG);
    CHECK_INT(walk(UINT32_MAX - 7, 4, &at), -EBADMSG);
    CHECK_INT(at, 0); /* and nothing was passed */
}

TEST(a_cut_field_head_is_malformed)
{
    static const char body[8] = {KEY_DATA};
    struct frame_field f;

    for (size_t len = 1; len < 8; len++) {
        size_t at = 0;
        CASE("%zu bytes", len);
        CHECK_INT(frame_next(body, len, &at, &f), -EBADMSG);
    }
    size_t beyond = 9;
    CASE("a place behind the end");
    CHECK_INT(frame_next(body, 8, &beyond, &f), -EBADMSG);
}

TEST(numbers_have_their_exact_size)
{
    static const char bytes[16] = {1};

    for (uint32_t len = 0; len <= 9; len++) {
        struct frame_field f = {.key = KEY_PID, .len = len, .data = bytes};
        uint32_t u32 = 77;
        uint64_t u64 = 77;
        CASE("%u bytes", len);
        CHECK_INT(frame_field_u32(&f, &u32), len == 4 ? 0 : -EBADMSG);
        CHECK_INT(frame_field_u64(&f, &u64), len == 8 ? 0 : -EBADMSG);
        CHECK_INT(u32, len == 4 ? 1 : 77);
        CHECK_INT(u64, len == 8 ? 1 : 77);
    }
}
