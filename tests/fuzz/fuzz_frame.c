/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of wire/frame.h: heads and fields of frames that come out of a box. */
#include "wire/frame.h"

#include <errno.h>
#include <string.h>

#include "fuzz.h"

#define MOST 4096

/* Walks the fields and builds the same frame again: it must come out byte for byte. */
static void walk(const struct frame_head *head, const char *body)
{
    AUTO_BUF struct buf again = BUF_INIT(sizeof(*head) + MOST);
    struct frame_field f;
    size_t at = 0;
    size_t before = 0;
    int more;

    FUZZ_CHECK(frame_begin(&again, (enum frame_type)head->type, head->token) == 0);
    while ((more = frame_next(body, head->len, &at, &f)) > 0) {
        uint32_t u32;
        uint64_t u64;
        FUZZ_CHECK(at > before && at <= head->len);
        FUZZ_CHECK(f.data == body + before + 8 && f.data + f.len == body + at);
        FUZZ_CHECK(frame_field_u32(&f, &u32) == (f.len == 4 ? 0 : -EBADMSG));
        FUZZ_CHECK(frame_field_u64(&f, &u64) == (f.len == 8 ? 0 : -EBADMSG));
        FUZZ_CHECK(frame_add(&again, (enum frame_key)f.key, f.data, f.len) == 0);
        before = at;
    }
    FUZZ_CHECK(more == 0 || more == -EBADMSG);
    FUZZ_CHECK(frame_end(&again) == 0);
    FUZZ_CHECK(memcmp(again.data + sizeof(*head), body, before) == 0);
    if (more == 0) {
        FUZZ_CHECK(before == head->len);
        FUZZ_CHECK(again.len == sizeof(*head) + head->len);
        FUZZ_CHECK(memcmp(again.data, head, sizeof(*head)) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_head head = {.type = 77};

    int r = frame_parse_head(data, size, MOST, &head);
    FUZZ_CHECK(r == 1 || r == 0 || r == -EBADMSG || r == -EMSGSIZE);
    FUZZ_CHECK((r == 0) == (size < sizeof(head)));
    if (r != 1) {
        FUZZ_CHECK(head.type == 77); /* written only on success */
        return 0;
    }
    FUZZ_CHECK(head.type >= 1 && head.type <= FRAME_LAST && head.len <= MOST);
    if (size - sizeof(head) >= head.len) {
        walk(&head, (const char *)data + sizeof(head));
    }
    return 0;
}
