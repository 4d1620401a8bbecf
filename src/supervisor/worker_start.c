/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the plan of agents and starts a worker for one of them; see workers.h.
 *
 * The worker runs as our own user, with that user's environment, rights and code. So it keeps our
 * stdout and stderr, unless they are the log file, whose size the supervisor limits. Its other
 * descriptors are WORKER_SOCKET and WORKER_REPORT.
 */
#include "supervisor/worker_start.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/signals.h"
#include "base/str.h"

#define WORKER_SOCKET 3
#define WORKER_REPORT 4
#define CPU_LEAST 10 /* thousandths; the kernel's minimum */
#define ARGS_MAX 24

/* ---- the plan ---- */

/* A user who can write the file or its folder decides what runs as us: only we and root may. */
static int check_writers(int fd, mode_t type, const char *path, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        return err_sys(e, errno, "cannot read the plan of agents %s", path);
    }
    if ((st.st_mode & S_IFMT) != type || (st.st_uid != geteuid() && st.st_uid != 0) ||
        (st.st_mode & (S_IWGRP | S_IWOTH)) != 0 || (type == S_IFREG && st.st_nlink != 1)) {
        return err_set(
            e, ERR_INVALID,
            "the plan of agents %s must be a file that only you or root can write, under "
            "one name, in a folder that only you or root can write",
            path);
    }
    return 0;
}

static int open_plan(const char *path, struct err *e)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/'); /* config made the path absolute */

    if (slash == NULL ||
        str_format(parent, sizeof(parent), "%.*s/", (int)(slash - path), path) < 0) {
        return err_set(e, ERR_INVALID, "the plan of agents %s needs an absolute path", path);
    }
    AUTO_CLOSE int folder = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return err_sys(e, errno, "cannot read the plan of agents %s", path);
    }
    if (check_writers(folder, S_IFDIR, path, e) < 0) {
        return -1;
    }
    AUTO_CLOSE int fd = openat(folder, slash + 1, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return err_sys(e, errno, "cannot read the plan of agents %s", path);
    }
    return check_writers(fd, S_IFREG, path, e) < 0 ? -1 : take_fd(&fd);
}

static int read_plan(const char *path, struct agents_plan *ret, struct err *e)
{
    AUTO_CLOSE int fd = open_plan(path, e);
    AUTO_FREE char *text = malloc(AGENTS_PLAN_FILE_MAX + 1);

    if (fd < 0) {
        return -1;
    }
    if (text == NULL) {
        return err_sys(e, ENOMEM, "cannot read the plan of agents %s", path);
    }
    ssize_t n = fd_read_all(fd, text, AGENTS_PLAN_FILE_MAX + 1);
    if (n < 0) {
        return err_sys(e, (int)-n, "cannot read the plan of agents %s", path);
    }
    if ((size_t)n > AGENTS_PLAN_FILE_MAX) {
        return err_set(e, ERR_INVALID, "the plan of agents %s is too large", path);
    }
    return agents_plan_parse(text, (size_t)n, path, ret, e);
}

int worker_kit_open(const struct config *c, const char *daemon, int given, struct worker_kit *ret,
                    struct err *e)
{
    const char *slash = strrchr(daemon, '/');
    int folder = slash != NULL ? (int)(slash - daemon) + 1 : 0;
    bool has_file = given < 0 && c->agents_plan[0] != '\0';

    *ret = (struct worker_kit){.socket = c->socket, .sealed = -1, .output = -1};
    if (str_format(ret->husk, sizeof(ret->husk), "%.*shusk", folder, daemon) < 0) {
        return err_set(e, ERR_INVALID, "the path of husk is too long");
    }
    if ((given >= 0 && agents_plan_read_sealed(given, &ret->plan, e) < 0) ||
        (has_file && read_plan(c->agents_plan, &ret->plan, e) < 0)) {
        return -1;
    }
    ret->sealed = agents_plan_seal(given >= 0 || has_file ? &ret->plan : NULL, e);
    return ret->sealed < 0 ? -1 : 0;
}

void worker_kit_release(struct worker_kit *kit)
{
    agents_plan_release(&kit->plan);
    fd_close(&kit->sealed);
}

/* ---- in the child ---- */

/* A path list with one more folder in front. */
static int prepend(const char *variable, const char *folder)
{
    const char *old = getenv(variable);
    char *text = NULL;

    if (folder[0] == '\0') {
        return 0;
    }
    if (old == NULL || old[0] == '\0') {
        return setenv(variable, folder, 1);
    }
    if (asprintf(&text, "%s:%s", folder, old) < 0) {
        return -1;
    }
    int r = setenv(variable, text, 1);
    free(text);
    return r;
}

static int set_environment(const struct worker_kit *kit, const struct agent_plan *agent)
{
    return prepend("PYTHONPATH", kit->plan.sdk) < 0 ||
                   setenv("HUSK_AGENT_WORKER", agent->name, 1) < 0 ||
                   setenv("HUSK_SOCKET", kit->socket, 1) < 0 || unsetenv("HUSK_URL") < 0 ||
                   setenv("PYTHONUNBUFFERED", "1", 0) < 0 /* what it prints is a log */
               ? -1
               : 0;
}

static int set_descriptors(const struct worker_kit *kit, int socket, int report)
{
    if (kit->output >= 0 &&
        (dup2(kit->output, STDOUT_FILENO) < 0 || dup2(kit->output, STDERR_FILENO) < 0)) {
        return -1;
    }
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* Moved to high numbers first: either may have the number that the other one gets. */
    int high_socket = fcntl(socket, F_DUPFD_CLOEXEC, WORKER_REPORT + 1);
    int high_report = fcntl(report, F_DUPFD_CLOEXEC, WORKER_REPORT + 1);

    return null < 0 || high_socket < 0 || high_report < 0 || dup2(null, STDIN_FILENO) < 0 ||
                   dup2(high_socket, WORKER_SOCKET) < 0 || dup2(high_report, WORKER_REPORT) < 0 ||
                   close_range(WORKER_REPORT + 1, ~0U, 0) < 0
               ? -1
               : 0;
}

/* A cgroup's name has fewer letters than an agent's. */
static void label(const struct agent_plan *agent, char ret[AGENT_NAME_MAX])
{
    (void)str_format(ret, AGENT_NAME_MAX, "agent-%.*s", AGENT_NAME_MAX - 7, agent->name);
    for (char *p = ret; *p != '\0'; p++) {
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    }
}

static NORETURN void become(const struct worker_kit *kit, const struct agent_plan *agent,
                            pid_t parent, const int fds[2])
{
    char *argv[ARGS_MAX];
    char name[AGENT_NAME_MAX];
    char cpus[32];
    char memory[32];
    size_t n = 0;
    uint32_t milli = MAX(agent->cpu_milli, CPU_LEAST);

    label(agent, name);
    (void)str_format(cpus, sizeof(cpus), "%" PRIu32 ".%03" PRIu32, milli / 1000, milli % 1000);
    (void)str_format(memory, sizeof(memory), "%" PRIu64, agent->memory_bytes);
    char *const head[] = {
        drop_const(kit->husk), "limited", "--name", name, "--cpus", cpus, "--memory", memory,
        "--report-fd",         "4"};
    char *const tail[] = {"--",     kit->plan.python, "-m",     "husk.agents.worker",
                          "--file", agent->file,      "--name", drop_const(agent->name)};
    memcpy(argv, head, sizeof(head));
    n = ARRAY_LEN(head);
    if (geteuid() != 0) {
        argv[n++] = "--best-effort";
    }
    memcpy(argv + n, tail, sizeof(tail));
    n += ARRAY_LEN(tail);
    if (agent->main) {
        argv[n++] = "--main";
    }
    argv[n] = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    setsid(); /* a terminal's Ctrl-C is for the supervisor, which tells the workers in time */
    if (getppid() == parent && set_descriptors(kit, fds[0], fds[1]) == 0 &&
        set_environment(kit, agent) == 0 && chdir(kit->plan.folder) == 0) {
        signals_reset();
        execv(kit->husk, argv);
    }
    static const char message[] =
        "husk: cannot start a worker: does the project's folder still exist?\n";
    (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
    _exit(127);
}

int worker_start(const struct worker_kit *kit, const struct agent_plan *agent,
                 struct worker_process *ret)
{
    AUTO_CLOSE int ours = -1;
    AUTO_CLOSE int theirs = -1;
    AUTO_CLOSE int report = -1;
    AUTO_CLOSE int reporter = -1;
    pid_t self = getpid();
    int p[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0) {
        return -errno;
    }
    ours = p[0];
    theirs = p[1];
    if (pipe2(p, O_CLOEXEC) < 0) {
        return -errno;
    }
    report = p[0];
    reporter = p[1];
    int r = fd_set_nonblock(report, true);
    if (r < 0) {
        return r;
    }
    pid_t pid = fork();
    if (pid < 0) {
        return -errno;
    }
    if (pid == 0) {
        become(kit, agent, self, (const int[]){theirs, reporter});
    }
    *ret =
        (struct worker_process){.pid = pid, .socket = take_fd(&ours), .report = take_fd(&report)};
    return 0;
}
