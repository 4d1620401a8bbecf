/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of http/head.h and http/target.h: whatever is accepted can be read in one way only.
 */
#include "http/head.h"

#include <string.h>
#include <strings.h>

#include "fuzz.h"
#include "http/field.h"
#include "http/host.h"
#include "http/target.h"

static bool is_refusal(int r)
{
    return r == 400 || r == 414 || r == 417 || r == 431 || r == 501 || r == 505;
}

/* The same bytes one by one: the same verdict. */
static void check_split(const uint8_t *data, size_t size, const struct http_head *whole,
                        int verdict)
{
    static char buf[HTTP_HEAD_MAX + 64];
    struct http_head h = {0};
    int r = HTTP_HEAD_MORE;
    size_t step = size > 2000 ? 500 : 1;

    for (size_t n = 0; n < size && r == HTTP_HEAD_MORE;) {
        n = n + step > size ? size : n + step;
        memcpy(buf, data, n);
        r = http_head_parse(&h, buf, n);
    }
    FUZZ_CHECK(size == 0 || r == verdict);
    FUZZ_CHECK(r != HTTP_HEAD_DONE || (h.length == whole->length && h.nfields == whole->nfields));
}

static void check_accepted(const struct http_head *h, size_t size)
{
    struct http_host host;
    size_t lengths = 0;
    size_t codings = 0;
    size_t hosts = 0;

    FUZZ_CHECK(h->length <= size && h->length <= HTTP_HEAD_MAX && h->nfields <= HTTP_FIELDS_MAX);
    for (size_t i = 0; i < h->nfields; i++) {
        const char *name = h->base + h->fields[i].name;
        const char *value = h->base + h->fields[i].value;
        FUZZ_CHECK(strlen(name) == h->fields[i].name_len && http_is_token(name, strlen(name)));
        FUZZ_CHECK(strlen(value) == h->fields[i].value_len && http_is_value(value, strlen(value)));
        lengths += strcasecmp(name, "content-length") == 0;
        codings += strcasecmp(name, "transfer-encoding") == 0;
        hosts += strcasecmp(name, "host") == 0;
        FUZZ_CHECK(http_head_find(h, name) != NULL);
    }
    FUZZ_CHECK(hosts == 1 && lengths + codings <= 1);
    FUZZ_CHECK(h->is_chunked == (codings == 1) && h->has_length == (lengths == 1));
    const char *name = http_head_known(h, HTTP_HOST);
    FUZZ_CHECK(http_host_parse(name, strlen(name), &host));
    FUZZ_CHECK(h->method < HTTP_METHODS && h->minor <= 1);
    FUZZ_CHECK(strlen(http_head_target(h)) == h->target_len && h->target_len <= HTTP_TARGET_MAX);
}

static void check_target(const struct http_head *h)
{
    static struct http_target t;
    size_t at = 0;
    size_t before = 0;
    const char *name;
    const char *value;

    if (http_target_split(http_head_target(h), h->method, http_head_known(h, HTTP_HOST), &t) != 0) {
        return;
    }
    FUZZ_CHECK(strlen(t.path) == t.path_len && t.path_len > 0);
    FUZZ_CHECK(t.path[0] == '/' || strcmp(t.path, "*") == 0);
    FUZZ_CHECK(strstr(t.path, "/../") == NULL && strstr(t.path, "/./") == NULL);
    while (http_target_next(&t, &at, &name, &value)) {
        FUZZ_CHECK(at > before && at <= t.query_len && t.query_len <= sizeof(t.query));
        before = at;
    }
    FUZZ_CHECK(at == t.query_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char buf[HTTP_HEAD_MAX + 64];
    struct http_head h = {0};

    if (size > sizeof(buf)) {
        return 0;
    }
    memcpy(buf, data, size);
    int r = http_head_parse(&h, buf, size);
    FUZZ_CHECK(r == HTTP_HEAD_MORE || r == HTTP_HEAD_DONE || is_refusal(r));
    FUZZ_CHECK(r != HTTP_HEAD_MORE || size < HTTP_HEAD_MAX);
    FUZZ_CHECK(is_refusal(r) == (h.why != NULL));
    check_split(data, size, &h, r);
    if (r == HTTP_HEAD_DONE) {
        FUZZ_CHECK(memcmp(buf + h.length, data + h.length, size - h.length) == 0);
        check_accepted(&h, size);
        check_target(&h);
    }
    return 0;
}
