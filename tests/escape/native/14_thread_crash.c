/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crash in a thread other than the first, with the core limit asked up.
 *
 * technique: E17 56
 * held: the core limit cannot be raised, and the crash is reported with its signal
 * expect: status=crashed exit=139 stdout~HELD stdout!~ESCAPED
 * cause: signal
 * build: -pthread
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static void *crash(void *unused)
{
    volatile int *nowhere = NULL;

    (void)unused;
    *nowhere = 1;
    return NULL;
}

int main(void)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    pthread_t thread;

    if (setrlimit(RLIMIT_CORE, &limit) == 0)
        puts("ESCAPED: the core limit was raised");
    getrlimit(RLIMIT_CORE, &limit);
    puts(limit.rlim_max == 1 ? "HELD" : "ESCAPED: the core limit is not 1");
    fflush(stdout);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (pthread_create(&thread, NULL, crash, NULL) == 0)
        pthread_join(thread, NULL);
    return 0;
}
