/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/limits.h: the defaults hold, and each field is checked at both of its ends. */
#include "base/limits.h"

#include <string.h>

#include "base/units.h"
#include "tap.h"

/* Large memory, so that disk can be tested at its own ends. */
static struct limits roomy(void)
{
    struct limits l = limits_default();

    l.memory_bytes = 1024 * GIB;
    return l;
}

static void check_bad(const struct limits *l, const char *field)
{
    struct err e = {0};

    CHECK_INT(limits_check(l, &e), -1);
    CHECK_INT(e.code, ERR_INVALID);
    CHECK(strncmp(e.msg, field, strlen(field)) == 0);
}

static void check_good(const struct limits *l)
{
    struct err e = {.code = ERR_LIMIT, .msg = "untouched"};

    CHECK_INT(limits_check(l, &e), 0);
    CHECK_INT(e.code, ERR_LIMIT);
    CHECK_STR(e.msg, "untouched");
}

TEST(defaults_are_as_documented_and_valid)
{
    struct limits l = limits_default();

    CHECK_INT(l.memory_bytes, GIB);
    CHECK_INT(l.cpu_milli, 1000);
    CHECK_INT(l.pids, 128);
    CHECK_INT(l.timeout_ms, 30000);
    CHECK_INT(l.disk_bytes, 256 * MIB);
    check_good(&l);
}

TEST(zero_is_not_unlimited)
{
    struct limits l = {0};

    check_bad(&l, "memory");
}

#define CHECK_ENDS(field, name, min, max)                                                          \
    do {                                                                                           \
        struct limits l_ = roomy();                                                                \
        CASE("%s", name);                                                                          \
        l_.field = (min);                                                                          \
        check_good(&l_);                                                                           \
        l_.field = (min)-1;                                                                        \
        check_bad(&l_, name);                                                                      \
        l_.field = (max) + 1;                                                                      \
        check_bad(&l_, name);                                                                      \
    } while (0)

TEST(each_field_has_two_ends)
{
    CHECK_ENDS(disk_bytes, "disk", MIB / 4, 1024 * GIB);
    CHECK_ENDS(timeout_ms, "timeout", 1, (uint64_t)7 * 24 * 3600 * 1000);
    CHECK_ENDS(output_bytes, "output", 1024, 64 * GIB);
    CHECK_ENDS(cpu_milli, "cpus", 10, 1024 * 1000);
    CHECK_ENDS(pids, "pids", 1, 32768);
    CHECK_ENDS(inodes, "inodes", 16, 100000000);
    CHECK_ENDS(open_files, "open files", 16, 1048576);
}

TEST(memory_has_two_ends)
{
    struct limits l = limits_default();

    l.disk_bytes = MIB;
    l.inodes = 16;
    l.memory_bytes = 16 * MIB;
    check_good(&l);
    l.memory_bytes--;
    check_bad(&l, "memory");
    l.memory_bytes = 1024 * GIB;
    check_good(&l);
    l.memory_bytes++;
    check_bad(&l, "memory");
    l.memory_bytes = UINT64_MAX;
    check_bad(&l, "memory");
}

TEST(memory_of_a_process_is_at_most_that_of_the_box)
{
    struct limits l = limits_default();

    l.process_bytes = 16 * MIB;
    check_good(&l);
    l.process_bytes--;
    check_bad(&l, "memory of a process");
    l.process_bytes = l.memory_bytes;
    check_good(&l);
    l.process_bytes++;
    check_bad(&l, "memory of a process");
}

TEST(upper_ends_are_allowed)
{
    struct limits l = roomy();

    l.timeout_ms = (uint64_t)7 * 24 * 3600 * 1000;
    l.output_bytes = 64 * GIB;
    l.cpu_milli = 1024 * 1000;
    l.pids = 32768;
    l.inodes = 100000000;
    l.open_files = 1048576;
    l.disk_bytes = limits_disk_max(l.memory_bytes);
    check_good(&l);
}

TEST(disk_must_fit_below_memory)
{
    struct limits l = limits_default();

    CHECK_INT(limits_disk_max(GIB), 768 * MIB);
    CHECK_INT(limits_disk_max(0), 0);
    CHECK(limits_disk_max(UINT64_MAX) < UINT64_MAX);

    l.disk_bytes = limits_disk_max(l.memory_bytes);
    check_good(&l);
    l.disk_bytes++;
    check_bad(&l, "disk (768 MiB) is kept in memory");
}

TEST(files_must_fit_into_memory_too)
{
    struct limits l = limits_default();

    l.inodes = limits_inodes_max(l.memory_bytes);
    check_good(&l);
    l.inodes++;
    check_bad(&l, "inodes");
    CHECK_INT(limits_inodes_max(64 * MIB), 16384);
}

TEST(what_is_not_given_is_filled_in_to_fit)
{
    static const uint64_t memories[] = {16 * MIB, 64 * MIB, GIB, 16 * GIB};

    for (size_t i = 0; i < ARRAY_LEN(memories); i++) {
        struct limits l = {.memory_bytes = memories[i], .pids = 7};
        limits_fill(&l);
        check_good(&l);
        CHECK_INT(l.memory_bytes, memories[i]);
        CHECK_INT(l.pids, 7);
        CHECK_INT(l.timeout_ms, limits_default().timeout_ms);
    }
}
