/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mounts of a box, flag by flag. Most flags are a second wall: Landlock, ids or no_new_privs
 * refuse the same thing before, so what a program can do says nothing about them. The kernel's own
 * list does.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define LINES_MAX 256
#define ORDINARY 54321 /* an id that no account has */

/* A line of mountinfo. */
struct line {
    char path[256];
    char options[128];
    char spreads[128]; /* "-", unless mounts made elsewhere show up here */
};

struct lines {
    struct line list[LINES_MAX];
    size_t n;
};

static void read_mounts(pid_t pid, struct lines *ret)
{
    const char *at = proc_file(pid, "mountinfo");

    ret->n = 0;
    while (*at != '\0') {
        struct line *l = &ret->list[ret->n++];
        CHECK(ret->n < LINES_MAX);
        CHECK_INT(sscanf(at, "%*s %*s %*s %*s %255s %127s %127s", l->path, l->options, l->spreads),
                  3);
        at += strcspn(at, "\n") + 1;
    }
}

static bool is_covered(const struct lines *lines, size_t i)
{
    for (size_t later = i + 1; later < lines->n; later++) {
        if (str_eq(lines->list[later].path, lines->list[i].path)) {
            return true;
        }
    }
    return false;
}

static bool has_option(const char *options, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = options; (at = strstr(at, name)) != NULL; at += n) {
        if ((at == options || at[-1] == ',') && (at[n] == ',' || at[n] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Those that take something away, in this order. */
static const char *flags_of(const struct line *l)
{
    static const char *const names[] = {"ro", "nosuid", "nodev", "noexec"};
    static char text[64];

    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (has_option(l->options, names[i])) {
            size_t used = strlen(text);
            CHECK_INT(
                str_format(text + used, sizeof(text) - used, "%s%s", used > 0 ? " " : "", names[i]),
                0);
        }
    }
    return text;
}

static const char *wanted_flags(const char *path)
{
    static const struct {
        const char *path, *flags;
    } rows[] = {
        {"/dev", "ro nosuid noexec"},
        {"/dev/pts", "nosuid noexec"},
        {"/proc", "ro nosuid nodev noexec"},
        {"/run/box", "nosuid nodev"},
        {"/workspace", "nosuid nodev"},
        {"/tmp", "nosuid nodev"},
        {"/run/uuid", "ro nosuid nodev noexec"},
    };
    char host[300];
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_eq(rows[i].path, path)) {
            return rows[i].flags;
        }
    }
    CHECK_INT(str_format(host, sizeof(host), "%s", path), 0);
    if (str_starts(path, "/proc/") && stat(host, &st) == 0 && S_ISREG(st.st_mode)) {
        return "ro nosuid noexec"; /* a mask made of /dev/null */
    }
    return "ro nosuid nodev"; /* the template's, and masks made of an empty folder */
}

/*
 * Two parked boxes of each kind of zygote: one that forks an interpreter, and one that starts it.
 */
static void raise_boxes(struct husk_engine *engine, struct proc_list *ret)
{
    static struct proc_list zygotes;
    static struct proc_list first;
    struct husk_error e;

    CHECK_OK(husk_pool_set(engine, "python", NULL, 1, 1, &e), &e);
    CHECK_OK(husk_pool_set(engine, "shell", NULL, 1, 1, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", 1, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "shell", 1, &e), &e);
    proc_zygotes(proc_launcher(), &zygotes);
    ret->n = 0;
    for (size_t i = 0; i < zygotes.n; i++) {
        proc_children(zygotes.pids[i], &first);
        CHECK_INT(first.n, 1);
        ret->pids[ret->n++] = first.pids[0];
    }
    CHECK_INT(ret->n, 2);
}

TEST(no_mount_of_a_box_can_do_more_than_it_must)
{
    static struct proc_list boxes;
    static struct lines lines;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    raise_boxes(engine, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        read_mounts(boxes.pids[i], &lines);
        CHECK(lines.n > 10);
        for (size_t k = 0; k < lines.n; k++) {
            const struct line *l = &lines.list[k];
            CASE("box %zu: %s with %s", i, l->path, l->options);
            CHECK(has_option(l->options, "nosuid")); /* also beneath others */
            CHECK_STR(l->spreads, "-");
            if (!is_covered(&lines, k)) {
                CHECK_STR(flags_of(l), wanted_flags(l->path));
            }
        }
    }
}

/* Workspace and /tmp are folders of one disk. A file beside them would be invisible. */
TEST(the_disk_itself_is_not_the_boxs)
{
    static struct proc_list boxes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    char path[64];
    struct stat disk;
    struct stat workspace;

    raise_boxes(engine, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        CASE("box %zu", i);
        CHECK_INT(str_format(path, sizeof(path), "/proc/%d/root/workspace", boxes.pids[i]), 0);
        CHECK_INT(stat(path, &workspace), 0);
        CHECK_INT(str_format(path, sizeof(path), "/proc/%d/root/run/box", boxes.pids[i]), 0);
        CHECK_INT(stat(path, &disk), 0);
        CHECK_INT(disk.st_dev, workspace.st_dev);
        CHECK_INT(disk.st_mode & 07777, 0711);
        CHECK(disk.st_uid != workspace.st_uid && disk.st_gid != workspace.st_gid);
        CHECK_INT(workspace.st_mode & 07777, 0700);
    }
}

TEST(what_tells_about_the_host_is_masked)
{
    static const char *const names[] = {"bootconfig", "buddyinfo",     "cgroups",       "cmdline",
                                        "config.gz",  "diskstats",     "interrupts",    "kallsyms",
                                        "keys",       "latency_stats", "locks",         "mdstat",
                                        "modules",    "partitions",    "sched_debug",   "schedstat",
                                        "swaps",      "zoneinfo",      "acpi",          "asound",
                                        "bus",        "driver",        "dynamic_debug", "fs",
                                        "irq",        "pressure",      "scsi",          "sys"};
    static struct proc_list boxes;
    static struct lines lines;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    char path[64];

    raise_boxes(engine, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        read_mounts(boxes.pids[i], &lines);
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            bool masked = false;
            CHECK_INT(str_format(path, sizeof(path), "/proc/%s", names[k]), 0);
            CASE("box %zu: %s", i, path);
            for (size_t at = 0; at < lines.n; at++) {
                masked = masked || str_eq(lines.list[at].path, path);
            }
            CHECK(masked || access(path, F_OK) < 0); /* not every kernel has all of them */
        }
    }
}

/* As the kernel keeps it for the user namespace of that process. */
static void read_quota(pid_t pid, const char *name, char *ret, size_t size)
{
    char path[96];
    int pipe_fds[2];

    CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK_INT(str_format(path, sizeof(path), "/proc/%d/ns/user", pid), 0);
        AUTO_CLOSE int ns = open(path, O_RDONLY | O_CLOEXEC);
        CHECK_INT(setns(ns, CLONE_NEWUSER), 0);
        CHECK_INT(str_format(path, sizeof(path), "/proc/sys/user/%s", name), 0);
        ssize_t n = fd_read_file(AT_FDCWD, path, ret, size);
        CHECK(n > 0 && fd_write_all(pipe_fds[1], ret, (size_t)n) == 0);
        _exit(0);
    }
    close(pipe_fds[1]);
    ssize_t n = fd_read_all(pipe_fds[0], ret, size - 1);
    CHECK(n > 0);
    ret[n] = '\0';
    close(pipe_fds[0]);
    CHECK_INT(waitpid(child, NULL, 0), child);
}

/* What a box reads in its /proc/sys is a copy: it must say what the kernel does. */
TEST(the_quotas_that_a_box_is_shown_are_in_force)
{
    static const char *const names[] = {"max_user_namespaces", "max_inotify_instances"};
    static struct proc_list boxes;
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    char name[96];
    char shown[32];
    char kept[32];

    raise_boxes(engine, &boxes);
    for (size_t i = 0; i < boxes.n; i++) {
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            CASE("box %zu: %s", i, names[k]);
            CHECK_INT(str_format(name, sizeof(name), "root/proc/sys/user/%s", names[k]), 0);
            CHECK_INT(str_copy(shown, sizeof(shown), proc_file(boxes.pids[i], name)), 0);
            read_quota(boxes.pids[i], names[k], kept, sizeof(kept));
            CHECK_STR(kept, shown);
            CHECK_STR(kept, k == 0 ? "0\n" : "16\n");
        }
    }
}

static const char show_mounts[] =
    "import errno\n"
    "for line in open('/proc/self/mountinfo'):\n"
    "    words = line.split()\n"
    "    if words[4].startswith('/data'):\n"
    "        flags = [w for w in words[5].split(',') if w in ('ro', 'nosuid', 'nodev')]\n"
    "        print(words[4], *flags, words[6])\n"
    "for path in '/data/new', '/data/below/new':\n"
    "    try: print(open(path, 'w').close())\n"
    "    except OSError as e: print(errno.errorcode[e.errno])\n";

/*
 * As a careless host has them: mounts that spread, one below the other, on which everything is
 * allowed.
 */
static void mount_carelessly(const char *dir)
{
    char below[64];

    CHECK_INT(unshare(CLONE_NEWNS), 0);
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_INT(mount("tmpfs", dir, "tmpfs", 0, "mode=0777"), 0);
    CHECK_INT(str_format(below, sizeof(below), "%s/below", dir), 0);
    CHECK_INT(mkdir(below, 0777), 0);
    CHECK_INT(mount("tmpfs", below, "tmpfs", 0, "mode=0777"), 0);
    CHECK_INT(mount(NULL, dir, NULL, MS_REC | MS_SHARED, NULL), 0);
}

TEST(what_is_mounted_below_a_mount_is_restricted_with_it)
{
    char dir[] = "/tmp/husk-test-XXXXXX";
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, show_mounts);
    struct husk_mount mount = {.host = dir, .box = "/data", .read_only = true};
    AUTO_RESULT struct husk_result *read_only = NULL;
    AUTO_RESULT struct husk_result *writable = NULL;

    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    CHECK(mkdtemp(dir) != NULL);
    mount_carelessly(dir);
    engine = fixture_open();
    spec.mounts = &mount;
    spec.n_mounts = 1;
    read_only = fixture_run(engine, &spec);
    CHECK_STR(read_only->out, "/data ro nosuid nodev -\n/data/below ro nosuid nodev -\n"
                              "EROFS\nEROFS\n");
    mount.read_only = false;
    CHECK_INT(chown(dir, ORDINARY, ORDINARY), 0);
    writable = fixture_run(engine, &spec);
    CHECK_HAS(writable->out, "/data nosuid nodev -\n/data/below nosuid nodev -\n");
    CHECK_INT(umount2(dir, MNT_DETACH), 0);
    CHECK_INT(rmdir(dir), 0);
}

/*
 * A folder is shown as the box's own only if its owner is an ordinary user: nothing in a box acts
 * as host id 0.
 */
TEST(what_is_roots_stays_roots)
{
    static const struct {
        uid_t uid;
        gid_t gid;
        bool lent; /* for writing */
        const char *reads;
    } rows[] = {
        {0, 0, false, "EACCES"},
        {0, ORDINARY, false, "EACCES"},
        {ORDINARY, 0, false, "EACCES"},
        {ORDINARY, ORDINARY, true, "[]"},
    };
    char dir[] = "/tmp/husk-test-XXXXXX";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT,
                                         "import errno, os\n"
                                         "try: print(os.listdir('/data'), end='')\n"
                                         "except OSError as e: print(errno.errorcode[e.errno], "
                                         "end='')");
    struct husk_mount mount = {.host = dir, .box = "/data"};

    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(chmod(dir, 0770), 0);
    spec.mounts = &mount;
    spec.n_mounts = 1;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("a folder of %u:%u", rows[i].uid, rows[i].gid);
        CHECK_INT(chown(dir, rows[i].uid, rows[i].gid), 0);
        mount.read_only = true;
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_STR(r->out, rows[i].reads);
        mount.read_only = false;
        if (rows[i].lent) {
            AUTO_RESULT struct husk_result *lent = fixture_run(engine, &spec);
            CHECK_STR(lent->out, rows[i].reads);
        } else {
            CHECK_STR(fixture_refusal(engine, &spec), "invalid_argument");
        }
    }
    CHECK_INT(rmdir(dir), 0);
}
