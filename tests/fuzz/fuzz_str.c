/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of base/str.h: UTF-8 and text made safe to show. */
#include "base/str.h"

#include <string.h>

#include "fuzz.h"

/* The code point of a sequence that str_utf8_len() accepted. */
static uint32_t decode(const uint8_t *p, size_t len)
{
    static const uint8_t lead_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = p[0] & lead_mask[len];

    for (size_t i = 1; i < len; i++) {
        c = c << 6 | (p[i] & 0x3fu);
    }
    return c;
}

static void check_sequence(const uint8_t *p, size_t len)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t c = decode(p, len);

    FUZZ_CHECK(c >= smallest[len] && c <= 0x10ffff);
    FUZZ_CHECK(c < 0xd800 || c > 0xdfff);
}

/* What is shown is UTF-8 without a control character other than newline and tab. */
static void check_shown(const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n;) {
        size_t len = str_utf8_len(text + i, n - i);
        FUZZ_CHECK(len > 0);
        uint32_t c = decode((const uint8_t *)text + i, len);
        FUZZ_CHECK(c == '\n' || c == '\t' || (c >= 0x20 && (c < 0x7f || c > 0x9f)));
        i += len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;

    for (size_t i = 0; i < size; i++) {
        size_t len = str_utf8_len(text + i, size - i);
        FUZZ_CHECK(len <= 4 && len <= size - i);
        if (len > 0) {
            check_sequence(data + i, len);
        }
    }
    FUZZ_CHECK(str_utf8_len(text, 0) == 0);

    /* Each byte becomes at most four; with that much room nothing is cut off. */
    char *whole = malloc(4 * size + 1);
    char cut[16];
    FUZZ_CHECK(whole != NULL);
    str_printable(whole, 4 * size + 1, text, size);
    check_shown(whole);
    FUZZ_CHECK(strlen(whole) >= size);

    str_printable(cut, sizeof(cut), text, size);
    check_shown(cut);
    FUZZ_CHECK(strncmp(whole, cut, strlen(cut)) == 0);
    free(whole);
    return 0;
}
