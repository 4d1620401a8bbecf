/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Without root: full isolation is refused with reasons; less is given only when asked for, and
 * said.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

static struct husk_engine *open_userns(void)
{
    const struct husk_options options = {.min_isolation = HUSK_ISOLATION_USERNS};
    struct husk_engine *engine = NULL;
    struct husk_error e;

    fixture_become_nobody();
    CHECK_OK(husk_open(&options, &engine, &e), &e);
    return engine;
}

TEST(full_isolation_is_refused_and_what_lacks_is_named)
{
    struct husk_engine *engine = NULL;
    struct husk_error e;

    fixture_become_nobody();
    CHECK_INT(husk_open(NULL, &engine, &e), -1);
    CHECK(engine == NULL);
    CHECK_STR(e.type, "isolation_missing");
    CHECK_INT(e.http, 503);
    CHECK_HAS(e.message, "private ids");
    CHECK_HAS(e.message, "cgroup limits");
}

TEST(less_isolation_runs_every_language_and_the_receipt_says_what_lacks)
{
    static const struct {
        const char *template_name;
        const char *code;
    } rows[] = {{"python", "print('ok')"}, {"shell", "echo ok"}, {"node", "console.log('ok')"}};
    AUTO_ENGINE struct husk_engine *engine = open_userns();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct husk_spec spec = fixture_spec(rows[i].template_name, HUSK_SCRIPT, rows[i].code);
        if (str_eq(rows[i].template_name, "node") && access("/usr/bin/node", X_OK) < 0) {
            continue;
        }
        CASE("%s", rows[i].template_name);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->out, "ok\n");
        CHECK_STR(r->receipt.isolation, "userns");
        CHECK_HAS(r->receipt.missing, "private ids");
        CHECK_HAS(r->receipt.missing, "cgroup limits");
        CHECK_STR(r->receipt.cgroup, "none");
        CHECK_INT(r->receipt.id_block_start, getuid());
        CHECK_INT(r->receipt.id_block_size, 1);
    }
}

TEST(the_walls_that_need_no_root_stand)
{
    static const struct {
        const char *key;
        const char *want;
    } rows[] = {
        {"CapPrm", "0000000000000000"},
        {"CapEff", "0000000000000000"},
        {"CapBnd", "0000000000000000"},
        {"NoNewPrivs", "1"},
        {"Seccomp", "2"},
    };
    static const char *const namespaces[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    AUTO_ENGINE struct husk_engine *engine = open_userns();
    struct husk_error e;
    static struct proc_list boxes;
    char text[64];
    char host[64];

    CHECK_OK(husk_pool_set(engine, "python", NULL, 1, 1, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", 1, &e), &e);
    proc_children(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, 1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].key);
        proc_status(boxes.pids[0], rows[i].key, text, sizeof(text));
        CHECK_STR(text, rows[i].want);
    }
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        char name[32];
        CASE("namespace %s", namespaces[i]);
        CHECK_INT(str_format(name, sizeof(name), "ns/%s", namespaces[i]), 0);
        proc_link(getpid(), name, host, sizeof(host));
        char inside[64];
        AUTO_RESULT struct husk_result *r = NULL;
        struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT,
                                             "import os, sys\n"
                                             "print(os.readlink('/proc/self/ns/' + sys.argv[1]), "
                                             "end='')");
        const char *const args[] = {namespaces[i], NULL};
        spec.args = args;
        r = fixture_run(engine, &spec);
        CHECK_INT(str_copy(inside, sizeof(inside), r->out), 0);
        CHECK(strlen(inside) > 5);
        CHECK(!str_eq(inside, host));
    }
}

TEST(boxes_without_root_have_the_callers_id)
{
    AUTO_ENGINE struct husk_engine *engine = open_userns();
    static struct proc_list boxes;
    struct husk_error e;
    char text[64];
    char want[64];
    uid_t id = getuid();

    CHECK_OK(husk_pool_set(engine, "python", NULL, 2, 2, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", 2, &e), &e);
    proc_children(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, 2);
    CHECK_INT(str_format(want, sizeof(want), "%u\t%u\t%u\t%u", id, id, id, id), 0);
    for (size_t i = 0; i < boxes.n; i++) {
        CASE("box %zu", i);
        proc_status(boxes.pids[i], "Uid", text, sizeof(text));
        CHECK_STR(text, want);
    }
    AUTO_RESULT struct husk_result *r = fixture_cell(engine, "__import__('os').getresuid()");
    CHECK_STR(r->value, "(1000, 1000, 1000)");
}

TEST(limits_that_need_no_cgroup_hold)
{
    static const struct {
        const char *code;
        const char *end;
    } rows[] = {
        {"x = bytearray(200 << 20)", "memory_exceeded oom 137: memory 64 MiB"},
        {"open('a', 'wb').write(b'x' * (9 << 20))", "failed disk 1: disk 8 MiB"},
        {"while True: pass", "timeout timeout 124: timeout 500 ms"},
        {"while True: print('x' * 1000)", "failed output_limit 153: output 100 KiB"},
    };
    AUTO_ENGINE struct husk_engine *engine = open_userns();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, rows[i].code);
        spec.limits = (struct husk_limits){.memory_bytes = 64 * MIB,
                                           .disk_bytes = 8 * MIB,
                                           .output_bytes = 100 * 1024,
                                           .timeout_ms = 500};
        CASE("%s", rows[i].code);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, rows[i].end);
    }
}

/* There is no cgroup to count for the box: the kernel's figures of its first process count. */
TEST(what_the_first_process_used_is_known_without_cgroups)
{
    AUTO_ENGINE struct husk_engine *engine = open_userns();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT,
                                         "import time\nx = bytearray(40 << 20)\n"
                                         "while time.process_time() < 0.3: pass");
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);

    CHECK_END(r, "completed exit 0");
    CHECK(r->metrics.cpu_time_ms >= 280);
    CHECK(r->metrics.peak_memory_mb >= 40);
    CHECK_INT(r->metrics.io_read_bytes + r->metrics.io_write_bytes, 0);
    CHECK_INT(r->metrics.processes, 0);
}

TEST(sessions_and_mounts_work_without_root)
{
    static const struct husk_mount mount = {
        .host = "/usr/share/common-licenses", .box = "/data", .read_only = true};
    AUTO_ENGINE struct husk_engine *engine = open_userns();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct husk_spec spec =
        fixture_spec("python", HUSK_CELL, "import os\n'GPL' in os.listdir('/data')");
    AUTO_RESULT struct husk_result *r = NULL;

    CHECK_CELL(s, 0, "x = 41", NULL);
    CHECK_CELL(s, 0, "x + 1", "42");
    spec.mounts = &mount;
    spec.n_mounts = 1;
    r = fixture_run(engine, &spec);
    CHECK_STR(r->value, "True");
}

/*
 * Its owner may write there anyway. A folder of another user is refused, even if all may write
 * there.
 */
TEST(only_a_folder_of_ones_own_is_lent_without_root)
{
    char own[] = "/tmp/husk-own-XXXXXX";
    char path[64];
    char text[16];
    AUTO_ENGINE struct husk_engine *engine = open_userns();
    struct husk_spec spec =
        fixture_spec("python", HUSK_SCRIPT, "open('/data/new', 'w').write('text')");
    struct husk_mount mount = {.host = own, .box = "/data"};

    CHECK(mkdtemp(own) != NULL);
    spec.mounts = &mount;
    spec.n_mounts = 1;
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
    CHECK_END(r, "completed exit 0");
    CHECK_INT(str_format(path, sizeof(path), "%s/new", own), 0);
    CHECK_INT(fd_read_file(AT_FDCWD, path, text, sizeof(text)), 4);
    CHECK_STR(text, "text");
    mount.host = "/tmp";
    CHECK_STR(fixture_refusal(engine, &spec), "invalid_argument");
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(own), 0);
}

TEST(nothing_stays_when_a_launcher_without_root_is_killed)
{
    AUTO_ENGINE struct husk_engine *engine = open_userns();
    static struct proc_list tree;
    struct husk_error e;

    CHECK_OK(husk_pool_set(engine, "python", NULL, 2, 2, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", 2, &e), &e);
    proc_tree(proc_launcher(), &tree);
    CHECK_INT(tree.n, 6); /* launcher, guard, closer, zygote, two boxes */
    proc_kill(tree.pids[0]);
    proc_wait_gone(&tree);
}

/* Root of a user namespace only: it must not pass for root of the host. */
TEST(root_of_a_namespace_is_not_taken_for_root)
{
    struct husk_engine *engine = NULL;
    struct husk_error e;
    char map[64];
    uid_t uid;

    fixture_become_nobody();
    uid = getuid();
    CHECK_INT(unshare(CLONE_NEWUSER), 0);
    CHECK_INT(str_format(map, sizeof(map), "0 %u 1\n", uid), 0);
    CHECK_INT(fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny"), 0);
    CHECK_INT(fd_write_file(AT_FDCWD, "/proc/self/uid_map", map), 0);
    CHECK_INT(fd_write_file(AT_FDCWD, "/proc/self/gid_map", map), 0);
    CHECK_INT(geteuid(), 0);
    CHECK_INT(husk_open(NULL, &engine, &e), -1);
    CHECK_STR(e.type, "isolation_missing");
}
