/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host ids on a kernel with more than one launcher: what one has leased no other gets, whatever
 * namespaces they are in, until the last process that may have those ids is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/idmap.h"
#include "launcher/lease.h"
#include "launcher_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define WARDS_MOST 32 /* of one template */
#define HELD 4        /* leases of so many */
#define TRIES 60

/* Each test is a process of its own. */
static void need_root(void)
{
    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    CHECK_INT(prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0), 0);
}

/* As the first user of the ward, without rights: it may send as long as it has none in flight. */
static int send_as(uid_t user)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    const struct rlimit no_files = {0};
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(syscall(SYS_setresuid, user, user, user), 0);
    CHECK_INT(syscall(SYS_capset, &head, none), 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &no_files), 0);
    return (int)fd_send(pair[0], "", 1, &pair[0], 1, MSG_DONTWAIT);
}

static bool is_marked(uint32_t ward)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        int r = send_as((uid_t)idmap_ward(ward));
        CHECK(r == 1 || r == -ETOOMANYREFS);
        _exit(r == 1 ? 0 : 1);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status) == 1;
}

static struct lease take(uint32_t wards)
{
    struct lease lease;
    struct err e;

    if (lease_take(wards, &lease, &e) < 0) {
        tap_fail(__FILE__, __LINE__, "no lease of %u wards: %s", wards, e.msg);
    }
    return lease;
}

/* A process that shares neither mounts, processes, network nor lock file with us. */
static pid_t start_container(void (*run)(int pipe), int *ret_pipe)
{
    const int all = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
    int link[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link), 0);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_INT(unshare(all), 0);
        pid_t first = fork();
        if (first > 0) {
            close(link[0]);
            close(link[1]);
            CHECK_INT(waitpid(first, NULL, 0), first);
            _exit(0);
        }
        close(link[0]);
        CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
        CHECK_INT(mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"), 0);
        CHECK_INT(mount("proc", "/proc", "proc", 0, NULL), 0);
        run(link[1]);
        _exit(0);
    }
    close(link[1]);
    *ret_pipe = link[0];
    return pid;
}

static void hold_much(int link)
{
    struct lease leases[HELD];
    char byte;

    for (int i = 0; i < HELD; i++) {
        leases[i] = take(WARDS_MOST);
        CHECK_INT(fd_write_all(link, &leases[i].first, sizeof(leases[i].first)), 0);
    }
    CHECK_INT(read(link, &byte, 1), 0); /* until the test closes its end */
    for (int i = 0; i < HELD; i++) {
        lease_drop(&leases[i]);
    }
}

static void try_often(int link)
{
    for (int i = 0; i < TRIES; i++) {
        struct lease lease = take(1);
        CHECK_INT(fd_write_all(link, &lease.first, sizeof(lease.first)), 0);
        lease_drop(&lease);
    }
}

/* One that only looked into its lock file would be wrong in two of seven tries. */
TEST(containers_with_lock_files_of_their_own_share_no_ids)
{
    uint32_t held[HELD];
    uint32_t got;
    int a;
    int b;

    need_root();
    pid_t holder = start_container(hold_much, &a);
    CHECK_INT(fd_read_all(a, held, sizeof(held)), sizeof(held));
    pid_t other = start_container(try_often, &b);
    for (int i = 0; i < TRIES; i++) {
        CHECK_INT(fd_read_all(b, &got, sizeof(got)), sizeof(got));
        for (int k = 0; k < HELD; k++) {
            CASE("try %d: ward %u of %u to %u", i, got, held[k], held[k] + WARDS_MOST - 1);
            CHECK(got < held[k] || got >= held[k] + WARDS_MOST);
        }
    }
    close(a);
    close(b);
    CHECK_INT(waitpid(holder, NULL, 0), holder);
    CHECK_INT(waitpid(other, NULL, 0), other);
}

#define RIVALS 4
#define ROUNDS 100

static int *owners; /* of each ward, in memory that all rivals share */

static void change_owners(const struct lease *lease, int by, int want)
{
    for (uint32_t i = 0; i < lease->wards; i++) {
        CHECK_INT(__atomic_add_fetch(&owners[lease->first + i], by, __ATOMIC_SEQ_CST), want);
    }
}

static void rival(int link)
{
    (void)link;
    for (int i = 0; i < ROUNDS; i++) {
        struct lease lease = take(WARDS_MOST);
        change_owners(&lease, 1, 1);
        change_owners(&lease, -1, 0);
        lease_drop(&lease);
    }
}

TEST(of_launchers_that_ask_at_once_one_gets_a_ward)
{
    pid_t pids[RIVALS];
    int links[RIVALS];

    need_root();
    owners = mmap(NULL, IDMAP_WARDS * sizeof(*owners), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(owners != MAP_FAILED);
    for (int i = 0; i < RIVALS; i++) {
        pids[i] = start_container(rival, &links[i]);
    }
    for (int i = 0; i < RIVALS; i++) {
        CHECK_INT(waitpid(pids[i], NULL, 0), pids[i]);
        close(links[i]);
    }
}

TEST(a_lease_marks_every_ward_and_ends_with_its_last_holder)
{
    need_root();
    struct lease lease = take(3);
    AUTO_CLOSE int second = fcntl(lease.fd, F_DUPFD_CLOEXEC, 0);
    uint32_t first = lease.first;

    for (uint32_t i = 0; i < 3; i++) {
        CASE("ward %u", i);
        CHECK(is_marked(first + i));
    }
    lease_drop(&lease);
    CHECK(is_marked(first + 2));
    fd_close(&second);
    for (uint32_t i = 0; i < 3; i++) {
        CASE("ward %u, dropped", i);
        CHECK(!is_marked(first + i));
    }
}

/* Always the first free ones would be the same for every launcher that sees none of the others. */
TEST(leases_begin_at_random)
{
    uint32_t first = 0;
    bool differs = false;

    need_root();
    for (int i = 0; i < 8; i++) {
        struct lease lease = take(1);
        differs = differs || (i > 0 && lease.first != first);
        first = lease.first;
        lease_drop(&lease);
    }
    CHECK(differs);
}

static uint32_t ward_of(const struct launcher_rep *rep)
{
    return (uint32_t)((rep->facts.id_start - IDMAP_FIRST) / IDMAP_BLOCK / IDMAP_WARD_BLOCKS);
}

static struct launcher_rep make_box(struct launcher_client *c, uint32_t id,
                                    struct launcher_box *ret)
{
    struct launcher_req req = {
        .op = LAUNCHER_BOX, .template_id = id, .box = {.limits = limits_default()}};
    int theirs[LAUNCHER_BOX_FDS];

    launcher_ends(ret->ends, theirs);
    struct launcher_rep rep = launcher_call(c, &req, theirs, LAUNCHER_BOX_FDS, LAUNCHER_EV_BOX);
    for (int i = 0; i < LAUNCHER_BOX_FDS; i++) {
        close(theirs[i]);
    }
    return rep;
}

/* The first process of the only box. */
static pid_t await_box(pid_t zygote)
{
    struct proc_list children = {.n = 0};

    while (children.n == 0) {
        proc_children(zygote, &children);
    }
    return children.pids[0];
}

/*
 * A process that is traced cannot be buried before its tracer has taken note: that stands for a box
 * that the kernel takes long to end.
 */
TEST(ids_of_a_killed_launcher_stay_taken_until_its_boxes_are_gone)
{
    struct launcher_box box;

    need_root();
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    launcher_greet(&c);
    uint32_t id = launcher_shell_template(&c, 1);
    struct launcher_rep rep = make_box(&c, id, &box);
    uint32_t ward = ward_of(&rep);
    pid_t guard = proc_guard(c.pid);
    const struct proc_list bystander = {.pids = {guard}, .n = 1};
    pid_t traced = await_box(proc_zygote(c.pid));
    CHECK_INT(ptrace(PTRACE_SEIZE, traced, NULL, NULL), 0);
    CHECK(is_marked(ward));
    proc_kill(c.pid);
    while (proc_is_alive(traced)) {
    }
    for (int i = 0; i < 20; i++) { /* longer than a guard that did not wait would take */
        CHECK_INT(usleep(10000), 0);
        CHECK(proc_is_alive(guard));
        CHECK(is_marked(ward));
    }
    CHECK_INT(waitpid(traced, NULL, __WALL), traced);
    proc_wait_gone(&bystander);
    CHECK(!is_marked(ward));
    launcher_box_release(&box);
}

TEST(a_template_that_is_stopped_gives_its_ids_back)
{
    struct launcher_box box;

    need_root();
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    launcher_greet(&c);
    uint32_t id = launcher_shell_template(&c, 1);
    struct launcher_rep rep = make_box(&c, id, &box);
    struct launcher_req stop = {.op = LAUNCHER_STOP, .template_id = id};
    launcher_call(&c, &stop, NULL, 0, LAUNCHER_EV_OK);
    AWAIT(!is_marked(ward_of(&rep)));
    launcher_box_release(&box);
}
