/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test harness; see tap.h.
 *
 * How it works: the parent forks a child per test into a process group of its own and waits on a
 * pidfd with the test's time limit. The child runs the test, compares its open descriptors with
 * those of before, and leaves by exit(), so that LeakSanitizer can report. What the parent must
 * know beyond the exit status (was it a skip, did a check fail in a grandchild) is in a page that
 * both share, which also survives a test that changes its root or loses its descriptors.
 *
 * Must not depend on src/: it tests it.
 */
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FD_SCAN 4096 /* descriptors are handed out from the lowest: a leak cannot hide above this */

enum outcome {
    RUNNING,  /* still so when the child has ended: it did not get to the end of the test */
    FINISHED, /* the test returned and left no descriptor */
    SKIPPED,
    FAILED,
};

struct shared {
    volatile enum outcome outcome;
    char skip_reason[240];
    char current_case[200]; /* here and not in the child: a crash should name its case too */
};

static struct tap_test *first_test;
static struct tap_test **last_link = &first_test;
static struct shared *shared;

void tap_register(struct tap_test *t)
{
    *last_link = t;
    last_link = &t->next;
}

void tap_case(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(shared->current_case, sizeof(shared->current_case), fmt, ap);
    va_end(ap);
}

/* On stderr, which is not part of the TAP stream. Line 0: the name of a test instead of a place. */
void tap_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    char text[1200];

    shared->outcome = FAILED;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (line > 0) {
        fprintf(stderr, "# %s:%d: failed: %s\n", file, line, text);
    } else {
        fprintf(stderr, "# %s: %s\n", file, text);
    }
    _exit(1);
}

void tap_check_int(const char *file, int line, const char *what, long long got, long long want)
{
    if (got != want) {
        tap_fail(file, line, "%s is %lld, not %lld", what, got, want);
    }
}

void tap_check_str(const char *file, int line, const char *what, const char *got, const char *want)
{
    if (got == NULL && want == NULL) {
        return;
    }
    if (got == NULL || want == NULL || strcmp(got, want) != 0) {
        tap_fail(file, line, "%s is \"%s\", not \"%s\"", what, got != NULL ? got : "(NULL)",
                 want != NULL ? want : "(NULL)");
    }
}

long long tap_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void tap_pause(const char *file, int line, const char *what, long long until_ms)
{
    const struct timespec ms = {.tv_nsec = 1000000};

    if (tap_now_ms() > until_ms) {
        tap_fail(file, line, "%s: not after %d ms", what, TAP_PATIENCE_MS);
    }
    nanosleep(&ms, NULL);
}

void tap_skip(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(shared->skip_reason, sizeof(shared->skip_reason), fmt, ap);
    va_end(ap);
    for (char *c = shared->skip_reason; *c != '\0'; c++) {
        if (*c == '\n') {
            *c = ' '; /* the reason is the rest of a TAP line */
        }
    }
    shared->outcome = SKIPPED;
    _exit(0);
}

/* fcntl() and not /proc: a test may have changed its root. */
static void scan_fds(bool open_fds[FD_SCAN])
{
    for (int fd = 0; fd < FD_SCAN; fd++) {
        open_fds[fd] = fcntl(fd, F_GETFD) >= 0;
    }
}

static void check_fds(const bool before[FD_SCAN], const char *name)
{
    static bool after[FD_SCAN];

    scan_fds(after);
    shared->current_case[0] = '\0'; /* it ended well; this is about the test as a whole */
    for (int fd = 0; fd < FD_SCAN; fd++) {
        if (after[fd] && !before[fd]) {
            tap_fail(name, 0, "descriptor %d leaked", fd);
        }
        if (before[fd] && !after[fd]) {
            tap_fail(name, 0, "descriptor %d was closed, but is not the test's", fd);
        }
    }
}

/* stdin is empty and stdout goes to stderr: only the parent writes TAP. */
static void child_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        tap_fail(__FILE__, __LINE__, "cannot set up streams: %s", strerror(errno));
    }
    if (null > STDERR_FILENO) {
        close(null);
    }
}

/* nohup, shells that run a job in the background and other callers leave signals ignored. */
static void child_signals(void)
{
    for (int number = 1; number < NSIG; number++) {
        sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    }
}

static __attribute__((noreturn)) void child_run(const struct tap_test *t, pid_t parent)
{
    static bool before[FD_SCAN];
    struct rlimit no_core;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1); /* the parent died before the line above */
    }
    getrlimit(RLIMIT_CORE, &no_core);
    no_core.rlim_cur = 0; /* not the hard limit: boxes inherit that, and may need theirs */
    setrlimit(RLIMIT_CORE, &no_core);
    child_streams();
    child_signals();

    pid_t self = getpid();
    scan_fds(before);
    t->run();
    if (getpid() != self) {
        tap_fail(t->name, 0, "a forked process returned from the test instead of ending");
    }
    check_fds(before, t->name);
    if (shared->outcome == RUNNING) {
        shared->outcome = FINISHED;
    }
    exit(0);
}

/* A child of this process, or 0. As a subreaper it inherits what the test's processes left. */
static pid_t any_child(void)
{
    char line[32] = ""; /* the first of the pids is enough */
    FILE *f = fopen("/proc/thread-self/children", "re");

    if (f == NULL) {
        return 0;
    }
    if (fgets(line, sizeof(line), f) == NULL) {
        line[0] = '\0';
    }
    fclose(f);
    return (pid_t)strtol(line, NULL, 10);
}

/* Waits for the test's process. False when the time was up; it is dead in either case. */
static bool wait_child(pid_t pid, int timeout_seconds, int *ret_status)
{
    int pidfd = pidfd_open(pid, 0);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int ready = 0;

    if (pidfd < 0) {
        fprintf(stderr, "# pidfd_open: %s\n", strerror(errno));
    } else {
        ready = poll(&p, 1, timeout_seconds * 1000);
        close(pidfd);
    }
    kill(-pid, SIGKILL); /* the whole group; when the test has ended, what it left behind */
    kill(pid, SIGKILL);
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR) {
    }

    for (pid_t left = any_child(); left > 0; left = any_child()) {
        kill(left, SIGKILL);
        waitpid(left, NULL, 0);
    }
    return ready > 0;
}

/* True when tests/expected-skips has a line "suite/name reason". A line without reason is none. */
static bool is_expected_skip(const struct tap_test *t)
{
    char line[400];
    char want[200];
    bool found = false;
    FILE *f = fopen(TAP_EXPECTED_SKIPS, "re");

    if (f == NULL) {
        fprintf(stderr, "# %s: %s\n", TAP_EXPECTED_SKIPS, strerror(errno));
        return false;
    }
    snprintf(want, sizeof(want), "%s/%s", t->suite, t->name);
    size_t n = strlen(want);
    while (!found && fgets(line, sizeof(line), f) != NULL) {
        found = strncmp(line, want, n) == 0 && line[n] == ' ' &&
                line[n + strspn(line + n, " \n")] != '\0';
    }
    fclose(f);
    return found;
}

static bool skips_fail(void)
{
    const char *v = getenv("T_MUST_WORK");

    return v != NULL && strcmp(v, "1") == 0;
}

/* Prints the TAP lines of one ended test. Returns false if it failed. */
static bool report(const struct tap_test *t, int number, bool in_time, int status)
{
    enum outcome outcome = shared->outcome;
    bool ended = in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;

    if (ended && outcome == FINISHED) {
        printf("ok %d - %s\n", number, t->name);
        return true;
    }
    if (ended && outcome == SKIPPED && (!skips_fail() || is_expected_skip(t))) {
        printf("ok %d - %s # SKIP %s\n", number, t->name, shared->skip_reason);
        return true;
    }

    printf("not ok %d - %s\n", number, t->name);
    if (shared->current_case[0] != '\0') {
        printf("# %s: in case: %s\n", t->name, shared->current_case);
    }
    if (!in_time) {
        printf("# %s: not done after %d s\n", t->name, t->timeout_seconds);
    } else if (WIFSIGNALED(status)) {
        printf("# %s: killed by SIG%s\n", t->name, sigabbrev_np(WTERMSIG(status)));
    } else if (outcome == SKIPPED) {
        printf("# %s: skipped (%s), but T_MUST_WORK=1 and not in tests/expected-skips\n", t->name,
               shared->skip_reason);
    } else if (outcome == RUNNING) {
        printf("# %s: exited with %d before its end\n", t->name, WEXITSTATUS(status));
    } else if (outcome == FINISHED) {
        printf("# %s: exited with %d after its end: a sanitizer's report\n", t->name,
               WEXITSTATUS(status));
    }
    return false;
}

static bool run_test(const struct tap_test *t, int number)
{
    pid_t parent = getpid();
    int status = 0;

    memset(shared, 0, sizeof(*shared));
    fflush(NULL); /* what is buffered here must not be printed by the child as well */

    pid_t pid = fork();
    if (pid < 0) {
        printf("not ok %d - %s\n# fork: %s\n", number, t->name, strerror(errno));
        return false;
    }
    if (pid == 0) {
        child_run(t, parent);
    }
    setpgid(pid, pid); /* both sides do it: neither may rely on the other being first */
    bool in_time = wait_child(pid, t->timeout_seconds, &status);
    return report(t, number, in_time, status);
}

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return argc < 2;
}

int main(int argc, char **argv)
{
    int count = 0;
    int number = 0;
    int failed = 0;

    for (const struct tap_test *t = first_test; t != NULL; t = t->next) {
        count += is_wanted(t->name, argc, argv) ? 1 : 0;
    }
    if (count == 0 || (argc > 1 && count < argc - 1)) {
        fprintf(stderr, "%s: no test of that name; there are:\n", argv[0]);
        for (const struct tap_test *t = first_test; t != NULL; t = t->next) {
            fprintf(stderr, "  %s\n", t->name);
        }
        return 2;
    }

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL},
              NULL); /* else nothing to wait for */
    if (shared == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
        fprintf(stderr, "%s: cannot start: %s\n", argv[0], strerror(errno));
        return 2;
    }

    printf("1..%d\n", count);
    for (const struct tap_test *t = first_test; t != NULL; t = t->next) {
        if (is_wanted(t->name, argc, argv) && !run_test(t, ++number)) {
            failed++;
        }
    }
    return failed == 0 ? 0 : 1;
}
