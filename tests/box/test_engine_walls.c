/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walls of a box as the host sees them, for every process of boxes of every kind: parked ones
 * of each language and a session. What the program inside could say about itself is not asked.
 */
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define FIRST_PRIVATE_ID 2147483648u /* as docs/security-model.md says */
#define BLOCK 65536

static const char *const namespaces[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};

static const struct husk_limits asked = {.memory_bytes = 128 * MIB,
                                         .disk_bytes = 16 * MIB,
                                         .cpu_milli = 500,
                                         .pids = 33,
                                         .open_files = 200};

/* Boxes that stand still, each as the list of its processes. */
struct boxes {
    struct proc_list box[8];
    size_t n;
};

static void park(struct husk_engine *engine, const char *name, uint32_t n)
{
    struct husk_error e;

    CHECK_OK(husk_pool_set(engine, name, &asked, n, n, &e), &e);
    CHECK_OK(husk_pool_wait(engine, name, n, &e), &e);
}

/* Everything that can stand still, found from outside. */
static void raise_boxes(struct husk_engine *engine, struct husk_session **session,
                        struct boxes *ret)
{
    static struct proc_list zygotes;
    static struct proc_list first;

    park(engine, "python", 2);
    park(engine, "shell", 1);
    if (access("/usr/bin/node", X_OK) == 0) {
        park(engine, "node", 1);
    }
    *session = fixture_session(engine, &asked);
    pid_t launcher = proc_launcher();
    pid_t guard = proc_guard(launcher);
    proc_children(launcher, &zygotes);
    ret->n = 0;
    for (size_t i = 0; i < zygotes.n; i++) {
        if (zygotes.pids[i] == guard) {
            continue;
        }
        proc_children(zygotes.pids[i], &first);
        for (size_t k = 0; k < first.n; k++) {
            CHECK(ret->n < ARRAY_LEN(ret->box));
            proc_tree(first.pids[k], &ret->box[ret->n++]);
        }
    }
    CHECK(ret->n >= 4);
}

struct range {
    uint64_t inside, host, count;
};

static struct range read_map(pid_t pid, const char *name)
{
    struct range r = {0};
    char rest[4] = "";

    int n = sscanf(proc_file(pid, name), "%" SCNu64 " %" SCNu64 " %" SCNu64 " %3s", &r.inside,
                   &r.host, &r.count, rest);
    CHECK_INT(n, 3); /* one range and no other */
    return r;
}

static void check_range(const struct range *r)
{
    CHECK_INT(r->inside, 0);
    CHECK(r->host >= FIRST_PRIVATE_ID);
    CHECK_INT(r->count, BLOCK);
}

TEST(ids_of_boxes_are_private_unprivileged_and_do_not_overlap)
{
    static struct boxes boxes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = NULL;
    struct range ranges[8];

    raise_boxes(engine, &s, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        for (size_t k = 0; k < boxes.box[i].n; k++) {
            pid_t pid = boxes.box[i].pids[k];
            CASE("box %zu, process %d: %s", i, pid, proc_file(pid, "comm"));
            ranges[i] = read_map(pid, "uid_map");
            struct range gids = read_map(pid, "gid_map");
            check_range(&ranges[i]);
            check_range(&gids);
            CHECK_INT(gids.host, ranges[i].host);
        }
        for (size_t k = 0; k < i; k++) {
            CASE("boxes %zu and %zu", i, k);
            CHECK(ranges[i].host + BLOCK <= ranges[k].host ||
                  ranges[k].host + BLOCK <= ranges[i].host);
        }
    }
}

TEST(boxes_run_as_one_ordinary_user_without_groups)
{
    static struct boxes boxes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = NULL;
    char text[128];
    char want[128];

    raise_boxes(engine, &s, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        for (size_t k = 0; k < boxes.box[i].n; k++) {
            pid_t pid = boxes.box[i].pids[k];
            uint64_t id = read_map(pid, "uid_map").host + 1000;
            CASE("box %zu, process %d: %s", i, pid, proc_file(pid, "comm"));
            CHECK_INT(str_format(want, sizeof(want),
                                 "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, id, id, id, id),
                      0);
            proc_status(pid, "Uid", text, sizeof(text));
            CHECK_STR(text, want);
            proc_status(pid, "Gid", text, sizeof(text));
            CHECK_STR(text, want);
            proc_status(pid, "Groups", text, sizeof(text));
            CHECK_INT(strspn(text, " "), strlen(text));
        }
    }
}

TEST(boxes_have_no_capability_and_cannot_get_one)
{
    static const struct {
        const char *key;
        const char *want;
    } rows[] = {
        {"CapInh", "0000000000000000"},
        {"CapPrm", "0000000000000000"},
        {"CapEff", "0000000000000000"},
        {"CapBnd", "0000000000000000"},
        {"CapAmb", "0000000000000000"},
        {"NoNewPrivs", "1"},
        {"Seccomp", "2"},
        {"Seccomp_filters", "2"}, /* the half that came from the zygote, and its own */
    };
    static struct boxes boxes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = NULL;
    char text[64];

    raise_boxes(engine, &s, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        for (size_t k = 0; k < boxes.box[i].n; k++) {
            pid_t pid = boxes.box[i].pids[k];
            for (size_t row = 0; row < ARRAY_LEN(rows); row++) {
                CASE("box %zu, process %d: %s", i, pid, rows[row].key);
                proc_status(pid, rows[row].key, text, sizeof(text));
                CHECK_STR(text, rows[row].want);
            }
        }
    }
}

TEST(no_namespace_of_a_box_is_the_hosts_or_another_boxs)
{
    static struct boxes boxes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = NULL;
    char links[8][64];
    char path[32];
    char host[64];

    raise_boxes(engine, &s, &boxes);
    for (size_t ns = 0; ns < ARRAY_LEN(namespaces); ns++) {
        CHECK_INT(str_format(path, sizeof(path), "ns/%s", namespaces[ns]), 0);
        proc_link(getpid(), path, host, sizeof(host));
        for (size_t i = 0; i < boxes.n; i++) {
            for (size_t k = 0; k < boxes.box[i].n; k++) {
                CASE("%s of box %zu, process %zu", namespaces[ns], i, k);
                proc_link(boxes.box[i].pids[k], path, links[i], sizeof(links[i]));
                CHECK(!str_eq(links[i], host));
                for (size_t other = 0; other < i; other++) {
                    CHECK(!str_eq(links[i], links[other]));
                }
            }
        }
    }
}

/* Whose quotas of the kernel the boxes of a zygote use up. */
static uid_t owner_of_users(pid_t pid)
{
    char path[32];
    uid_t owner = 0;

    CHECK_INT(str_format(path, sizeof(path), "/proc/%d/ns/user", pid), 0);
    AUTO_CLOSE int ns = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_INT(ioctl(ns, NS_GET_OWNER_UID, &owner), 0);
    return owner;
}

/* A template's preloads run in its zygote: it has left the host as well, if not as far. */
TEST(nothing_of_who_started_it_is_left_in_a_zygote)
{
    static const gid_t groups[] = {0, 4, 54321};
    static struct boxes boxes;
    AUTO_ENGINE struct husk_engine *engine = NULL;
    AUTO_SESSION struct husk_session *s = NULL;
    static struct proc_list zygotes;
    char text[64];
    char path[32];
    char host[64];

    if (geteuid() == 0) {
        CHECK_INT(setgroups(ARRAY_LEN(groups), groups), 0);
    }
    engine = fixture_open();
    raise_boxes(engine, &s, &boxes);
    proc_zygotes(proc_launcher(), &zygotes);
    for (size_t i = 0; i < zygotes.n; i++) {
        pid_t pid = zygotes.pids[i];
        CASE("zygote %zu", i);
        proc_status(pid, "Groups", text, sizeof(text));
        CHECK_INT(strspn(text, " "), strlen(text));
        CHECK_INT(getsid(pid), pid);
        CHECK(owner_of_users(pid) >= FIRST_PRIVATE_ID);
        for (size_t ns = 0; ns < ARRAY_LEN(namespaces); ns++) {
            CASE("%s of zygote %zu", namespaces[ns], i);
            CHECK_INT(str_format(path, sizeof(path), "ns/%s", namespaces[ns]), 0);
            proc_link(getpid(), path, host, sizeof(host));
            proc_link(pid, path, text, sizeof(text));
            CHECK(!str_eq(text, host));
        }
    }
}

TEST(boxes_and_their_zygotes_are_the_first_victims_of_a_full_host)
{
    static struct boxes boxes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = NULL;
    static struct proc_list zygotes;

    raise_boxes(engine, &s, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        for (size_t k = 0; k < boxes.box[i].n; k++) {
            CASE("box %zu, process %zu", i, k);
            CHECK_STR(proc_file(boxes.box[i].pids[k], "oom_score_adj"), "1000\n");
        }
    }
    pid_t launcher = proc_launcher();
    proc_zygotes(launcher, &zygotes);
    for (size_t i = 0; i < zygotes.n; i++) {
        CASE("zygote %zu", i);
        CHECK_STR(proc_file(zygotes.pids[i], "oom_score_adj"), "1000\n");
    }
    CHECK(!str_eq(proc_file(launcher, "oom_score_adj"), "1000\n"));
}

/*
 * A file of the process's cgroup in the hierarchy of a controller, v1 or unified; "" if there is
 * none.
 */
static void cgroup_value(pid_t pid, const char *controller, const char *file, char *ret,
                         size_t size)
{
    char line[512];
    char path[1024];
    const char *text = proc_file(pid, "cgroup");

    ret[0] = '\0';
    for (const char *at = text; *at != '\0'; at += strcspn(at, "\n") + 1) {
        CHECK_INT(str_format(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at), 0);
        char *list = strchr(line, ':') + 1;
        char *where = strchr(list, ':');
        *where++ = '\0';
        bool unified = list[0] == '\0';
        if (!unified && !str_eq(list, controller)) {
            continue;
        }
        CHECK_INT(str_format(path, sizeof(path), "/sys/fs/cgroup%s%s%s/%s", unified ? "" : "/",
                             unified ? "" : list, where, file),
                  0);
        if (fd_read_file(AT_FDCWD, path, ret, size) > 0) {
            ret[strcspn(ret, "\n")] = '\0';
            return;
        }
        ret[0] = '\0';
    }
}

/* A limit as the kernel keeps it, in cgroups of either version. */
struct limit_row {
    const char *controller;
    const char *v1, *v1_want;
    const char *v2, *v2_want;
};

static void check_limits(pid_t pid, const struct limit_row rows[4])
{
    char v1[64];
    char v2[64];

    for (size_t row = 0; row < 4; row++) {
        cgroup_value(pid, rows[row].controller, rows[row].v1, v1, sizeof(v1));
        cgroup_value(pid, "", rows[row].v2, v2, sizeof(v2));
        CASE("process %d: %s is \"%s\" or \"%s\"", pid, rows[row].v1, v1, v2);
        CHECK(str_eq(v1, rows[row].v1_want) || str_eq(v2, rows[row].v2_want));
    }
}

/* Its PID 1 is an interpreter, and so is its context. That of Node.js has husk-init as PID 1. */
static bool is_session(const struct proc_list *box)
{
    char first[32] = "";

    (void)str_copy(first, sizeof(first), proc_file(box->pids[0], "comm"));
    return box->n > 1 && str_eq(proc_file(box->pids[1], "comm"), first);
}

/* For a session with room for our file workers, which its RLIMIT_NPROC keeps from user code. */
TEST(the_kernel_enforces_the_limits_that_were_asked_for)
{
    static struct limit_row rows[] = {
        {"memory", "memory.limit_in_bytes", "134217728", "memory.max", "134217728"},
        {"memory", "memory.memsw.limit_in_bytes", "134217728", "memory.swap.max", "0"},
        {"cpu", "cpu.cfs_quota_us", "50000", "cpu.max", "50000 100000"},
        {"pids", "pids.max", "33", "pids.max", "33"},
    };
    static struct boxes boxes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = NULL;

    raise_boxes(engine, &s, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        rows[3].v1_want = rows[3].v2_want = is_session(&boxes.box[i]) ? "41" : "33";
        check_limits(boxes.box[i].pids[boxes.box[i].n - 1], rows);
    }
}

/* Imports of its template count there, and not in the boxes that it makes. */
TEST(a_zygote_has_limits_of_its_own)
{
    static const struct limit_row rows[] = {
        {"memory", "memory.limit_in_bytes", "2147483648", "memory.max", "2147483648"},
        {"memory", "memory.memsw.limit_in_bytes", "2147483648", "memory.swap.max", "0"},
        {"cpu", "cpu.cfs_quota_us", "200000", "cpu.max", "200000 100000"},
        {"pids", "pids.max", "64", "pids.max", "64"},
    };
    static struct proc_list zygotes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    park(engine, "python", 1);
    park(engine, "shell", 1);
    proc_zygotes(proc_launcher(), &zygotes);
    CHECK_INT(zygotes.n, 2);
    for (size_t i = 0; i < zygotes.n; i++) {
        check_limits(zygotes.pids[i], rows);
    }
}

TEST(resource_limits_are_set_and_cannot_be_raised)
{
    static const struct {
        const char *name;
        const char *value;
    } rows[] = {
        {"Max open files ", "200"},       {"Max processes ", "33"},
        {"Max file size ", "unlimited"},  {"Max locked memory ", "65536"},
        {"Max msgqueue size ", "819200"}, {"Max pending signals ", "4096"},
        {"Max stack size ", "8388608"},   {"Max realtime priority ", "0"},
        {"Max nice priority ", "0"},
    };
    static struct boxes boxes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = NULL;
    char soft[32];
    char hard[32];

    raise_boxes(engine, &s, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        for (size_t k = 0; k < boxes.box[i].n; k++) {
            for (size_t row = 0; row < ARRAY_LEN(rows); row++) {
                CASE("box %zu, process %zu: %s", i, k, rows[row].name);
                const char *at = strstr(proc_file(boxes.box[i].pids[k], "limits"), rows[row].name);
                CHECK(at != NULL);
                CHECK_INT(sscanf(at + strlen(rows[row].name), "%31s %31s", soft, hard), 2);
                bool is_first = is_session(&boxes.box[i]) && k == 0;
                bool has_more = is_first && str_eq(rows[row].name, "Max processes ");
                CHECK_STR(soft, rows[row].value);
                CHECK_STR(hard, has_more ? "41" : rows[row].value);
            }
        }
    }
}

TEST(no_process_of_the_host_can_be_reached_through_proc)
{
    static struct boxes boxes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = NULL;
    char root[256];

    raise_boxes(engine, &s, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        CASE("box %zu", i);
        CHECK_INT(str_format(root, sizeof(root), "/proc/%d/root/proc/%d/comm", boxes.box[i].pids[0],
                             getpid()),
                  0);
        CHECK(access(root, F_OK) < 0);
        CHECK_INT(str_format(root, sizeof(root), "/proc/%d/root/proc/1/comm", boxes.box[i].pids[0]),
                  0);
        CHECK(access(root, F_OK) == 0);
    }
}
