/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client gives to a template: whose it may be, how large, and in how many boxes. What the
 * launcher itself opens.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "launcher_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define ORDINARY 54321 /* an id that no account has */
#define COPY_MAX (1 << 20)
#define LEASES "/run/husk/ids"

/* A box never acts as host id 0, whatever the owner of a mount. */
TEST(a_folder_of_root_is_not_lent_for_writing)
{
    static const struct {
        uid_t uid;
        gid_t gid;
        enum launcher_event want;
    } rows[] = {
        {ORDINARY, ORDINARY, LAUNCHER_EV_OK},
        {ORDINARY, 0, LAUNCHER_EV_ERROR},
        {0, ORDINARY, LAUNCHER_EV_ERROR},
    };
    char dir[] = "/tmp/husk-lent-XXXXXX";
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    AUTO_CLOSE int folder = -1;

    CHECK(mkdtemp(dir) != NULL);
    folder = open(dir, O_PATH | O_CLOEXEC);
    launcher_greet(&c);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct launcher_req req = {
            .op = LAUNCHER_MOUNT,
            .template_id = launcher_template(&c, 1),
            .place = {.path = "/data", .kind = LAUNCHER_WRITABLE},
        };
        CASE("a folder of %u:%u", rows[i].uid, rows[i].gid);
        CHECK_INT(chown(dir, rows[i].uid, rows[i].gid), 0);
        launcher_call(&c, &req, &folder, 1, rows[i].want);
    }
    CHECK_INT(rmdir(dir), 0);
}

/* Two boxes that write there at once could deceive each other, and later readers. */
TEST(a_lent_folder_is_in_one_box_at_a_time)
{
    char dir[] = "/tmp/husk-lent-XXXXXX";
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    AUTO_CLOSE int folder = -1;
    const int fds[LAUNCHER_BOX_FDS] = {0, 1, 2, 2};
    static const char *const words[] = {"/husk/husk-init", "start", "/bin/bash"};

    CHECK(mkdtemp(dir) != NULL && chown(dir, ORDINARY, ORDINARY) == 0);
    folder = open(dir, O_PATH | O_CLOEXEC);
    launcher_greet(&c);
    uint32_t id = launcher_template(&c, 2);
    struct launcher_req mount = {.op = LAUNCHER_MOUNT,
                                 .template_id = id,
                                 .place = {.path = "/data", .kind = LAUNCHER_WRITABLE}};
    struct launcher_req start = {.op = LAUNCHER_START, .template_id = id};
    struct launcher_req second = {
        .op = LAUNCHER_BOX, .template_id = id, .box.limits = limits_default()};
    launcher_fill(&c, id);
    launcher_call(&c, &mount, &folder, 1, LAUNCHER_EV_OK);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        launcher_text(&c, id, LAUNCHER_ARG, words[i]);
    }
    launcher_call(&c, &start, NULL, 0, LAUNCHER_EV_OK);
    struct launcher_box first = launcher_box(&c, id, 0);
    struct launcher_rep rep = launcher_call(&c, &second, fds, LAUNCHER_BOX_FDS, LAUNCHER_EV_ERROR);
    CHECK_INT(rep.err.code, ERR_LIMIT);
    launcher_box_release(&first);
    CHECK_INT(rmdir(dir), 0);
}

enum swap { SWAP_NOTHING, SWAP_OTHER_FOLDER, SWAP_AWAY };

/* A descriptor of this folder as a process in another mount namespace sees it. */
static int open_elsewhere(const char *dir)
{
    AUTO_CLOSE int ours = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

    CHECK_INT(unshare(CLONE_NEWNS), 0);
    int fd = open(dir, O_PATH | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(setns(ours, CLONE_NEWNS), 0);
    return fd;
}

/*
 * A launcher that is root and opened the path would tell what is there now, and mount what lies
 * below it in its own namespace, which the client may never have seen.
 */
TEST(no_source_is_opened_again_by_its_path)
{
    static const char *const names[] = {"the same", "swapped", "gone"};
    char dir[] = "/tmp/husk-source-XXXXXX";
    char source[64];
    char moved[64];
    char first[sizeof(((struct launcher_rep *)0)->err.msg)] = "";
    AUTO_LAUNCHER struct launcher_client c = launcher_open();

    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(str_format(source, sizeof(source), "%s/source", dir), 0);
    CHECK_INT(str_format(moved, sizeof(moved), "%s/moved", dir), 0);
    launcher_greet(&c);
    uint32_t id = launcher_template(&c, 1);
    for (int swap = SWAP_NOTHING; swap <= SWAP_AWAY; swap++) {
        struct launcher_req req = {
            .op = LAUNCHER_MOUNT, .template_id = id, .place = {.path = "/data"}};
        CHECK_INT(mkdir(source, 0755), 0);
        AUTO_CLOSE int fd = open_elsewhere(source);
        if (swap != SWAP_NOTHING) {
            CHECK_INT(rename(source, moved), 0);
            CHECK(swap == SWAP_AWAY || mkdir(source, 0755) == 0);
        }
        CASE("what is at the path is %s", names[swap]);
        struct launcher_rep rep = launcher_call(&c, &req, &fd, 1, LAUNCHER_EV_ERROR);
        CHECK_INT(rep.err.code, ERR_INVALID);
        CHECK_HAS(rep.err.msg, "another mount namespace");
        if (swap == SWAP_NOTHING) {
            CHECK_INT(str_copy(first, sizeof(first), rep.err.msg), 0);
        }
        CHECK_STR(rep.err.msg, first); /* the answer does not depend on what the path names */
        CHECK(swap == SWAP_AWAY || rmdir(source) == 0);
        CHECK(swap == SWAP_NOTHING || rmdir(moved) == 0);
    }
    CHECK_INT(rmdir(dir), 0);
}

/* What is copied lies in the memory of the zygote's root, not in a file of the host's. */
TEST(only_small_files_are_copied)
{
    static const struct {
        off_t size;
        const char *message;
    } rows[] = {
        {COPY_MAX, "died while starting"}, /* it is no zygote, but its root was built */
        {COPY_MAX + 1, "copy /copied"},
    };
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    AUTO_CLOSE int file = memfd_create("copied", MFD_CLOEXEC);

    launcher_greet(&c);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t id = launcher_template(&c, 1);
        struct launcher_req start = {.op = LAUNCHER_START, .template_id = id};
        struct launcher_req copy = {.op = LAUNCHER_MOUNT,
                                    .template_id = id,
                                    .place = {.path = "/copied", .kind = LAUNCHER_COPY}};
        CASE("%lld bytes", (long long)rows[i].size);
        CHECK_INT(ftruncate(file, rows[i].size), 0);
        launcher_fill(&c, id);
        launcher_text(&c, id, LAUNCHER_ARG, "/usr/bin/true");
        launcher_call(&c, &copy, &file, 1, LAUNCHER_EV_OK);
        struct launcher_rep rep = launcher_call(&c, &start, NULL, 0, LAUNCHER_EV_ERROR);
        CHECK(strstr(rep.err.msg, rows[i].message) != NULL);
    }
}

static void make_link(void)
{
    CHECK_INT(symlink("/run/elsewhere", LEASES), 0);
}

static void make_folder(void)
{
    CHECK_INT(mkdir(LEASES, 0700), 0);
}

static void make_fifo(void)
{
    CHECK_INT(mkfifo(LEASES, 0600), 0);
}

static void make_foreign(void)
{
    CHECK_INT(mknod(LEASES, S_IFREG | 0600, 0), 0);
    CHECK_INT(chown(LEASES, ORDINARY, ORDINARY), 0);
}

/* Another user that could lock its ranges would decide which ids a box gets. */
TEST(ids_are_leased_from_a_file_of_our_own_only)
{
    static const struct {
        const char *what;
        void (*make)(void);
    } rows[] = {
        {"a link", make_link},
        {"a folder", make_folder},
        {"a fifo", make_fifo},
        {"another user's", make_foreign},
    };
    struct launcher_req req = {.op = LAUNCHER_TEMPLATE,
                               .template = {.name = "t", .base = "t", .boxes = 1}};

    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    CHECK_INT(unshare(CLONE_NEWNS), 0);
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].what);
        CHECK_INT(mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"), 0);
        CHECK_INT(mkdir("/run/husk", 0700), 0);
        rows[i].make();
        AUTO_LAUNCHER struct launcher_client c = launcher_open();
        launcher_greet(&c);
        launcher_call(&c, &req, NULL, 0, LAUNCHER_EV_ERROR);
        CHECK_INT(unlinkat(AT_FDCWD, LEASES, rows[i].make == make_folder ? AT_REMOVEDIR : 0), 0);
        launcher_call(&c, &req, NULL, 0, LAUNCHER_EV_OK);
        CHECK(access("/run/elsewhere", F_OK) < 0);
    }
}

/* Programs that it starts inherit nothing, even if they close no descriptors. */
TEST(no_descriptor_of_a_launcher_survives_an_exec)
{
    char path[64];
    size_t seen = 0;

    /* It gets none of our descriptors. */
    CHECK_INT(close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC), 0);
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    launcher_greet(&c);
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    CHECK_INT(str_format(path, sizeof(path), "/proc/%d/fd", c.pid), 0);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (const struct dirent *d = readdir(dir); d != NULL; d = readdir(dir)) {
        long fd = strtol(d->d_name, NULL, 10);
        if (d->d_name[0] == '.' || fd <= STDERR_FILENO) {
            continue;
        }
        CHECK_INT(str_format(path, sizeof(path), "fdinfo/%ld", fd), 0);
        const char *flags = strstr(proc_file(c.pid, path), "flags:");
        if (flags == NULL) {
            continue; /* closed meanwhile */
        }
        CASE("descriptor %ld: %s", fd, flags);
        CHECK((strtoul(flags + strlen("flags:"), NULL, 8) & O_CLOEXEC) != 0);
        seen++;
    }
    closedir(dir);
    CHECK(seen > 5);
    launcher_box_release(&box);
}

/* Its zygote's number would name another process there, which got its id map and its score. */
TEST(a_launcher_does_without_a_proc_that_is_not_its_own)
{
    struct launcher_req hello = {.op = LAUNCHER_HELLO, .hello.protocol = LAUNCHER_PROTOCOL};
    struct launcher_rep rep;

    if (geteuid() != 0) {
        SKIP("a new pid namespace needs root");
    }
    AUTO_CLOSE int ours = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    CHECK_INT(unshare(CLONE_NEWPID), 0);
    struct launcher_client c = launcher_open();
    CHECK_INT(setns(ours, CLONE_NEWPID), 0); /* where a sanitizer's helper can see us at our end */
    launcher_send(&c, &hello, NULL, 0);
    CHECK(launcher_next(&c, &rep));
    CHECK_INT(rep.event, LAUNCHER_EV_ERROR);
    CHECK_HAS(rep.err.msg, "/proc");
    launcher_expect_hangup(&c);
    fd_close(&c.sock);
}
