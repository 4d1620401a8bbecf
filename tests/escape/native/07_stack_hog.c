/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stack instead of heap: the limit on stack size is lifted as far as it goes, then the stack grows.
 *
 * technique: R2
 * held: the run ends as memory_exceeded or as a crash at the stack limit, its peak at the limit
 * expect: status=memory_exceeded|crashed exit=137|139 peak_mb<=65
 * limits: --memory 64M --timeout 8
 */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static volatile int depth;

static int grow(char *above)
{
    char frame[65536];

    if (depth < 0)
        return 0;
    memset(frame, above[0] + 1, sizeof(frame));
    depth++;
    return grow(frame) + frame[depth % 64];
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    char start[1] = {0};

    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_STACK, &limit);
    if (argc == 1) /* the new limit counts from the next exec on */
        return execl("/proc/self/exe", argv[0], "again", NULL);
    return grow(start);
}
