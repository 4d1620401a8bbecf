/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a zygote from outside: it is confined before its program starts. */
#include <linux/capability.h>
#include <linux/filter.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/str.h"
#include "box/seccomp.h"
#include "launcher_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

static pid_t start_zygote(struct launcher_client *c)
{
    launcher_greet(c);
    (void)launcher_shell_template(c, 1);
    return proc_zygote(c->pid);
}

static void check_status(pid_t pid, const char *key, const char *want)
{
    char text[64];

    CASE("%s", key);
    proc_status(pid, key, text, sizeof(text));
    CHECK_STR(text, want);
}

TEST(a_zygote_has_the_capabilities_that_boxes_need_and_no_others)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    pid_t zygote = start_zygote(&c);
    char want[32];
    const uint64_t kept = (uint64_t)1 << CAP_SETUID | (uint64_t)1 << CAP_SETGID |
                          (uint64_t)1 << CAP_SYS_ADMIN | (uint64_t)1 << CAP_NET_ADMIN;

    CHECK_INT(str_format(want, sizeof(want), "%016llx", (unsigned long long)kept), 0);
    check_status(zygote, "CapEff", want);
    check_status(zygote, "CapPrm", want);
    check_status(zygote, "CapBnd", want);
    check_status(zygote, "CapInh", "0000000000000000");
    check_status(zygote, "CapAmb", "0000000000000000");
}

TEST(a_zygote_has_half_of_the_filter_before_its_first_box)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    pid_t zygote = start_zygote(&c);

    check_status(zygote, "NoNewPrivs", "1");
    check_status(zygote, "Seccomp", "2");
    check_status(zygote, "Seccomp_filters", "1");
}

/* A filter that only is there would be counted as well: the kernel tells what it does. */
TEST(a_zygote_has_the_filter_that_its_boxes_inherit)
{
    static struct sock_filter code[BPF_MAXINSNS];
    const struct seccomp_code *want = &seccomp_programs[0].early;
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    pid_t zygote = start_zygote(&c);
    int status;

    CHECK_INT(ptrace(PTRACE_SEIZE, zygote, NULL, NULL), 0);
    CHECK_INT(ptrace(PTRACE_INTERRUPT, zygote, NULL, NULL), 0);
    CHECK_INT(waitpid(zygote, &status, __WALL), zygote);
    CHECK(WIFSTOPPED(status));
    CHECK_INT(ptrace(PTRACE_SECCOMP_GET_FILTER, zygote, NULL, code), want->len);
    CHECK_INT(memcmp(code, want->code, want->len * sizeof(*code)), 0);
    CHECK_INT(ptrace(PTRACE_DETACH, zygote, NULL, NULL), 0);
}
