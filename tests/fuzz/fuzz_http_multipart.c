/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of http/multipart.h. The first line of the input is the Content-Type, the rest the
 * body: every split gives the same parts and the same verdict.
 */
#include "http/multipart.h"

#include <string.h>

#include "base/attr.h"
#include "base/str.h"
#include "fuzz.h"

struct seen {
    unsigned parts;
    unsigned ends;
    size_t bytes;
    uint64_t sum;
    int verdict;
};

static void add(struct seen *seen, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        seen->sum = seen->sum * 31 + (uint8_t)data[i];
    }
}

static int on_part(void *user, const struct http_part *part)
{
    struct seen *seen = user;

    FUZZ_CHECK(seen->parts == seen->ends && part->name[0] != '\0');
    FUZZ_CHECK(part->has_filename || part->filename[0] == '\0');
    seen->parts++;
    add(seen, part->name, strlen(part->name));
    add(seen, part->filename, strlen(part->filename));
    add(seen, part->type, strlen(part->type));
    return 0;
}

static int on_data(void *user, const char *data, size_t len)
{
    struct seen *seen = user;

    FUZZ_CHECK(seen->parts == seen->ends + 1 && len > 0);
    seen->bytes += len;
    add(seen, data, len);
    return 0;
}

static int on_part_end(void *user)
{
    struct seen *seen = user;

    seen->ends++;
    return 0;
}

static const struct http_multipart_calls calls = {on_part, on_data, on_part_end};

static struct seen run(const char *type, const char *body, size_t n, size_t step)
{
    static struct http_multipart m;
    struct seen seen = {0};

    seen.verdict = http_multipart_init(&m, type, 8, &calls, &seen);
    for (size_t at = 0; seen.verdict == 0 && at < n; at += step) {
        seen.verdict = http_multipart_feed(&m, body + at, MIN(step, n - at));
    }
    if (seen.verdict == 0) {
        seen.verdict = http_multipart_finish(&m);
    }
    FUZZ_CHECK((seen.verdict < 0) == (m.why != NULL));
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char type[256];
    const char *text = (const char *)data;
    const char *line = memchr(data, '\n', size);
    size_t n = line == NULL ? size : (size_t)(line - text);

    if (n >= sizeof(type) || line == NULL) {
        return 0;
    }
    memcpy(type, text, n);
    type[n] = '\0';
    const char *body = line + 1;
    size_t len = size - n - 1;
    struct seen whole = run(type, body, len, len + 1);
    for (size_t step = 1; step <= 7; step += 3) {
        struct seen other = run(type, body, len, step);
        FUZZ_CHECK(other.verdict == whole.verdict && other.parts == whole.parts &&
                   other.bytes == whole.bytes && other.sum == whole.sum);
    }
    FUZZ_CHECK(whole.bytes <= len && whole.parts <= 8);
    FUZZ_CHECK(whole.verdict < 0 || whole.parts == whole.ends);
    return 0;
}
