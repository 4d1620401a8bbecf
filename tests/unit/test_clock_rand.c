/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/clock.h and base/rand.h. */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/rand.h"
#include "tap.h"

TEST(clock_moves_forward_in_its_units)
{
    const struct timespec ten_ms = {.tv_nsec = 10000000};
    uint64_t ns = clock_ns();
    uint64_t ms = clock_ms();

    CHECK(ms >= ns / 1000000 && ms <= ns / 1000000 + 10000);
    nanosleep(&ten_ms, NULL);
    CHECK(clock_ns() - ns >= 10000000);
    CHECK(clock_ms() - ms >= 9);
    CHECK(clock_ns() - ns < UINT64_C(20) * 1000000000);
}

TEST(random_bytes_differ_and_fill_exactly)
{
    uint8_t a[64] = {0};
    uint8_t b[64] = {0};

    rand_bytes(a, 32);
    rand_bytes(b, 32);
    CHECK(memcmp(a, b, 32) != 0);
    for (size_t i = 32; i < sizeof(a); i++) {
        CHECK_INT(a[i], 0);
    }
    rand_bytes(a, 0);
}

static void on_alarm(int sig)
{
    (void)sig;
}

/* A signal makes getrandom() return early with a part of what was asked. */
TEST(random_bytes_are_complete_despite_signals)
{
    static uint8_t large[16 << 20];
    struct sigaction sa = {.sa_handler = on_alarm};
    const struct itimerval every_ms = {{.tv_usec = 1000}, {.tv_usec = 1000}};
    const struct itimerval never = {{0}, {0}};
    size_t zeros = 0;

    CHECK_INT(sigaction(SIGALRM, &sa, NULL), 0);
    CHECK_INT(setitimer(ITIMER_REAL, &every_ms, NULL), 0);
    rand_bytes(large, sizeof(large));
    CHECK_INT(setitimer(ITIMER_REAL, &never, NULL), 0);
    for (size_t i = sizeof(large) - 256; i < sizeof(large); i++) {
        zeros += large[i] == 0 ? 1 : 0;
    }
    CHECK(zeros < 32);
}

TEST(hex_is_lower_case_and_terminated)
{
    static const size_t sizes[] = {1, 2, 17, 33};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char text[40];

        CASE("size %zu", sizes[i]);
        memset(text, '#', sizeof(text));
        rand_hex(text, sizes[i]);
        CHECK_INT(strlen(text), sizes[i] - 1);
        CHECK_INT(strspn(text, "0123456789abcdef"), sizes[i] - 1);
        CHECK_INT(text[sizes[i]], '#');
    }
    char untouched = '#';
    rand_hex(&untouched, 0);
    CHECK_INT(untouched, '#');
}

TEST(hex_uses_every_digit)
{
    char text[1001];
    size_t seen[16] = {0};

    rand_hex(text, sizeof(text));
    for (size_t i = 0; text[i] != '\0'; i++) {
        seen[text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10]++;
    }
    for (size_t d = 0; d < ARRAY_LEN(seen); d++) {
        CASE("digit %zx", d);
        CHECK(seen[d] > 10 && seen[d] < 200); /* 62 expected; outside is one run in 10^12 */
    }
}
