/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the policies must do, written down a second time and by hand: from the C library's names and
 * not from the policy files, so that a wrong constant or a lost line there shows up here.
 *
 * Data only. test_seccomp.c issues every one of these.
 */
#pragma once

#include <asm/termbits.h>
#include <errno.h>
#include <linux/fs.h>
#include <linux/kd.h>
#include <linux/prctl.h>
#include <linux/vt.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "seccomp_probe.h"

/* Newer than the C library's headers. */
#define NR_OPEN_TREE_ATTR 467
#define NR_CACHESTAT 451
#define OPTION_MEMORY_MERGE 67
#define FAMILY_MAX 64 /* AF_MAX is 46: also some that do not exist yet */

struct arg_case {
    const char *name;
    long nr;
    unsigned long args[3];
    int want; /* WANT_*, or the errno of the refusal */
};

/* Refused by policy, whatever the arguments: SECURITY "refused with EPERM". */
static const int refused_eperm[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_pidfd_getfd,
    SYS_kcmp,
    SYS_mount,
    SYS_umount2,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    NR_OPEN_TREE_ATTR,
    SYS_unshare,
    SYS_setns,
    SYS_chroot,
    SYS_pivot_root,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_acct,
    SYS_syslog,
    SYS_name_to_handle_at,
    SYS_fanotify_init,
    SYS_open_by_handle_at,
    SYS_userfaultfd,
    SYS_mbind,
    SYS_fanotify_mark,
    SYS_set_mempolicy,
    SYS_get_mempolicy,
    SYS_migrate_pages,
    SYS_move_pages,
    SYS_vhangup,
    SYS_lookup_dcookie,
    SYS_set_mempolicy_home_node,
#ifdef __x86_64__
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

/* Refused as if the kernel were older. */
static const int refused_enosys[] = {
    SYS_clone3,           SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
    SYS_io_setup,         SYS_io_destroy,     SYS_io_submit,      SYS_io_cancel,
    SYS_io_getevents,     SYS_io_pgetevents,  SYS_splice,         SYS_tee,
    SYS_vmsplice,         SYS_memfd_secret,   NR_CACHESTAT,       SYS_mincore,
    SYS_remap_file_pages,
};

#define GOOD_PERSONALITY(v)                                                                        \
    {                                                                                              \
        "personality " #v, SYS_personality, {(v)}, WANT_ALLOW                                      \
    }
#define BAD_PERSONALITY(v)                                                                         \
    {                                                                                              \
        "personality " #v, SYS_personality, {(v)}, EPERM                                           \
    }
#define NEW_NAMESPACE(f)                                                                           \
    {                                                                                              \
        "clone " #f, SYS_clone, {(f) | SIGCHLD}, EPERM                                             \
    }
#define TTY_IOCTL(request, want)                                                                   \
    {                                                                                              \
        "ioctl " #request, SYS_ioctl, {0, (request)}, (want)                                       \
    }

/* Rules that default and debug share. */
static const struct arg_case default_cases[] = {
    {"fork", SYS_clone, {SIGCHLD}, WANT_ALLOW},
    {"thread",
     SYS_clone,
     {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
      CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID},
     WANT_ALLOW},
    {"vfork", SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD}, WANT_ALLOW},
    {"clone pidfd", SYS_clone, {CLONE_PIDFD | SIGCHLD}, WANT_ALLOW},
    NEW_NAMESPACE(CLONE_NEWNS),
    NEW_NAMESPACE(CLONE_NEWUTS),
    NEW_NAMESPACE(CLONE_NEWIPC),
    NEW_NAMESPACE(CLONE_NEWUSER),
    NEW_NAMESPACE(CLONE_NEWPID),
    NEW_NAMESPACE(CLONE_NEWNET),
    NEW_NAMESPACE(CLONE_NEWCGROUP),
    NEW_NAMESPACE(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET),

    {"tcp", SYS_socket, {AF_INET, SOCK_STREAM, 6}, WANT_ALLOW},
    {"tcp6, flags", SYS_socket, {AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0}, WANT_ALLOW},
    {"udp, flags", SYS_socket, {AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 17}, WANT_ALLOW},
    {"ping", SYS_socket, {AF_INET, SOCK_DGRAM, 1}, WANT_ALLOW},
    {"ping6", SYS_socket, {AF_INET6, SOCK_DGRAM, 58}, WANT_ALLOW},
    {"raw", SYS_socket, {AF_INET, SOCK_RAW, 1}, EPERM},
    {"raw, flags", SYS_socket, {AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 255}, EPERM},
    {"packet by its old name", SYS_socket, {AF_INET, 10, 0x300}, ESOCKTNOSUPPORT},
    {"seqpacket", SYS_socket, {AF_INET, SOCK_SEQPACKET, 132}, ESOCKTNOSUPPORT},
    {"dccp type", SYS_socket, {AF_INET, 6, 33}, ESOCKTNOSUPPORT},
    {"sctp", SYS_socket, {AF_INET, SOCK_STREAM, 132}, EPROTONOSUPPORT},
    {"dccp", SYS_socket, {AF_INET6, SOCK_STREAM, 33}, EPROTONOSUPPORT},
    {"mptcp", SYS_socket, {AF_INET, SOCK_STREAM, 262}, EPROTONOSUPPORT},
    {"udplite", SYS_socket, {AF_INET, SOCK_DGRAM, 136}, EPROTONOSUPPORT},
    {"l2tp", SYS_socket, {AF_INET, SOCK_DGRAM, 115}, EPROTONOSUPPORT},
    {"smc", SYS_socket, {AF_INET, SOCK_STREAM, 256}, EPROTONOSUPPORT},
    {"unix raw", SYS_socket, {AF_UNIX, SOCK_RAW, 0}, WANT_ALLOW},
    {"netlink route", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, WANT_ALLOW},
    {"netlink sock_diag", SYS_socket, {AF_NETLINK, SOCK_RAW, 4}, EAFNOSUPPORT},
    {"netlink xfrm", SYS_socket, {AF_NETLINK, SOCK_RAW, 6}, EAFNOSUPPORT},
    {"netlink netfilter", SYS_socket, {AF_NETLINK, SOCK_RAW, 12}, EAFNOSUPPORT},
    {"netlink generic", SYS_socket, {AF_NETLINK, SOCK_RAW, 16}, EAFNOSUPPORT},
    {"pair", SYS_socketpair, {AF_UNIX, SOCK_DGRAM, 0}, WANT_ALLOW},
    {"pair inet", SYS_socketpair, {AF_INET, SOCK_STREAM, 132}, EOPNOTSUPP},
    {"pair inet6", SYS_socketpair, {AF_INET6, SOCK_STREAM, 0}, EOPNOTSUPP},
    {"pair tipc", SYS_socketpair, {AF_TIPC, SOCK_STREAM, 0}, EAFNOSUPPORT},

    TTY_IOCTL(TIOCSTI, EPERM),
    TTY_IOCTL(TIOCLINUX, EPERM),
    TTY_IOCTL(TIOCSETD, EPERM),
    TTY_IOCTL(KDSETMODE, EPERM),
    TTY_IOCTL(KDSKBENT, EPERM),
    TTY_IOCTL(KDFONTOP, EPERM),
    TTY_IOCTL(VT_ACTIVATE, EPERM),
    TTY_IOCTL(VT_SETMODE, EPERM),
    TTY_IOCTL(TCGETS, WANT_ALLOW),
    TTY_IOCTL(TIOCGWINSZ, WANT_ALLOW),
    TTY_IOCTL(FIONREAD, WANT_ALLOW),
    TTY_IOCTL(FIOCLEX, WANT_ALLOW),
    TTY_IOCTL(FICLONE, WANT_ALLOW),

    {"set_mm", SYS_prctl, {PR_SET_MM}, EPERM},
    {"memory_merge", SYS_prctl, {OPTION_MEMORY_MERGE, 1}, EPERM},
    {"sched_core", SYS_prctl, {PR_SCHED_CORE}, EPERM},
    {"set_name", SYS_prctl, {PR_SET_NAME}, WANT_ALLOW},
    {"set_seccomp", SYS_prctl, {PR_SET_SECCOMP}, WANT_ALLOW},
    {"set_pdeathsig", SYS_prctl, {PR_SET_PDEATHSIG}, WANT_ALLOW},

    {"mergeable", SYS_madvise, {0, 0, MADV_MERGEABLE}, EINVAL},
    {"hwpoison", SYS_madvise, {0, 0, MADV_HWPOISON}, EINVAL},
    {"soft_offline", SYS_madvise, {0, 0, 101}, EINVAL},
    {"dontneed", SYS_madvise, {0, 0, MADV_DONTNEED}, WANT_ALLOW},
    {"hugepage", SYS_madvise, {0, 0, MADV_HUGEPAGE}, WANT_ALLOW},

    {"mknodat fifo", SYS_mknodat, {0, 0, S_IFIFO | 0600}, WANT_ALLOW},
    {"mknodat socket", SYS_mknodat, {0, 0, S_IFSOCK | 0600}, WANT_ALLOW},
    {"mknodat file", SYS_mknodat, {0, 0, S_IFREG | 0600}, WANT_ALLOW},
    {"mknodat no type", SYS_mknodat, {0, 0, 0600}, WANT_ALLOW},
    {"mknodat char", SYS_mknodat, {0, 0, S_IFCHR | 0600}, EPERM},
    {"mknodat block", SYS_mknodat, {0, 0, S_IFBLK | 0600}, EPERM},
#ifdef __x86_64__
    {"mknod fifo", SYS_mknod, {0, S_IFIFO | 0600}, WANT_ALLOW},
    {"mknod char", SYS_mknod, {0, S_IFCHR | 0600}, EPERM},
    {"mknod block", SYS_mknod, {0, S_IFBLK | 0600}, EPERM},
#endif

    GOOD_PERSONALITY(PER_LINUX),
    GOOD_PERSONALITY(PER_LINUX32),
    GOOD_PERSONALITY(UNAME26),
    GOOD_PERSONALITY(UNAME26 | PER_LINUX32),
    GOOD_PERSONALITY(0xffffffff),
    BAD_PERSONALITY(ADDR_NO_RANDOMIZE),
    BAD_PERSONALITY(ADDR_NO_RANDOMIZE | PER_LINUX32),
    BAD_PERSONALITY(READ_IMPLIES_EXEC),
    BAD_PERSONALITY(MMAP_PAGE_ZERO),
};

/* Rules that strict has instead. */
static const struct arg_case strict_cases[] = {
    {"socket unix", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, EPERM},
    {"socket tcp", SYS_socket, {AF_INET, SOCK_STREAM, 0}, EPERM},
    {"socket netlink", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, EPERM},
    {"pair stream", SYS_socketpair, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0}, WANT_ALLOW},
    {"pair seqpacket", SYS_socketpair, {AF_UNIX, SOCK_SEQPACKET, 0}, WANT_ALLOW},
    {"pair datagram", SYS_socketpair, {AF_UNIX, SOCK_DGRAM, 0}, EPERM},
    {"pair raw, a datagram too", SYS_socketpair, {AF_UNIX, SOCK_RAW, 0}, EPERM},
    {"pair inet", SYS_socketpair, {AF_INET, SOCK_STREAM, 0}, EAFNOSUPPORT},
    TTY_IOCTL(TCGETS, WANT_ALLOW),
    TTY_IOCTL(TCSETSF, WANT_ALLOW),
    TTY_IOCTL(TCGETS2, WANT_ALLOW),
    TTY_IOCTL(TCSETSF2, WANT_ALLOW),
    TTY_IOCTL(TCSBRKP, WANT_ALLOW),
    TTY_IOCTL(TIOCSCTTY, WANT_ALLOW),
    TTY_IOCTL(TIOCGSID, WANT_ALLOW),
    TTY_IOCTL(TIOCSWINSZ, WANT_ALLOW),
    TTY_IOCTL(TIOCGPTN, WANT_ALLOW),
    TTY_IOCTL(TIOCSPTLCK, WANT_ALLOW),
    TTY_IOCTL(TIOCGPTPEER, WANT_ALLOW),
    TTY_IOCTL(FIONREAD, WANT_ALLOW),
    TTY_IOCTL(FIONBIO, WANT_ALLOW),
    TTY_IOCTL(FIOCLEX, WANT_ALLOW),
    TTY_IOCTL(FIOASYNC, WANT_ALLOW),
    TTY_IOCTL(TIOCSTI, ENOTTY),
    TTY_IOCTL(TIOCLINUX, ENOTTY),
    TTY_IOCTL(TIOCSETD, ENOTTY),
    TTY_IOCTL(FICLONE, ENOTTY),
    TTY_IOCTL(FS_IOC_SETFLAGS, ENOTTY),
    {"clone NEWUSER", SYS_clone, {CLONE_NEWUSER | SIGCHLD}, EPERM},
    {"clone", SYS_clone, {SIGCHLD}, WANT_ALLOW},
    {"prctl set_mm", SYS_prctl, {PR_SET_MM}, EPERM},
    {"prctl", SYS_prctl, {PR_SET_NAME}, WANT_ALLOW},
    {"mergeable", SYS_madvise, {0, 0, MADV_MERGEABLE}, EINVAL},
    {"dontneed", SYS_madvise, {0, 0, MADV_DONTNEED}, WANT_ALLOW},
    {"mknodat char", SYS_mknodat, {0, 0, S_IFCHR}, EPERM},
    {"mknodat fifo", SYS_mknodat, {0, 0, S_IFIFO}, WANT_ALLOW},
#ifdef __x86_64__
    {"mknod char", SYS_mknod, {0, S_IFCHR}, EPERM},
    {"mknod fifo", SYS_mknod, {0, S_IFIFO}, WANT_ALLOW},
#endif
    BAD_PERSONALITY(ADDR_NO_RANDOMIZE),
    GOOD_PERSONALITY(PER_LINUX),
};
