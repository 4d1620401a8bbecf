/* SPDX-License-Identifier: Apache-2.0 */
/* Starts launcher and daemon; see child.h. */
#include "supervisor/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/signals.h"
#include "base/str.h"
#include "box/sys.h"
#include "supervisor/memory.h"
#include "wire/launcher_msg.h"

#define PROGRAM_FD (SUPERVISOR_PLAN_FD + 1)

/* ---- account and environment ---- */

static bool is_for_daemon(const char *variable)
{
    static const char *const names[] = {"PATH", "HOME", "LANG", "TZ", "TMPDIR"};
    static const char *const families[] = {"HUSK_", "LC_", "XDG_", "ASAN_", "LSAN_", "UBSAN_"};
    char name[64];

    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (str_starts(variable, families[i])) {
            return true;
        }
    }
    size_t len = strcspn(variable, "=");
    if (len >= sizeof(name)) {
        return false;
    }
    memcpy(name, variable, len);
    name[len] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_eq(name, names[i])) {
            return true;
        }
    }
    return false;
}

/*
 * The part of our environment that launcher and daemon get: paths, locale, and variables of husk.
 * Secrets of the user who started us stay here. They find husk's own files by descriptor. Borrowed
 * strings in an owned list; NULL without memory.
 */
static char **daemon_environment(void)
{
    static char lib[] = "HUSK_LIB_DIR=" SUPERVISOR_LIB;
    size_t n = 0;

    while (environ[n] != NULL) {
        n++;
    }
    char **kept = calloc(n + 2, sizeof(*kept));
    size_t n_kept = 0;
    for (size_t i = 0; kept != NULL && i < n; i++) {
        if (is_for_daemon(environ[i]) && !str_starts(environ[i], "HUSK_LIB_DIR=")) {
            kept[n_kept++] = environ[i];
        }
    }
    if (kept != NULL) {
        kept[n_kept] = lib;
    }
    return kept;
}

/* ---- starting ---- */

static int pair(int *ours, int *theirs, struct err *e)
{
    int p[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) < 0) {
        return err_sys(e, errno, "socketpair");
    }
    *ours = p[0];
    *theirs = p[1];
    return 0;
}

/* In the child: the parent cannot know why. */
static NORETURN void give_up(const char *program)
{
    dprintf(STDERR_FILENO, "husk: cannot start %s: %s\n", program, strerror(errno));
    _exit(127);
}

/* In the child: stdin is empty, and the supervisor reads stdout and stderr. */
static int redirect(int output)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    return null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
                   dup2(output, STDERR_FILENO) < 0
               ? -1
               : 0;
}

/* Closes all descriptors from 3 on but a and b, so that a low limit leaves room for new ones. */
static void close_others(int a, int b)
{
    unsigned low = (unsigned)MIN(a, b);
    unsigned high = (unsigned)MAX(a, b);

    if (low > STDERR_FILENO + 1) {
        (void)close_range(STDERR_FILENO + 1, low - 1, 0);
    }
    if (high > low + 1) {
        (void)close_range(low + 1, high - 1, 0);
    }
    (void)close_range(high + 1, ~0U, 0);
}

/*
 * In the child: keeps the socket, for a daemon husk's files and the plan, the program until exec,
 * and no other descriptor. They are opened before the change of account, which may not be allowed
 * to enter root's home.
 */
static int keep_descriptors(const struct child_kit *kit, int socket, bool is_daemon,
                            const char *path)
{
    close_others(socket, kit->plan);
    int lib = open(kit->o->lib, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int program = open(path, O_PATH | O_CLOEXEC);
    int kept[] = {socket, lib, kit->plan, program};
    static const int numbers[] = {SUPERVISOR_FD, SUPERVISOR_LIB_FD, SUPERVISOR_PLAN_FD, PROGRAM_FD};

    for (size_t i = 0; i < ARRAY_LEN(kept); i++) { /* above the numbers that they get below */
        kept[i] = kept[i] < 0 ? -1 : fcntl(kept[i], F_DUPFD_CLOEXEC, PROGRAM_FD + 1);
        if (kept[i] < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        bool stays = numbers[i] == SUPERVISOR_FD || (is_daemon && numbers[i] != PROGRAM_FD);
        if (dup3(kept[i], numbers[i], stays ? 0 : O_CLOEXEC) < 0) {
            return -1;
        }
    }
    return close_range(PROGRAM_FD + 1, ~0U, 0);
}

/*
 * In the child: takes the daemon's account, and drops every capability that a later exec could
 * bring back. The bounding set is dropped while we are root; the inheritable set survives the
 * change of ids.
 */
static int become_account(const struct account *account)
{
    int r = sys_caps_bound(0);

    if (r == 0 &&
        (setgroups(0, NULL) < 0 || setgid(account->gid) < 0 || setuid(account->uid) < 0)) {
        r = -errno;
    }
    r = r == 0 ? sys_caps_keep(0) : r;
    errno = -r;
    return r < 0 ? -1 : 0;
}

/*
 * In the child: unblocks signals, and ends when the supervisor ends. If the supervisor died before
 * prctl(), getppid() is not its pid; comparing with 1 is not enough, since the supervisor can be
 * pid 1 of a container.
 */
static NORETURN void become(const struct child_kit *kit, pid_t parent, int socket, bool is_daemon,
                            char *const *argv)
{
    const struct account *account = &kit->account;
    int output = outputs_end_of(&kit->outputs, is_daemon ? OUTPUT_DAEMON : OUTPUT_LAUNCHER);

    if (redirect(output) < 0 || keep_descriptors(kit, socket, is_daemon, argv[0]) < 0) {
        give_up(argv[0]);
    }
    if (is_daemon) {
        memory_limit_self(kit->o->config);
    }
    if (is_daemon && account->switch_to && become_account(account) < 0) {
        give_up(argv[0]);
    }
    prctl(PR_SET_PDEATHSIG, is_daemon ? SIGTERM : 0, 0, 0, 0); /* setuid() cleared it */
    if (getppid() != parent) {
        _exit(127);
    }
    setsid(); /* Ctrl-C of a terminal reaches only the supervisor, which ends them in order */
    signals_reset();
    char **environment = daemon_environment();
    if (environment != NULL) {
        execve(argv[0], argv, environment);
        execveat(PROGRAM_FD, "", argv, environment, AT_EMPTY_PATH);
    }
    give_up(argv[0]);
}

static int start(const struct child_kit *kit, bool is_daemon, char *const *argv, struct child *ret,
                 struct err *e)
{
    AUTO_CLOSE int ours = -1;
    AUTO_CLOSE int theirs = -1;
    pid_t self = getpid();

    if (pair(&ours, &theirs, e) < 0) {
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(kit, self, theirs, is_daemon, argv);
    }
    if (pid < 0) {
        return err_sys(e, errno, "cannot start %s", is_daemon ? "huskd" : "the launcher");
    }
    *ret = (struct child){.pid = pid, .socket = take_fd(&ours)};
    return 0;
}

int child_start_launcher(const struct child_kit *kit, struct child *ret, struct err *e)
{
    char *argv[] = {drop_const(kit->o->launcher), "--supervised", NULL};

    return start(kit, false, argv, ret, e);
}

/* A new connection to the launcher for a new daemon. */
static int connect_launcher(const struct child_kit *kit, const struct child *launcher, int *ret,
                            struct err *e)
{
    struct launcher_newcomer newcomer = {.uid = kit->account.uid};
    int theirs = -1;

    if (pair(ret, &theirs, e) < 0) {
        return -1;
    }
    ssize_t n = fd_send(launcher->socket, &newcomer, sizeof(newcomer), &theirs, 1,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    fd_close(&theirs);
    if (n != (ssize_t)sizeof(newcomer)) {
        fd_close(ret);
        return err_set(e, ERR_LAUNCHER, "husk-launcher %s",
                       n == -EAGAIN ? "does not read its socket" : "is gone");
    }
    return 0;
}

static int send_start(const struct child_kit *kit, int daemon, int launcher, struct err *e)
{
    const struct listeners *l = &kit->listeners;
    int fds[1 + SUPERVISOR_LISTENERS_MAX] = {launcher};

    memcpy(fds + 1, l->fds, l->n * sizeof(int));
    int r = settings_give(kit->settings, daemon, fds, l->n + 1);
    return r < 0 ? err_sys(e, -r, "cannot start huskd") : 0;
}

int child_start_daemon(const struct child_kit *kit, const struct child *launcher,
                       struct child *daemon, struct err *e)
{
    AUTO_CLOSE int to_launcher = -1;
    char *argv[] = {drop_const(kit->o->daemon), NULL};

    if (start(kit, true, argv, daemon, e) < 0) {
        return -1;
    }
    if (connect_launcher(kit, launcher, &to_launcher, e) < 0 ||
        send_start(kit, daemon->socket, to_launcher, e) < 0) {
        fd_close(&daemon->socket);
        return -1;
    }
    return 0;
}
