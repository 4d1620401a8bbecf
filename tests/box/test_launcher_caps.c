/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The capabilities of a running launcher and of its guard: what the table of launcher/caps.c says,
 * and nothing else in any set.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "launcher/caps.h"
#include "launcher_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define EVERY_CAP UINT64_MAX

static uint64_t cap_set(pid_t pid, const char *key)
{
    char text[32];

    proc_status(pid, key, text, sizeof(text));
    CHECK(text[0] != '\0');
    return strtoull(text, NULL, 16);
}

/* had: what the process may have had before it gave anything up. */
static void check_caps(pid_t pid, unsigned role, uint64_t had)
{
    static const char *const kept[] = {"CapPrm", "CapEff", "CapBnd"};
    static const char *const empty[] = {"CapInh", "CapAmb"};

    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        CASE("%s of role %u", kept[i], role);
        CHECK_INT(cap_set(pid, kept[i]), caps_of(role) & had);
    }
    for (size_t i = 0; i < ARRAY_LEN(empty); i++) {
        CASE("%s of role %u", empty[i], role);
        CHECK_INT(cap_set(pid, empty[i]), 0);
    }
}

TEST(a_launcher_and_its_guard_keep_what_the_table_says)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    uint64_t ours = cap_set(getpid(), "CapPrm");

    launcher_greet(&c);
    check_caps(c.pid, CAPS_LAUNCHER, ours);
    check_caps(proc_guard(c.pid), CAPS_GUARD, ours);
    check_caps(proc_closer(c.pid), 0, ours);
    (void)launcher_shell_template(&c, 1);
    check_caps(c.pid, CAPS_LAUNCHER, ours); /* also after it was another user for a moment */
}

TEST(without_root_they_keep_less_in_their_own_namespace)
{
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_options options = {.min_isolation = HUSK_ISOLATION_USERNS};
    struct husk_error e;

    fixture_become_nobody();
    CHECK_OK(husk_open(&options, &engine, &e), &e);
    check_caps(proc_launcher(), CAPS_ROOTLESS, EVERY_CAP);
    check_caps(proc_guard(proc_launcher()), 0, EVERY_CAP);
    check_caps(proc_closer(proc_launcher()), 0, EVERY_CAP);
    AUTO_RESULT struct husk_result *r = fixture_cell(engine, "6 * 7");
    CHECK_STR(r->value, "42");
}

TEST(every_capability_has_a_reason)
{
    uint64_t seen = 0;

    for (size_t i = 0; i < caps_rows_n; i++) {
        CASE("%s", caps_rows[i].name);
        CHECK(caps_rows[i].roles != 0 && strlen(caps_rows[i].reason) > 10);
        CHECK_INT(seen >> caps_rows[i].cap & 1, 0);
        seen |= (uint64_t)1 << caps_rows[i].cap;
    }
}

/* A template whose zygote has taken its parent-death signal away, and does nothing. */
static void start_survivor(struct launcher_client *c)
{
    static const char program[] = "import ctypes, socket, struct, time\n"
                                  "ctypes.CDLL(None).prctl(1, 0)\n" /* PR_SET_PDEATHSIG */
                                  "s = socket.socket(fileno=3)\n"
                                  "s.send(struct.pack('IIi4xQQii400s', 1, *[0] * 6, b''))\n"
                                  "time.sleep(100)";
    static const char *const words[] = {"/usr/bin/python3", "-c", program};
    uint32_t id = launcher_template(c, 1);
    struct launcher_req start = {.op = LAUNCHER_START, .template_id = id};

    launcher_fill(c, id);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        launcher_text(c, id, LAUNCHER_ARG, words[i]);
    }
    launcher_call(c, &start, NULL, 0, LAUNCHER_EV_OK);
}

static void kill_launcher(void)
{
    static struct proc_list tree;
    struct launcher_client c = launcher_open();

    launcher_greet(&c);
    start_survivor(&c);
    proc_tree(c.pid, &tree);
    CHECK_INT(tree.n, 4); /* launcher, guard, closer, zygote */
    CHECK_INT(kill(c.pid, SIGKILL), 0);
    proc_wait_gone(&tree);
    fd_close(&c.sock);
}

/*
 * Where no hierarchy can be killed as a whole, the guard has to signal processes of other users. In
 * a pid namespace of its own: launchers of other tests leave what is in there alone.
 */
TEST(a_guard_can_still_end_what_a_launcher_leaves)
{
    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    CHECK_INT(unshare(CLONE_NEWNS | CLONE_NEWPID), 0);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
        CHECK_INT(mount("proc", "/proc", "proc", 0, NULL), 0);
        (void)umount2("/sys/fs/cgroup/unified", MNT_DETACH);
        kill_launcher();
        _exit(0);
    }
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}
