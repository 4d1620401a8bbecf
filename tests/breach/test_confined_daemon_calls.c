/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A taken-over huskd with its account, descriptors, Landlock rules and filter: the system calls and
 * sockets that it does not have. Files, processes and rights are in test_confined_daemon.c.
 *
 * Arguments are such that a call without the filter succeeds, or fails with an error that is not in
 * the list: the test tells a filter from the kernel's own checks wherever that is possible.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/landlock.h"
#include "confined_fixture.h"
#include "tap.h"

/* ---- namespaces and mounts ---- */

ATTEMPT(mounts, "mount a file system on its store", "EPERM")
{
    return confined_result(mount("tmpfs", "data/store", "tmpfs", 0, NULL));
}

ATTEMPT(unmounts, "unmount /proc", "EPERM")
{
    return confined_result(umount2("/proc", MNT_DETACH));
}

ATTEMPT(makes_a_user_namespace, "make a user namespace, with every capability in it", "EPERM")
{
    return confined_result(unshare(CLONE_NEWUSER));
}

ATTEMPT(clones_into_a_user_namespace, "clone a process into a user namespace", "EPERM")
{
    return confined_result(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL));
}

ATTEMPT(hides_flags_in_clone3, "clone with flags that a filter cannot read", "ENOSYS EPERM")
{
    struct clone_args args = {.flags = CLONE_NEWUSER};

    return confined_result(syscall(SYS_clone3, &args, sizeof(args)));
}

ATTEMPT(enters_a_namespace, "enter its own user namespace again", "EPERM")
{
    return confined_result(setns(open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC), CLONE_NEWUSER));
}

ATTEMPT(changes_its_root, "chroot to its store", "EPERM")
{
    return confined_result(chroot("data/store"));
}

ATTEMPT(clones_a_mount, "clone the mount of /", "EPERM ENOSYS")
{
    return confined_result(syscall(SYS_open_tree, AT_FDCWD, "/", 1));
}

ATTEMPT(opens_a_file_system, "open a file system to mount", "EPERM ENOSYS")
{
    return confined_result(syscall(SYS_fsopen, "tmpfs", 0));
}

/* ---- what kernels were broken by ---- */

ATTEMPT(has_a_keyring, "join a keyring of the host", "EPERM")
{
    return confined_result(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL));
}

ATTEMPT(adds_a_key, "add a key that every process of its account sees", "EPERM")
{
    return confined_result(syscall(SYS_add_key, "user", "husk", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}

ATTEMPT(makes_a_bpf_map, "make a BPF map", "EPERM ENOSYS")
{
    return confined_result(syscall(SYS_bpf, 0, (uint32_t[18]){1, 4, 4, 1}, sizeof(uint32_t[18])));
}

ATTEMPT(makes_a_ring, "set up io_uring", "EPERM ENOSYS")
{
    return confined_result(syscall(SYS_io_uring_setup, 1, (char[120]){0}));
}

ATTEMPT(handles_faults, "handle its own page faults", "EPERM ENOSYS")
{
    return confined_result(syscall(SYS_userfaultfd, 1 | O_CLOEXEC));
}

ATTEMPT(counts_events, "open a performance counter", "EPERM ENOSYS")
{
    return confined_result(
        syscall(SYS_perf_event_open, (char[128]){1, 0, 0, 0, 112}, 0, -1, -1, 0));
}

ATTEMPT(opens_a_file_by_its_handle, "open a file by handle, past every folder", "EPERM ENOSYS")
{
    return confined_result(syscall(SYS_open_by_handle_at, AT_FDCWD, (char[136]){8}, O_RDONLY));
}

ATTEMPT(asks_for_a_handle, "ask for the handle of a file", "EPERM ENOSYS")
{
    struct {
        uint32_t bytes;
        int32_t type;
        char room[128];
    } handle = {.bytes = sizeof(handle.room)};
    int id;

    return confined_result(syscall(SYS_name_to_handle_at, AT_FDCWD, "data/store", &handle, &id, 0));
}

ATTEMPT(loads_a_module, "load a kernel module", "EPERM ENOSYS")
{
    return confined_result(syscall(SYS_finit_module, STDIN_FILENO, "", 0));
}

ATTEMPT(loads_a_kernel, "load another kernel", "EPERM ENOSYS")
{
    return confined_result(syscall(SYS_kexec_load, 0, 0, NULL, 0));
}

ATTEMPT(changes_its_personality, "make addresses predictable", "EPERM ENOSYS")
{
    return confined_result(personality(ADDR_NO_RANDOMIZE));
}

ATTEMPT(watches_every_file, "watch files of the host by fanotify", "EPERM ENOSYS")
{
    return confined_result(syscall(SYS_fanotify_init, 0x200, O_RDONLY));
}

ATTEMPT(makes_secret_memory, "make memory that the kernel cannot look at", "EPERM ENOSYS")
{
    return confined_result(syscall(SYS_memfd_secret, 0));
}

/* Into a pipe, Dirty Pipe's direction: the filter allows the other one only. */
ATTEMPT(splices_into_a_pipe, "splice a file into a pipe", "ENOSYS EPERM")
{
    int fd = open("data/store/own", O_RDONLY | O_CLOEXEC);

    return fd < 0 ? 0 : confined_result(splice(fd, NULL, STDOUT_FILENO, NULL, 1, 0));
}

/* ---- sockets ---- */

ATTEMPT(reads_the_network, "open a packet socket", "EPERM EAFNOSUPPORT")
{
    return confined_result(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0x0300));
}

ATTEMPT(sends_raw_packets, "open a raw IP socket", "EPERM")
{
    return confined_result(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1));
}

ATTEMPT(uses_the_ciphers_of_the_kernel, "open an AF_ALG socket", "EPERM EAFNOSUPPORT")
{
    return confined_result(socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

ATTEMPT(speaks_to_the_hypervisor, "open a vsock socket", "EPERM EAFNOSUPPORT")
{
    return confined_result(socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/* The name of an abstract socket of this test's. */
static struct sockaddr_un abstract(socklen_t *ret_size)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    (void)str_format(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "husk-confined-%d",
                     confined.root);
    *ret_size = sizeof(addr);
    return addr;
}

static long try_abstract(void)
{
    socklen_t size;
    struct sockaddr_un addr = abstract(&size);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return confined_result(connect(fd, (struct sockaddr *)&addr, size));
}

TEST(a_confined_daemon_connects_to_an_abstract_socket)
{
    socklen_t size;

    if (landlock_abi() < 6) {
        SKIP("Landlock refuses abstract sockets from Linux 6.12 on");
    }
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    confined.root = getpid();
    struct sockaddr_un addr = abstract(&size);
    CHECK_INT(bind(fd, (struct sockaddr *)&addr, size), 0);
    CHECK_INT(listen(fd, 1), 0);
    confined_try("connect to an abstract socket of root's", "EPERM", try_abstract);
}

/* ---- terminals ---- */

static char terminal[64];

static long try_typing(void)
{
    int fd = open(terminal, O_RDONLY | O_NOCTTY | O_CLOEXEC);

    return fd < 0 ? 0 : confined_result(ioctl(fd, TIOCSTI, "x"));
}

static long try_writing(void)
{
    return confined_result(open(terminal, O_WRONLY | O_NOCTTY | O_CLOEXEC));
}

/* A terminal that every user may open, as after mesg(1). */
static void try_terminal(const char *what, const char *wanted, long (*attempt)(void))
{
    AUTO_CLOSE int ours = -1;
    AUTO_CLOSE int theirs = -1;

    CHECK_INT(openpty(&ours, &theirs, NULL, NULL, NULL), 0);
    CHECK_INT(ttyname_r(theirs, terminal, sizeof(terminal)), 0);
    CHECK_INT(fchmod(theirs, 0666), 0);
    confined_try(what, wanted, attempt);
}

TEST(a_confined_daemon_types_at_a_terminal)
{
    try_terminal("put a character into another's terminal", "EPERM", try_typing);
}

TEST(a_confined_daemon_writes_to_a_terminal)
{
    try_terminal("write to another's terminal", "EACCES", try_writing);
}
