/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of http/chunked.h: every split of the input gives the same body, end and verdict. */
#include "http/chunked.h"

#include <string.h>

#include "base/attr.h"
#include "fuzz.h"

struct result {
    enum http_chunked_step verdict;
    size_t used;
    size_t bytes;
    uint64_t sum;
};

static struct result decode(const char *text, size_t n, size_t step)
{
    struct http_chunked c = {0};
    struct result r = {.verdict = HTTP_CHUNKED_MORE};
    size_t end = MIN(step, n);

    for (;;) {
        const char *data = NULL;
        size_t len = 0;
        size_t used = 0;
        r.verdict = http_chunked_next(&c, text + r.used, end - r.used, &used, &data, &len);
        FUZZ_CHECK(used <= end - r.used);
        r.used += used;
        if (r.verdict == HTTP_CHUNKED_PIECE) {
            FUZZ_CHECK(len > 0 && data >= text && data + len == text + r.used);
            for (size_t i = 0; i < len; i++) {
                r.sum = r.sum * 31 + (uint8_t)data[i];
            }
            r.bytes += len;
        } else if (r.verdict == HTTP_CHUNKED_MORE && end < n) {
            FUZZ_CHECK(r.used == end);
            end = MIN(end + step, n);
        } else {
            return r;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct result whole = decode((const char *)data, size, size);

    for (size_t step = 1; step <= 5; step += 2) {
        struct result r = decode((const char *)data, size, step);
        FUZZ_CHECK(r.verdict == whole.verdict && r.used == whole.used && r.bytes == whole.bytes &&
                   r.sum == whole.sum);
    }
    FUZZ_CHECK(whole.bytes <= whole.used);
    FUZZ_CHECK(whole.verdict != HTTP_CHUNKED_MORE || whole.used == size);
    if (whole.verdict == HTTP_CHUNKED_END) {
        FUZZ_CHECK(whole.used >= 5 && memcmp(data + whole.used - 4, "\r\n\r\n", 4) == 0);
    }
    return 0;
}
