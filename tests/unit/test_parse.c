/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/parse.h: what is a number, a size, a duration, and that nothing else is. */
#include "base/parse.h"

#include <errno.h>

#include "base/attr.h"
#include "base/units.h"
#include "tap.h"

#define UNTOUCHED UINT64_C(42)

struct row {
    const char *text;
    int want;       /* what the function returns */
    uint64_t value; /* what it writes on success */
};

static void check_rows(int (*parse)(const char *, uint64_t *), const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t got = UNTOUCHED;

        CASE("\"%s\"", rows[i].text);
        CHECK_INT(parse(rows[i].text, &got), rows[i].want);
        CHECK_INT(got, rows[i].want == 0 ? rows[i].value : UNTOUCHED);
    }
}

TEST(u64)
{
    static const struct row rows[] = {
        {"0", 0, 0},
        {"7", 0, 7},
        {"007", 0, 7},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"99999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"1\n", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
        {"1e3", -EINVAL, 0},
        {"1.0", -EINVAL, 0},
        {"1_000", -EINVAL, 0},
        {"\xd9\xa1", -EINVAL, 0}, /* a digit of another script */
    };

    check_rows(parse_u64, rows, ARRAY_LEN(rows));
}

TEST(size)
{
    static const struct row rows[] = {
        {"0", 0, 0},
        {"4096", 0, 4096},
        {"4096B", 0, 4096},
        {"64K", 0, 64 * KIB},
        {"64k", 0, 64 * KIB},
        {"64KB", 0, 64 * KIB},
        {"64Ki", 0, 64 * KIB},
        {"64KiB", 0, 64 * KIB},
        {"256M", 0, 256 * MIB},
        {"256m", 0, 256 * MIB},
        {"256MB", 0, 256 * MIB},
        {"512Mi", 0, 512 * MIB},
        {"512MiB", 0, 512 * MIB},
        {"1G", 0, GIB},
        {"1g", 0, GIB},
        {"2GB", 0, 2 * GIB},
        {"2Gi", 0, 2 * GIB},
        {"2GiB", 0, 2 * GIB},
        {"17179869183G", 0, UINT64_C(17179869183) << 30}, /* the last that fits */
        {"17179869184G", -ERANGE, 0},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"K", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 MB", -EINVAL, 0},
        {"1MB ", -EINVAL, 0},
        {"1T", 0, (uint64_t)1 << 40},
        {"2TiB", 0, (uint64_t)2 << 40},
        {"1PB", -EINVAL, 0},
        {"1MM", -EINVAL, 0},
        {"1.5G", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
    };

    check_rows(parse_size, rows, ARRAY_LEN(rows));
}

TEST(milli)
{
    static const struct row rows[] = {
        {"0", 0, 0},
        {"1", 0, 1000},
        {"0.5", 0, 500},
        {"0.05", 0, 50},
        {"1.250", 0, 1250},
        {"2.001", 0, 2001},
        {"18446744073709551.615", 0, UINT64_MAX},
        {"18446744073709551.616", -ERANGE, 0},
        {"18446744073709552", -ERANGE, 0},
        {"1.2345", -EINVAL, 0},
        {"1.0000", -EINVAL, 0},
        {"1.", -EINVAL, 0},
        {".5", -EINVAL, 0},
        {"1.2.3", -EINVAL, 0},
        {"1,5", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"1s", -EINVAL, 0},
        {"", -EINVAL, 0},
        {"nan", -EINVAL, 0},
        {"inf", -EINVAL, 0},
    };

    check_rows(parse_milli, rows, ARRAY_LEN(rows));
}

TEST(duration)
{
    static const struct row rows[] = {
        {"0", 0, 0},
        {"30", 0, 30000},
        {"30s", 0, 30000},
        {"1.5", 0, 1500},
        {"0.001", 0, 1},
        {"500ms", 0, 500},
        {"5m", 0, 300000},
        {"0.5m", 0, 30000},
        {"1h", 0, 3600000},
        {"0.001h", 0, 3600},
        {"0.5ms", -EINVAL, 0}, /* no half milliseconds, and not 0 either */
        {"1.5ms", -EINVAL, 0},
        {"1.0ms", 0, 1},
        {"18446744073709551h", -ERANGE, 0},
        {"18446744073709551615", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"s", -EINVAL, 0},
        {"-1s", -EINVAL, 0},
        {"1 s", -EINVAL, 0},
        {"1S", -EINVAL, 0},
        {"1d", -EINVAL, 0},
        {"1h30m", -EINVAL, 0},
        {"1us", -EINVAL, 0},
    };

    check_rows(parse_duration_ms, rows, ARRAY_LEN(rows));
}

TEST(bool_words)
{
    static const char *const words[] = {"true", "1", "yes", "On", "false", "0", "NO", "off"};
    static const char *const bad[] = {"", "t", "2", "trueish", " on", "y"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        bool got = i >= ARRAY_LEN(words) / 2;

        CASE("%s", words[i]);
        CHECK_INT(parse_bool(words[i], &got), 0);
        CHECK_INT(got, i < ARRAY_LEN(words) / 2);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        bool got = true;

        CASE("%s", bad[i]);
        CHECK_INT(parse_bool(bad[i], &got), -EINVAL);
        CHECK(got);
    }
}
