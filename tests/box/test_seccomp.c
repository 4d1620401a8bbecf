/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters do what the policies say: every call number and every argument rule, in the kernel.
 *
 * Decisions are read off a marked program first (seccomp_probe.h); only then is what the policy
 * refuses issued for real, so that a broken policy cannot make this test harm the machine.
 */
#include "box/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fd.h"
#include "seccomp_cases.h"
#include "seccomp_expect.h"
#include "seccomp_probe.h"
#include "tap.h"

#define HIGH_HALF 0xdeadbeef00000000UL /* what the kernel does not read of a 32-bit argument */

static const struct profile {
    const char *name;
    const struct seccomp_expect *expect;
    size_t numbers;
    const struct arg_case *cases;
    size_t cases_n;
} profiles[] = {
    {"default", expect_default, ARRAY_LEN(expect_default), default_cases, ARRAY_LEN(default_cases)},
    {"strict", expect_strict, ARRAY_LEN(expect_strict), strict_cases, ARRAY_LEN(strict_cases)},
    {"debug", expect_debug, ARRAY_LEN(expect_debug), default_cases, ARRAY_LEN(default_cases)},
};

TEST(programs_have_names_digests_and_sane_sizes)
{
    CHECK_INT(seccomp_programs_n, ARRAY_LEN(profiles));
    for (size_t i = 0; i < seccomp_programs_n; i++) {
        const struct seccomp_program *p = &seccomp_programs[i];

        CASE("%s", p->name);
        CHECK_STR(p->name, profiles[i].name);
        CHECK(seccomp_find(p->name) == p);
        CHECK_INT(strlen(p->digest), 16);
        CHECK_INT(strspn(p->digest, "0123456789abcdef"), 16);
        CHECK(p->whole.len > 100 && p->whole.len < 500);
        CHECK(p->early.len > 100 && p->early.len < 500); /* loaded once for each template */
        CHECK(p->late.len < p->whole.len / 2);           /* loaded once for each box */
        for (size_t k = 0; k < i; k++) {
            CHECK(strcmp(p->digest, seccomp_programs[k].digest) != 0);
        }
    }
    CHECK(seccomp_find("none") == NULL);
    CHECK(seccomp_find("") == NULL);
}

/* All numbers, or those that the policy refuses whatever the arguments. */
static size_t fill_numbers(const struct profile *p, bool refused_only, struct call *calls)
{
    size_t n = 0;

    for (size_t nr = 0; nr < p->numbers; nr++) {
        bool skip = refused_only ? p->expect[nr].action <= 0 : is_exempt((long)nr);

        if (!skip) {
            calls[n++] = (struct call){.nr = (long)nr};
        }
    }
    return n;
}

TEST(every_call_number_is_decided_as_the_policy_says)
{
    static struct call calls[CALLS_MAX];
    static int got[CALLS_MAX];

    for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
        const struct profile *p = &profiles[i];
        size_t n = fill_numbers(p, false, calls);

        run_marked(seccomp_find(p->name), calls, n, got);
        for (size_t k = 0; k < n; k++) {
            const struct seccomp_expect *want = &p->expect[calls[k].nr];

            CASE("%s: %s (%ld)", p->name, want->name, calls[k].nr);
            if (want->action == EXPECT_RULE) {
                CHECK(got[k] >= MARK_ERRNO && got[k] <= MARK_KILL);
            } else {
                CHECK_INT(got[k], mark_of(want->action));
            }
        }

        n = fill_numbers(p, true, calls);
        CHECK(n > 200);
        run_refused(seccomp_find(p->name), calls, n, got);
        for (size_t k = 0; k < n; k++) {
            CASE("%s: %s, for real", p->name, p->expect[calls[k].nr].name);
            CHECK_INT(got[k], p->expect[calls[k].nr].action);
        }
    }
}

TEST(policy_refuses_what_the_security_chapter_lists)
{
    for (size_t i = 0; i < ARRAY_LEN(refused_eperm); i++) {
        CASE("%s", expect_default[refused_eperm[i]].name);
        CHECK_INT(expect_default[refused_eperm[i]].action, EPERM);
    }
    for (size_t i = 0; i < ARRAY_LEN(refused_enosys); i++) {
        CASE("%s", expect_default[refused_enosys[i]].name);
        CHECK_INT(expect_default[refused_enosys[i]].action, ENOSYS);
    }
    for (long nr = 0; nr < (long)ARRAY_LEN(expect_default); nr++) {
        CASE("exempt call %ld", nr);
        CHECK(!is_exempt(nr) || expect_default[nr].action == EXPECT_ALLOW);
    }
    CHECK_INT(expect_default[SYS_seccomp].action, EXPECT_ALLOW);
    CHECK_INT(expect_default[SYS_landlock_restrict_self].action, EXPECT_ALLOW);
    for (long nr = 470; nr < (long)ARRAY_LEN(expect_default); nr++) {
        CASE("future call %ld", nr);
        CHECK_INT(expect_default[nr].action, ENOSYS);
    }
}

static bool is_let_through(long nr)
{
    for (size_t i = 0; i < ARRAY_LEN(let_through); i++) {
        if (let_through[i] == nr) {
            return true;
        }
    }
    return false;
}

TEST(nothing_else_reaches_the_kernel)
{
    for (long nr = 0; nr < (long)ARRAY_LEN(expect_default); nr++) {
        CASE("%s (%ld)", expect_default[nr].name, nr);
        CHECK_INT(expect_default[nr].action <= 0, is_let_through(nr));
    }
}

/* In a process of its own, which number says what went wrong. */
static int spool_under_filter(const int box[2], int file)
{
    loff_t at = 0;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_load(&seccomp_daemon.whole) < 0) {
        return 1;
    }
    if (splice(box[0], NULL, file, &at, 100, SPLICE_F_NONBLOCK) != 6) {
        return 2;
    }
    at = 0;
    if (splice(file, &at, box[1], NULL, 6, 0) >= 0 || errno != ENOSYS) {
        return 3;
    }
    return tee(box[0], box[1], 6, 0) >= 0 || errno != ENOSYS ? 4 : 0;
}

TEST(the_daemons_own_adds_one_direction_of_splice_and_no_box_can_have_it)
{
    for (long nr = 0; nr < (long)ARRAY_LEN(expect_daemon); nr++) {
        CASE("%s", expect_daemon[nr].name);
        CHECK_INT(expect_daemon[nr].action,
                  nr == SYS_splice ? EXPECT_RULE : expect_default[nr].action);
    }
    CHECK(seccomp_find("daemon") == NULL);

    int box[2];
    AUTO_CLOSE int file = memfd_create("spool", MFD_CLOEXEC);
    char text[8] = "";
    int status;
    CHECK_INT(pipe2(box, O_CLOEXEC), 0);
    CHECK_INT(write(box[1], "output", 6), 6);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(spool_under_filter(box, file));
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    CHECK_INT(pread(file, text, sizeof(text), 0), 6);
    CHECK_STR(text, "output");
    close(box[0]);
    close(box[1]);
}

TEST(debug_adds_tracing_and_nothing_else)
{
    for (long nr = 0; nr < (long)ARRAY_LEN(expect_debug); nr++) {
        bool tracing = nr == SYS_ptrace || nr == SYS_kcmp || nr == SYS_process_vm_readv ||
                       nr == SYS_process_vm_writev;

        CASE("%s", expect_debug[nr].name);
        CHECK_INT(expect_debug[nr].action, tracing ? EXPECT_ALLOW : expect_default[nr].action);
    }
}

TEST(strict_only_takes_away)
{
    static const int gone[] = {
        SYS_socket, SYS_memfd_create, SYS_sendfile, SYS_shmget, SYS_shmat,
        SYS_shmdt,  SYS_shmctl,       SYS_semget,   SYS_semop,  SYS_semtimedop,
        SYS_semctl, SYS_msgget,       SYS_msgsnd,   SYS_msgrcv, SYS_msgctl,
    };
    size_t changed = 0;

    for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
        CASE("%s", expect_strict[gone[i]].name);
        CHECK(expect_default[gone[i]].action <= 0);
        CHECK(expect_strict[gone[i]].action > 0);
    }
    for (size_t nr = 0; nr < ARRAY_LEN(expect_strict); nr++) {
        changed += expect_strict[nr].action != expect_default[nr].action ? 1 : 0;
    }
    CHECK_INT(changed, ARRAY_LEN(gone));
}

/* Each case twice: as it is, and with the upper halves of the arguments filled with rubbish. */
static size_t fill_cases(const struct profile *p, bool refused_only, struct call *calls, int *want)
{
    size_t n = 0;

    for (size_t i = 0; i < p->cases_n; i++) {
        for (int high = 0; high < 2; high++) {
            const struct arg_case *c = &p->cases[i];

            if (refused_only && c->want == WANT_ALLOW) {
                continue;
            }
            want[n] = c->want;
            calls[n].nr = c->nr;
            for (size_t a = 0; a < ARRAY_LEN(c->args); a++) {
                calls[n].args[a] = c->args[a] | (high != 0 ? HIGH_HALF : 0);
            }
            n++;
        }
    }
    return n;
}

TEST(argument_rules_decide_on_the_low_32_bits)
{
    static struct call calls[CALLS_MAX];
    static int want[CALLS_MAX];
    static int got[CALLS_MAX];

    for (size_t p = 0; p < ARRAY_LEN(profiles); p++) {
        const struct seccomp_program *program = seccomp_find(profiles[p].name);

        size_t n = fill_cases(&profiles[p], false, calls, want);
        run_marked(program, calls, n, got);
        for (size_t i = 0; i < n; i++) {
            CASE("%s: %s, variant %zu", profiles[p].name, profiles[p].cases[i / 2].name, i % 2);
            CHECK_INT(got[i], mark_of(want[i]));
        }

        n = fill_cases(&profiles[p], true, calls, want);
        run_refused(program, calls, n, got);
        for (size_t i = 0; i < n; i++) {
            CASE("%s: call %ld(%#lx, %#lx, %#lx)", profiles[p].name, calls[i].nr, calls[i].args[0],
                 calls[i].args[1], calls[i].args[2]);
            CHECK_INT(got[i], want[i]);
        }
    }
}

TEST(every_rule_has_a_case_each_way)
{
    for (size_t p = 0; p < ARRAY_LEN(profiles); p++) {
        for (size_t nr = 0; nr < profiles[p].numbers; nr++) {
            bool allowed = false;
            bool refused = false;

            if (profiles[p].expect[nr].action != EXPECT_RULE) {
                continue;
            }
            for (size_t i = 0; i < profiles[p].cases_n; i++) {
                bool same = profiles[p].cases[i].nr == (long)nr;
                allowed = allowed || (same && profiles[p].cases[i].want == WANT_ALLOW);
                refused = refused || (same && profiles[p].cases[i].want != WANT_ALLOW);
            }
            CASE("%s: %s", profiles[p].name, profiles[p].expect[nr].name);
            CHECK(allowed && refused);
        }
    }
}

TEST(only_three_address_families_and_netlink_route)
{
    static struct call calls[FAMILY_MAX];
    int got[FAMILY_MAX];

    for (unsigned long f = 0; f < FAMILY_MAX; f++) {
        calls[f] = (struct call){SYS_socket, {f, SOCK_DGRAM, 0}};
    }
    run_marked(seccomp_find("default"), calls, FAMILY_MAX, got);
    for (int f = 0; f < FAMILY_MAX; f++) {
        bool good = f == AF_UNIX || f == AF_INET || f == AF_INET6 || f == AF_NETLINK;

        CASE("family %d", f);
        CHECK_INT(got[f], mark_of(good ? WANT_ALLOW : EAFNOSUPPORT));
    }
}

static void *return_argument(void *arg)
{
    return arg;
}

static void ordinary_work(void)
{
    extern char **environ;
    char *argv[] = {"true", NULL};
    int ends[2];
    int value = 0;
    int status = 0;
    pid_t pid = 0;
    pthread_t thread;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(page != MAP_FAILED);
    CHECK_INT(madvise(page, 4096, MADV_DONTNEED), 0);
    CHECK_INT(mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    CHECK_INT(pthread_create(&thread, NULL, return_argument, page), 0);
    CHECK_INT(pthread_join(thread, NULL), 0);
    CHECK_INT(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), 0);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_INT(write(ends[0], "abc", 3), 3);
    CHECK_INT(ioctl(ends[1], FIONREAD, &value), 0);
    CHECK_INT(value, 3);
    CHECK(personality(0xffffffff) >= 0);
}

static void ordinary_network(void)
{
    CHECK(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0);
    CHECK(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0);
    CHECK(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0) >= 0);
}

TEST(ordinary_work_runs_under_every_profile)
{
    for (size_t p = 0; p < ARRAY_LEN(profiles); p++) {
        CASE("%s", profiles[p].name);
        CHECK_INT(run_under(profiles[p].name, ordinary_work), 0);
    }
    CHECK_INT(run_under("default", ordinary_network), 0);
}

static void narrow_further(void)
{
    CHECK_INT(seccomp_load(&seccomp_find("strict")->whole), 0);
    CHECK_INT(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), -1);
    CHECK_INT(errno, EPERM);
}

static void widen(void)
{
    CHECK_INT(seccomp_load(&seccomp_find("debug")->whole), 0);
    CHECK_INT(syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 0), -1);
    CHECK_INT(errno, EPERM);
}

TEST(a_second_filter_narrows_and_never_widens)
{
    CHECK_INT(run_under("default", narrow_further), 0);
    CHECK_INT(run_under("default", widen), 0);
}

TEST(load_fails_without_no_new_privs_and_on_a_bad_program)
{
    struct sock_filter endless = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    struct seccomp_code no_return = {&endless, 1};
    struct seccomp_code empty = {&endless, 0};

    CHECK_INT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
    CHECK_INT(seccomp_load(&seccomp_find("default")->whole), -EACCES);
    CHECK_INT(prctl(PR_GET_SECCOMP), SECCOMP_MODE_DISABLED);

    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_INT(seccomp_load(&no_return), -EINVAL);
    CHECK_INT(seccomp_load(&empty), -EINVAL);
    CHECK_INT(prctl(PR_GET_SECCOMP), SECCOMP_MODE_DISABLED);
}

#ifdef __x86_64__
#    define X32_BIT 0x40000000L

static void *call_x32(void *arg)
{
    syscall(X32_BIT | SYS_getpid);
    return arg;
}

/* From a thread: the whole process has to end, not just the thread. */
static void x32_in_a_thread(void)
{
    pthread_t thread;

    CHECK_INT(pthread_create(&thread, NULL, call_x32, NULL), 0);
    pthread_join(thread, NULL);
}

static void i386_getpid(void)
{
    long nr = 20;

    __asm__ volatile("int $0x80" : "+a"(nr) : : "memory", "r8", "r9", "r10", "r11");
}

TEST(x32_calls_kill_the_process)
{
    static const struct call calls[] = {
        {X32_BIT | SYS_read, {0}}, {X32_BIT | 520, {0}}, {X32_BIT, {0}}, {-1, {0}}, {1L << 31, {0}},
    };
    static const int want[] = {WANT_KILL, WANT_KILL, WANT_KILL, ENOSYS, ENOSYS};
    int got[ARRAY_LEN(calls)];

    for (size_t p = 0; p < ARRAY_LEN(profiles); p++) {
        int status = run_under(profiles[p].name, x32_in_a_thread);

        CASE("%s", profiles[p].name);
        CHECK(WIFSIGNALED(status));
        CHECK_INT(WTERMSIG(status), SIGSYS);
        run_marked(seccomp_find(profiles[p].name), calls, ARRAY_LEN(calls), got);
        for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
            CASE("%s: number %#lx", profiles[p].name, (unsigned long)calls[i].nr);
            CHECK_INT(got[i], mark_of(want[i]));
        }
    }
}

TEST(i386_calls_kill_the_process)
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        i386_getpid();
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        SKIP("this kernel has no i386 entry point");
    }
    for (size_t p = 0; p < ARRAY_LEN(profiles); p++) {
        status = run_under(profiles[p].name, i386_getpid);
        CASE("%s", profiles[p].name);
        CHECK(WIFSIGNALED(status));
        CHECK_INT(WTERMSIG(status), SIGSYS);
    }
}
#endif
