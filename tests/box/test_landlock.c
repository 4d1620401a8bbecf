/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock alone. In a box read-only mounts, ids and namespaces stand before it and nothing ever
 * reaches it, so that a rule that is lost there would go unnoticed: here it is the only wall, and
 * the process that runs into it is root.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/landlock.h"
#include "tap.h"

#define OPEN_DEVICE "/dev/zero" /* a rule for what is no folder */
#define SHUT_DEVICE "/dev/null"

static char dir[] = "/tmp/husk-landlock-XXXXXX";

/*
 * Two folders with the same things in them: one of which a box may write, and one which it may not.
 */
static void make_folders(void)
{
    static const char *const folders[] = {"open", "open/dir", "open/other",
                                          "shut", "shut/dir", "shut/other"};
    static const char *const files[] = {"open/file", "open/dir/moved", "shut/file",
                                        "shut/dir/moved"};

    if (geteuid() != 0) {
        SKIP("only root is stopped by nothing else");
    }
    if (landlock_abi() == 0) {
        SKIP("this kernel has no Landlock");
    }
    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(chdir(dir), 0);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        CHECK_INT(mkdir(folders[i], 0700), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        AUTO_CLOSE int fd = open(files[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CHECK_INT(fd_write_all(fd, "text", 4), 0);
    }
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

/* In a process of its own: a confined one cannot clean up. */
static void run_confined(void (*body)(int abi), int abi)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        body(abi);
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

static void remove_folders(void)
{
    CHECK_INT(chdir("/"), 0);
    CHECK_INT(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void confine(int abi)
{
    const char *const writable[] = {"open", OPEN_DEVICE};
    struct err e = {0};

    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (landlock_confine(abi, writable, ARRAY_LEN(writable), &e) < 0) {
        tap_fail(__FILE__, __LINE__, "%s", e.msg);
    }
}

/* Each of them works on the names in the current directory; -1 with errno if it is refused. */

static int do_read(void)
{
    AUTO_CLOSE int fd = open("file", O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -1 : 0;
}

static int do_list(void)
{
    AUTO_CLOSE int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -1 : 0;
}

static int do_write(void)
{
    AUTO_CLOSE int fd = open("file", O_WRONLY | O_CLOEXEC);

    return fd < 0 ? -1 : 0;
}

static int do_truncate(void)
{
    return truncate("file", 1);
}

static int do_make_file(void)
{
    AUTO_CLOSE int fd = open("new", O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd < 0 ? -1 : 0;
}

static int do_make_folder(void)
{
    return mkdir("new-folder", 0700);
}

static int do_make_link(void)
{
    return symlink("file", "new-link");
}

static int do_make_fifo(void)
{
    return mkfifo("new-fifo", 0600);
}

static int do_make_socket(void)
{
    return mknod("new-socket", S_IFSOCK | 0600, 0);
}

static int do_make_char(void)
{
    return mknod("new-char", S_IFCHR | 0600, makedev(1, 3));
}

static int do_make_block(void)
{
    return mknod("new-block", S_IFBLK | 0600, makedev(7, 0));
}

static int do_remove_file(void)
{
    return unlink("dir/moved");
}

static int do_move(void)
{
    return rename("dir/moved", "other/moved");
}

static int do_remove_folder(void)
{
    return rmdir("dir");
}

static int in_folder(const char *name, int (*act)(void))
{
    char path[128];

    CHECK_INT(str_format(path, sizeof(path), "%s/%s", dir, name), 0);
    CHECK_INT(chdir(path), 0);
    return act() < 0 ? errno : 0;
}

static void write_everywhere(int abi)
{
    static const struct {
        const char *what;
        int (*act)(void);
        int abi;  /* from which on it is refused */
        int want; /* where it is not allowed */
    } rows[] = {
        {"read a file", do_read, 1, 0},
        {"list a folder", do_list, 1, 0},
        {"write a file", do_write, 1, EACCES},
        {"truncate a file", do_truncate, 3, EACCES},
        {"make a file", do_make_file, 1, EACCES},
        {"make a folder", do_make_folder, 1, EACCES},
        {"make a link", do_make_link, 1, EACCES},
        {"make a fifo", do_make_fifo, 1, EACCES},
        {"make a socket", do_make_socket, 1, EACCES},
        {"make a character device", do_make_char, 1, EACCES},
        {"make a block device", do_make_block, 1, EACCES},
        {"move a file to another folder", do_move, 2, EACCES},
        {"remove a file", do_remove_file, 1, EACCES},
        {"remove a folder", do_remove_folder, 1, EACCES},
    };

    confine(abi);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].what);
        if (rows[i].abi <= abi) {
            CHECK_INT(in_folder("shut", rows[i].act), rows[i].want);
        }
        if (rows[i].act != do_remove_file) { /* it has been moved away */
            CHECK_INT(in_folder("open", rows[i].act), 0);
        }
    }
}

TEST(only_what_is_writable_is_written)
{
    make_folders();
    run_confined(write_everywhere, landlock_abi());
    remove_folders();
}

static void command_devices(int abi)
{
    struct termios modes;

    confine(abi);
    AUTO_CLOSE int open_device = open(OPEN_DEVICE, O_RDWR | O_CLOEXEC);
    AUTO_CLOSE int shut_device = open(SHUT_DEVICE, O_RDONLY | O_CLOEXEC);
    CHECK(open_device >= 0 && shut_device >= 0);
    CHECK(ioctl(open_device, TCGETS, &modes) < 0);
    CHECK_INT(errno, ENOTTY); /* asked and answered */
    CHECK(ioctl(shut_device, TCGETS, &modes) < 0);
    CHECK_INT(errno, EACCES);
    CHECK(open(SHUT_DEVICE, O_WRONLY | O_CLOEXEC) < 0);
    CHECK_INT(errno, EACCES);
}

TEST(only_devices_that_may_be_written_take_commands)
{
    if (landlock_abi() < 5) {
        SKIP("this kernel's Landlock knows no device commands");
    }
    make_folders();
    run_confined(command_devices, landlock_abi());
    remove_folders();
}

static int named_socket(const char *name, struct sockaddr_un *ret)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    CHECK_INT(str_format(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "%s-%d", name, getpid()), 0);
    CHECK_INT(bind(fd, (const struct sockaddr *)ret, sizeof(*ret)), 0);
    CHECK_INT(listen(fd, 1), 0);
    return fd;
}

static int reach(const struct sockaddr_un *name)
{
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return connect(fd, (const struct sockaddr *)name, sizeof(*name)) < 0 ? errno : 0;
}

static pid_t start_sleeper(int until)
{
    pid_t pid = fork();
    char byte;

    if (pid == 0) {
        _exit(read(until, &byte, 1) < 0);
    }
    CHECK(pid > 0);
    return pid;
}

static void reach_out(int abi)
{
    struct sockaddr_un outside_name;
    struct sockaddr_un inside_name;
    int until[2];

    CHECK_INT(pipe2(until, O_CLOEXEC), 0);
    AUTO_CLOSE int outside = named_socket("husk-outside", &outside_name);
    pid_t stranger = start_sleeper(until[0]);
    CHECK_INT(reach(&outside_name), 0);
    CHECK_INT(kill(stranger, 0), 0);
    confine(abi);
    AUTO_CLOSE int inside = named_socket("husk-inside", &inside_name);
    pid_t own = start_sleeper(until[0]);
    CHECK(outside >= 0 && inside >= 0);
    CHECK_INT(reach(&outside_name), EPERM);
    CHECK(kill(stranger, SIGKILL) < 0);
    CHECK_INT(errno, EPERM);
    CHECK_INT(reach(&inside_name), 0);
    CHECK_INT(kill(own, SIGKILL), 0);
    CHECK_INT(waitpid(own, NULL, 0), own);
    CHECK_INT(write(until[1], "", 1), 1);
    CHECK_INT(waitpid(stranger, NULL, 0), stranger);
}

TEST(sockets_and_processes_outside_are_out_of_reach)
{
    if (landlock_abi() < 6) {
        SKIP("this kernel's Landlock has no scopes");
    }
    make_folders();
    run_confined(reach_out, landlock_abi());
    remove_folders();
}

static void write_files(int abi)
{
    confine(abi);
    CHECK_INT(in_folder("open", do_write), 0);
    CHECK_INT(in_folder("shut", do_write), EACCES);
    CHECK_INT(in_folder("shut", do_truncate), abi < 3 ? 0 : EACCES);
}

/*
 * A kernel that knows less enforces what it knows; what it does not know must not make it refuse
 * the whole.
 */
TEST(older_kernels_get_what_they_know)
{
    make_folders();
    for (int abi = 1; abi <= landlock_abi(); abi++) {
        CASE("ABI %d", abi);
        run_confined(write_files, abi);
    }
    remove_folders();
}
