/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Issuing system calls under a filter; see seccomp_probe.h.
 *
 * A process under a marked program cannot even exit: it leaves results in shared memory and ends
 * by a trap. Must not be used with calls that could end or hold up the process.
 */
#include "seccomp_probe.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

struct results {
    volatile int load;              /* of seccomp_load() */
    volatile bool done;             /* all calls were issued */
    volatile int errnos[CALLS_MAX]; /* 0: the call succeeded */
};

bool is_exempt(long nr)
{
#ifdef __x86_64__
    return nr == 335 || nr == 336;
#else
    return nr < 0; /* no call of that kind here */
#endif
}

int mark_of(int want)
{
    return want == WANT_ALLOW ? MARK_ALLOW : want == WANT_KILL ? MARK_KILL : MARK_ERRNO + want;
}

/* The whole program's instructions, but every return value is a mark. */
static struct seccomp_program marked(const struct seccomp_program *p, struct sock_filter *code)
{
    for (size_t i = 0; i < p->whole.len; i++) {
        code[i] = p->whole.code[i];
        if (BPF_CLASS(code[i].code) != BPF_RET) {
            continue;
        }
        unsigned int action = code[i].k & SECCOMP_RET_ACTION_FULL;
        int want = action == SECCOMP_RET_ALLOW ? WANT_ALLOW : WANT_KILL;
        if (action == SECCOMP_RET_ERRNO) {
            want = (int)(code[i].k & SECCOMP_RET_DATA);
        }
        code[i].k = SECCOMP_RET_ERRNO | (unsigned int)mark_of(want);
    }
    return (struct seccomp_program){
        .name = "marked", .digest = p->digest, .early = {code, p->whole.len}};
}

/* As a box gets it: in two halves. */
static int load_halves(const struct seccomp_program *p)
{
    int r = seccomp_load(&p->early);

    return r < 0 || p->late.code == NULL ? r : seccomp_load(&p->late);
}

/*
 * In a process of its own: loads the program, issues the calls, and ends without any call.
 * Not sanitized: AddressSanitizer makes calls of its own before a trap, again and again.
 */
__attribute__((noinline, no_sanitize_address)) static void
issue(const struct seccomp_program *p, const struct call *calls, size_t n, struct results *r)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};

    sigaction(SIGILL, &plain, NULL);
    sigaction(SIGTRAP, &plain, NULL);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    r->load = load_halves(p);
    for (size_t i = 0; r->load == 0 && i < n; i++) {
        const unsigned long *a = calls[i].args;
        r->errnos[i] = syscall(calls[i].nr, a[0], a[1], a[2], 0UL, 0UL, 0UL) < 0 ? errno : 0;
    }
    r->done = true;
    __builtin_trap();
}

void run_refused(const struct seccomp_program *p, const struct call *calls, size_t n, int *errnos)
{
    int status = 0;
    struct results *r =
        mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(r != MAP_FAILED);
    CHECK(n <= CALLS_MAX);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        issue(p, calls, n, r);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    CHECK(r->done);
    CHECK_INT(r->load, 0);
    for (size_t i = 0; i < n; i++) {
        errnos[i] = r->errnos[i];
    }
    munmap(r, sizeof(*r));
}

void run_marked(const struct seccomp_program *p, const struct call *calls, size_t n, int *marks)
{
    static struct sock_filter code[BPF_MAXINSNS];

    CHECK(p->whole.len <= BPF_MAXINSNS);
    struct seccomp_program copy = marked(p, code);
    run_refused(&copy, calls, n, marks);
}

int run_under(const char *name, void (*fn)(void))
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_DUMPABLE, 0);
        CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        CHECK_INT(load_halves(seccomp_find(name)), 0);
        fn();
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return status;
}
