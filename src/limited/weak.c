/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits for a user who cannot create cgroups; see limited_impl.h.
 *
 * They are weak: the address space is limited per process, not in total, and the program is pinned
 * to whole processors that other programs can use, too. The number of processes is not limited,
 * since the kernel would count all processes of the user.
 */
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#include "base/rand.h"
#include "limited/limited_impl.h"

static int limit_memory(uint64_t bytes)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_AS, &l) < 0) {
        return -errno;
    }
    l.rlim_max = MIN(l.rlim_max, (rlim_t)bytes);
    l.rlim_cur = l.rlim_max;
    return setrlimit(RLIMIT_AS, &l) < 0 ? -errno : 0;
}

/*
 * Chooses n of our processors, starting at a random one, so that several programs are spread over
 * the machine.
 */
static int limit_cpus(uint32_t milli)
{
    uint32_t wanted = (milli + 999) / 1000;
    uint32_t start;
    cpu_set_t all;
    cpu_set_t some;

    if (sched_getaffinity(0, sizeof(all), &all) < 0) {
        return -errno;
    }
    if ((uint32_t)CPU_COUNT(&all) <= wanted) {
        return 0;
    }
    rand_bytes(&start, sizeof(start));
    CPU_ZERO(&some);
    for (uint32_t i = 0; wanted > 0 && i < CPU_SETSIZE; i++) {
        uint32_t cpu = (start + i) % CPU_SETSIZE;
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &some);
            wanted--;
        }
    }
    return sched_setaffinity(0, sizeof(some), &some) < 0 ? -errno : 0;
}

int weak_limit(const struct limited_options *o)
{
    int r = o->cpu_milli != 0 ? limit_cpus(o->cpu_milli) : 0;

    return r == 0 && o->memory_bytes != 0 ? limit_memory(o->memory_bytes) : r;
}
