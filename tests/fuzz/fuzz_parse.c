/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of base/parse.h: numbers, sizes and durations. */
#include "base/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "fuzz.h"

#define UNTOUCHED UINT64_C(0x5eed5eed5eed5eed)

static void check_contract(int r, uint64_t v)
{
    FUZZ_CHECK(r == 0 || r == -EINVAL || r == -ERANGE);
    FUZZ_CHECK(r == 0 || v == UNTOUCHED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[64];
    char again[32];
    uint64_t number = UNTOUCHED;
    uint64_t bytes = UNTOUCHED;
    uint64_t ms = UNTOUCHED;
    uint64_t milli = UNTOUCHED;

    if (size >= sizeof(text)) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';

    int r_number = parse_u64(text, &number);
    int r_bytes = parse_size(text, &bytes);
    int r_ms = parse_duration_ms(text, &ms);
    int r_milli = parse_milli(text, &milli);
    check_contract(r_number, number);
    check_contract(r_bytes, bytes);
    check_contract(r_ms, ms);
    check_contract(r_milli, milli);

    if (r_number == 0) {
        /* A plain number means the same to all of them, and prints as it was written. */
        size_t zeros = strspn(text, "0");
        snprintf(again, sizeof(again), "%" PRIu64, number);
        FUZZ_CHECK(strcmp(again, number == 0 ? "0" : text + zeros) == 0);
        FUZZ_CHECK(r_bytes == 0 && bytes == number);
        FUZZ_CHECK(r_milli != 0 || milli / 1000 == number);
        FUZZ_CHECK(r_ms != 0 || ms / 1000 == number);
    }
    if (r_milli == 0) {
        FUZZ_CHECK(r_ms == 0 ? ms == milli : r_ms == -ERANGE); /* without a unit: seconds */
    }
    if (r_bytes == 0 && r_number != 0) {
        FUZZ_CHECK(strpbrk(text, "BKkMmGgTt") != NULL);
    }
    return 0;
}
