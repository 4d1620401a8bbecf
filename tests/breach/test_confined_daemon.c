/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A taken-over huskd with its account, descriptors, Landlock rules and filter: files outside its
 * store, other processes and rights of its own stay out of reach. The system calls that it does not
 * have are in test_confined_daemon_calls.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/landlock.h"
#include "confined_fixture.h"
#include "tap.h"

/* ---- files outside the store: every user may write in open/, so Landlock alone refuses ---- */

ATTEMPT(makes_a_file_outside_its_store, "make a file in a folder that is open to all", "EACCES")
{
    return confined_result(open("open/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

ATTEMPT(writes_a_file_outside_its_store, "write a file that is open to all", "EACCES")
{
    return confined_result(open("open/shared", O_WRONLY | O_CLOEXEC));
}

ATTEMPT(moves_a_file_out_of_its_store, "move a file of its own to another folder", "EACCES EXDEV")
{
    return confined_result(rename("data/store/own", "open/own"));
}

ATTEMPT(moves_a_file_into_its_store, "move another's file to its store", "EACCES EXDEV")
{
    return confined_result(rename("open/shared", "data/store/shared"));
}

ATTEMPT(links_a_file_out_of_its_store, "give its own file a name elsewhere", "EACCES EXDEV EPERM")
{
    return confined_result(link("data/store/own", "open/own"));
}

ATTEMPT(leaves_a_symbolic_link, "make a symbolic link elsewhere", "EACCES")
{
    return confined_result(symlink("/etc/shadow", "open/link"));
}

ATTEMPT(makes_a_folder_outside_its_store, "make a folder elsewhere", "EACCES")
{
    return confined_result(mkdir("open/folder", 0777));
}

ATTEMPT(leaves_a_pipe_outside_its_store, "make a named pipe elsewhere", "EACCES")
{
    return confined_result(mkfifo("open/pipe", 0666));
}

ATTEMPT(removes_a_file_outside_its_store, "remove another's file", "EACCES")
{
    return confined_result(unlink("open/shared"));
}

static long try_truncate(void)
{
    return confined_result(truncate("open/shared", 0));
}

TEST(a_confined_daemon_truncates_a_file_outside_its_store)
{
    if (landlock_abi() < 3) {
        SKIP("Landlock refuses truncate() from Linux 6.2 on");
    }
    confined_try("empty another's file by its path", "EACCES", try_truncate);
}

ATTEMPT(binds_a_socket_outside_its_store, "bind a unix socket elsewhere", "EACCES")
{
    const struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "open/socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return confined_result(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)));
}

ATTEMPT(goes_through_a_link_of_its_own, "write through a symbolic link in its store", "EACCES")
{
    if (symlink("../../open/shared", "data/store/link") < 0) {
        return 0;
    }
    return confined_result(open("data/store/link", O_WRONLY | O_CLOEXEC));
}

/* ---- the supervisor's files ---- */

ATTEMPT(writes_the_log, "append to the supervisor's log", "EACCES")
{
    return confined_result(open("data/husk.log", O_WRONLY | O_APPEND | O_CLOEXEC));
}

ATTEMPT(reads_the_pid_file, "open husk.pid, to hold a lock on it", "EACCES")
{
    return confined_result(open("data/husk.pid", O_RDONLY | O_CLOEXEC));
}

ATTEMPT(swaps_the_pid_file, "exchange husk.pid for a file of its own", "EACCES EXDEV")
{
    return confined_result(
        renameat2(AT_FDCWD, "data/store/own", AT_FDCWD, "data/husk.pid", RENAME_EXCHANGE));
}

ATTEMPT(replaces_the_settings, "put settings of its own in place", "EACCES EXDEV")
{
    return confined_result(rename("data/store/own", "data/settings"));
}

ATTEMPT(leaves_a_plan, "make agents.json in the data folder", "EACCES")
{
    return confined_result(open("data/agents.json", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

ATTEMPT(moves_its_store_away, "rename its store, to put a link in its place", "EACCES EXDEV")
{
    return confined_result(rename("data/store", "data/elsewhere"));
}

ATTEMPT(opens_the_log_to_all, "change the mode of the log", "EPERM")
{
    return confined_result(chmod("data/husk.log", 0666));
}

ATTEMPT(takes_the_log, "change the owner of the log", "EPERM")
{
    return confined_result(chown("data/husk.log", confined.uid, confined.gid));
}

ATTEMPT(gives_a_file_to_root, "give a file of its own to root", "EPERM")
{
    return confined_result(chown("data/store/own", 0, 0));
}

ATTEMPT(writes_in_the_lib_folder, "make a file among husk's own, by descriptor", "EACCES")
{
    return confined_result(openat(CONFINED_LIB, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

ATTEMPT(writes_the_plan, "write to the plan of agents", "EPERM EBADF")
{
    return confined_result(pwrite(CONFINED_PLAN, "{", 1, 0));
}

ATTEMPT(opens_the_plan_anew, "open the plan of agents again for writing", "EACCES EPERM")
{
    int fd = open("/proc/self/fd/5", O_RDWR | O_CLOEXEC);

    return fd < 0 ? -errno : confined_result(pwrite(fd, "{", 1, 0));
}

ATTEMPT(makes_a_device, "make a block device in its store", "EPERM")
{
    return confined_result(mknod("data/store/disk", S_IFBLK | 0600, (dev_t)8 << 8));
}

ATTEMPT(reads_the_passwords, "read /etc/shadow", "EACCES")
{
    return confined_result(open("/etc/shadow", O_RDONLY | O_CLOEXEC));
}

/* ---- processes ---- */

static long open_memory(pid_t pid, int flags)
{
    char path[64];

    (void)str_format(path, sizeof(path), "/proc/%d/mem", pid);
    return confined_result(open(path, flags | O_CLOEXEC));
}

ATTEMPT(opens_the_memory_of_root, "open the memory of a process of root's", "EACCES EPERM")
{
    return open_memory(confined.root, O_RDWR);
}

/* The same user, and dumpable: Landlock lets no process look outside its domain. */
ATTEMPT(reads_the_memory_of_its_account, "read a process of its own account", "EACCES EPERM")
{
    return open_memory(confined.stranger, O_RDONLY);
}

ATTEMPT(traces_root, "trace a process of root's", "EPERM")
{
    return confined_result(ptrace(PTRACE_SEIZE, confined.root, NULL, NULL));
}

ATTEMPT(traces_its_account, "trace a process of its own account", "EPERM")
{
    return confined_result(ptrace(PTRACE_SEIZE, confined.stranger, NULL, NULL));
}

ATTEMPT(copies_memory_of_its_account, "copy memory of another process", "EPERM")
{
    char here[8];
    struct iovec local = {here, sizeof(here)};
    struct iovec remote = {&confined, sizeof(here)};

    return confined_result(process_vm_readv(confined.stranger, &local, 1, &remote, 1, 0));
}

ATTEMPT(takes_a_descriptor, "take a descriptor of another process", "EPERM")
{
    int pidfd = (int)syscall(SYS_pidfd_open, confined.stranger, 0);

    return pidfd < 0 ? 0 : confined_result(syscall(SYS_pidfd_getfd, pidfd, 0, 0));
}

/* SIGCONT does no harm where it arrives. */
ATTEMPT(signals_root, "send a signal to a process of root's", "EPERM")
{
    return confined_result(kill(confined.root, SIGCONT));
}

static long try_signal(void)
{
    return confined_result(kill(confined.stranger, SIGCONT));
}

TEST(a_confined_daemon_signals_its_account)
{
    if (landlock_abi() < 6) {
        SKIP("Landlock refuses signals from Linux 6.12 on");
    }
    confined_try("send a signal to a process of its own account", "EPERM", try_signal);
}

/* ---- rights ---- */

ATTEMPT(becomes_root, "become user 0", "EPERM")
{
    return confined_result(setresuid(0, 0, 0));
}

ATTEMPT(joins_the_group_of_root, "become group 0", "EPERM")
{
    return confined_result(setresgid(0, 0, 0));
}

/* The bit for CAP_DAC_OVERRIDE in all of version 3's sets. */
ATTEMPT(takes_a_capability, "give itself a capability", "EPERM")
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = 2, .permitted = 2}};

    return confined_result(syscall(SYS_capset, &head, data));
}

/* Which user a set-uid copy of id(1) runs as, as text. */
static long try_set_uid(void)
{
    char text[16] = "";
    int out[2];

    if (pipe2(out, O_CLOEXEC) < 0) {
        return 0;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        execl("id", "id", "-u", (char *)NULL);
        _exit(1);
    }
    close(out[1]);
    (void)!read(out[0], text, sizeof(text) - 1);
    waitpid(pid, NULL, 0);
    return strtoul(text, NULL, 10) == confined.uid ? -EPERM : 0;
}

TEST(a_confined_daemon_runs_a_set_uid_program)
{
    struct statvfs fs;

    CHECK_INT(statvfs("/tmp", &fs), 0);
    if ((fs.f_flag & ST_NOSUID) != 0) {
        SKIP("/tmp is mounted nosuid");
    }
    confined_try("gain rights by a set-uid program of root's", "EPERM", try_set_uid);
}

ATTEMPT(raises_a_limit, "raise the hard limit of its descriptors", "EPERM")
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
        return 0;
    }
    files.rlim_max++;
    return confined_result(setrlimit(RLIMIT_NOFILE, &files));
}

ATTEMPT(runs_in_real_time, "take real-time priority", "EPERM")
{
    return confined_result(
        sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}));
}

ATTEMPT(is_spared_when_memory_is_short, "be spared by the out-of-memory killer", "EACCES EPERM")
{
    return fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "-1000");
}
