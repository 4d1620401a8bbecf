/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's memory limit; see memory.h. Must not keep a descriptor open across exec. */
#include "supervisor/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "box/cgroup.h"

/* Only memory is limited. */
#define CPU_MOST 1024000
#define PIDS_MOST 32768

/* Files on a tmpfs are memory charged to the writer, and have a quota of their own. */
static uint64_t most_bytes(const struct config *c)
{
    struct statfs fs;
    bool is_memory = statfs(c->data, &fs) == 0 && fs.f_type == TMPFS_MAGIC;

    return MIN(c->daemon_memory_bytes + (is_memory ? c->data_quota_bytes : 0), LIMITS_MEMORY_MAX);
}

/* Ends when the daemon has ended; ignores signals, which are meant for other processes. */
static NORETURN void stand_by(int daemon, struct cgroup_host *host)
{
    struct pollfd end = {.fd = daemon, .events = POLLIN};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t all;

    prctl(PR_SET_NAME, "husk-guard", 0, 0, 0);
    setsid();
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int i = STDIN_FILENO; null >= 0 && i <= STDERR_FILENO; i++) {
        (void)dup2(null, i);
    }
    while (poll(&end, 1, -1) < 0 && errno == EINTR) {
    }
    cgroup_host_close(host);
    _exit(0);
}

static int start_guard(struct cgroup_host *host, struct err *e)
{
    AUTO_CLOSE int self = pidfd_open(getpid(), 0);

    if (self < 0) {
        return err_sys(e, errno, "cannot watch the daemon");
    }
    pid_t pid = fork();
    if (pid == 0) {
        stand_by(self, host);
    }
    return pid < 0 ? err_sys(e, errno, "cannot start a guard") : 0;
}

/* Joins only the hierarchy that limits memory, and the one by which a cgroup is emptied. */
static int join(const struct cgroup *cg, struct err *e)
{
    int fds[CGROUP_PROCS_MAX];
    size_t n = cgroup_memory_procs_fds(cg, fds);

    for (size_t i = 0; i < n; i++) {
        if (write(fds[i], "0", 1) != 1) {
            return err_sys(e, errno, "cannot join a cgroup");
        }
    }
    return 0;
}

static int limit(const struct config *c, struct cgroup_host *host, struct err *e)
{
    const struct cgroup_facts *facts = cgroup_host_facts(host);
    struct limits limits = {
        .memory_bytes = most_bytes(c), .cpu_milli = CPU_MOST, .pids = PIDS_MOST};
    struct cgroup *cg = NULL;

    if (!facts->memory) {
        return err_set(e, ERR_ISOLATION, "%s", facts->why_not);
    }
    limits_fill(&limits);
    /* From here on the guard removes the cgroup, and cg is freed by exec. */
    return cgroup_new(host, "huskd", &cg, e) < 0 || cgroup_set_limits(cg, &limits, e) < 0 ||
                   start_guard(host, e) < 0
               ? -1
               : join(cg, e);
}

void memory_limit_self(const struct config *c)
{
    struct cgroup_host *host = NULL;
    struct err e = {0};
    char instance[64];

    int r = cgroup_self_name(instance, sizeof(instance));
    if (r < 0) {
        (void)err_sys(&e, -r, "cannot name a cgroup");
    } else if (cgroup_host_open(instance, false, &host, &e) == 0 && limit(c, host, &e) == 0) {
        log_debug("daemon_memory", "bytes=%" PRIu64, most_bytes(c));
        return;
    }
    log_warn("daemon_memory", "huskd has no memory limit of its own: %s, ignoring", e.msg);
    cgroup_host_close(host);
}
