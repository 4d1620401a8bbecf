/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test harness of all C tests: one process per test, TAP on stdout.
 *
 * A file with tests has no main(): it includes this header and writes TEST(name) { ... } blocks.
 * Each test is forked, because tests here enter namespaces, load filters and set limits, which
 * cannot be undone. A test fails when a check fails (in a process it forked as well), when it
 * crashes, exits by itself, exceeds its time limit, leaks a descriptor or closes one it did not
 * open. Whatever processes it leaves behind are killed.
 *
 *     program              runs all tests
 *     program name...      runs the named ones
 *     T_MUST_WORK=1        a skip is a failure, unless tests/expected-skips lists "suite/name"
 *
 * The first failing check ends the test. Checks evaluate their arguments once.
 */
#pragma once

#include <string.h>

#define TAP_TIMEOUT_SECONDS 30

/* The build sets this to the folder of the test: unit, corpus, box. */
#ifndef TAP_SUITE
#    define TAP_SUITE "unit"
#endif

struct tap_test {
    const char *suite;
    const char *name;
    void (*run)(void);
    int timeout_seconds;
    struct tap_test *next; /* in the order of the file */
};

#define TEST(name) TEST_TIMEOUT(name, TAP_TIMEOUT_SECONDS)

#define TEST_TIMEOUT(name, seconds)                                                                \
    static void test_##name(void);                                                                 \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        static struct tap_test self = {TAP_SUITE, #name, test_##name, (seconds), NULL};            \
        tap_register(&self);                                                                       \
    }                                                                                              \
    static void test_##name(void)

/* Says which row of a table is being checked; shown when a check fails. */
#define CASE(...) tap_case(__VA_ARGS__)

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            tap_fail(__FILE__, __LINE__, "%s", #cond);                                             \
        }                                                                                          \
    } while (0)

#define CHECK_INT(got, want)                                                                       \
    tap_check_int(__FILE__, __LINE__, #got, (long long)(got), (long long)(want))

/* Either may be NULL; NULL equals only NULL. */
#define CHECK_STR(got, want) tap_check_str(__FILE__, __LINE__, #got, (got), (want))

/* Waits until the condition is true. The test fails if it is not after TAP_PATIENCE_MS. */
#define TAP_PATIENCE_MS 20000
#define AWAIT(cond)                                                                                \
    do {                                                                                           \
        long long until_ = tap_now_ms() + TAP_PATIENCE_MS;                                         \
        while (!(cond)) {                                                                          \
            tap_pause(__FILE__, __LINE__, #cond, until_);                                          \
        }                                                                                          \
    } while (0)

/* Ends the test without a verdict: what it needs is not on this machine. */
#define SKIP(...) tap_skip(__VA_ARGS__)

void tap_register(struct tap_test *t);
long long tap_now_ms(void);
void tap_pause(const char *file, int line, const char *what, long long until_ms);
void tap_case(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void tap_check_int(const char *file, int line, const char *what, long long got, long long want);
void tap_check_str(const char *file, int line, const char *what, const char *got, const char *want);
__attribute__((noreturn, format(printf, 3, 4))) void tap_fail(const char *file, int line,
                                                              const char *fmt, ...);
__attribute__((noreturn, format(printf, 1, 2))) void tap_skip(const char *fmt, ...);
