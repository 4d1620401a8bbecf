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
#define NR_URETPROBE 335
#define NR_UPROBE 336
#define NR_FCHMODAT2 452
#define NR_MAP_SHADOW_STACK 453
#define NR_FUTEX_WAKE 454
#define NR_FUTEX_WAIT 455
#define NR_FUTEX_REQUEUE 456
#define NR_MSEAL 462
#define NR_SETXATTRAT 463
#define NR_GETXATTRAT 464
#define NR_LISTXATTRAT 465
#define NR_REMOVEXATTRAT 466
#define NR_STATMOUNT 457
#define NR_LISTMOUNT 458
#define NR_LSM_GET_SELF_ATTR 459
#define NR_LSM_SET_SELF_ATTR 460
#define NR_LSM_LIST_MODULES 461
#define NR_FILE_GETATTR 468
#define NR_FILE_SETATTR 469
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
    SYS_create_module,
    SYS_get_kernel_syms,
    SYS_query_module,
#endif
};

/* Refused as if the kernel were older. */
static const int refused_enosys[] = {
    SYS_clone3,           SYS_io_uring_setup,   SYS_io_uring_enter,  SYS_io_uring_register,
    SYS_io_setup,         SYS_io_destroy,       SYS_io_submit,       SYS_io_cancel,
    SYS_io_getevents,     SYS_io_pgetevents,    SYS_splice,          SYS_tee,
    SYS_vmsplice,         SYS_memfd_secret,     NR_CACHESTAT,        SYS_mincore,
    SYS_remap_file_pages, SYS_process_mrelease, NR_STATMOUNT,        NR_LISTMOUNT,
    NR_LSM_GET_SELF_ATTR, NR_LSM_SET_SELF_ATTR, NR_LSM_LIST_MODULES, NR_FILE_GETATTR,
    NR_FILE_SETATTR,      SYS_mq_open,          SYS_mq_unlink,       SYS_mq_timedsend,
    SYS_mq_timedreceive,  SYS_mq_notify,        SYS_mq_getsetattr,
};

/* All that reaches the kernel, with any arguments or with some: what is not here is refused. */
/* clang-format off */
static const int let_through[] = {
    SYS_read, SYS_readv, SYS_pread64, SYS_preadv, SYS_preadv2, SYS_write, SYS_writev, SYS_pwrite64,
    SYS_pwritev, SYS_pwritev2, SYS_lseek, SYS_close, SYS_close_range, SYS_sendfile,
    SYS_copy_file_range, SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_fsync, SYS_fdatasync,
    SYS_msync, SYS_sync, SYS_syncfs, SYS_sync_file_range, SYS_fadvise64, SYS_readahead, SYS_openat,
    SYS_openat2, SYS_mkdirat, SYS_linkat, SYS_symlinkat, SYS_renameat, SYS_renameat2, SYS_unlinkat,
    SYS_readlinkat, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_getdents64, SYS_umask, SYS_faccessat,
    SYS_faccessat2, SYS_newfstatat, SYS_fstat, SYS_statx, SYS_statfs, SYS_fstatfs, SYS_fchmod,
    SYS_fchmodat, NR_FCHMODAT2, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_getxattr,
    SYS_lgetxattr, SYS_fgetxattr, NR_GETXATTRAT, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,
    NR_SETXATTRAT, SYS_listxattr, SYS_llistxattr, SYS_flistxattr, NR_LISTXATTRAT, SYS_removexattr,
    SYS_lremovexattr, SYS_fremovexattr, NR_REMOVEXATTRAT, SYS_inotify_init1, SYS_inotify_add_watch,
    SYS_inotify_rm_watch, SYS_dup, SYS_dup3, SYS_fcntl, SYS_flock, SYS_pipe2, SYS_eventfd2,
    SYS_signalfd4, SYS_ppoll, SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait,
    SYS_epoll_pwait2, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_brk,
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_pkey_alloc, SYS_pkey_free,
    SYS_pkey_mprotect, NR_MSEAL, SYS_mlock, SYS_mlock2, SYS_mlockall, SYS_munlock, SYS_munlockall,
    SYS_memfd_create, NR_MAP_SHADOW_STACK, SYS_membarrier, SYS_execve, SYS_execveat, SYS_exit,
    SYS_exit_group, SYS_wait4, SYS_waitid, SYS_kill, SYS_tkill, SYS_tgkill, SYS_pidfd_open,
    SYS_pidfd_send_signal, SYS_getpid, SYS_gettid, SYS_getppid, SYS_getpgid, SYS_setpgid,
    SYS_getsid, SYS_setsid, SYS_set_tid_address, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq,
    SYS_futex, SYS_futex_waitv, NR_FUTEX_WAKE, NR_FUTEX_WAIT, NR_FUTEX_REQUEUE, SYS_getrlimit,
    SYS_setrlimit, SYS_prlimit64, SYS_getrusage, SYS_times, SYS_getpriority, SYS_setpriority,
    SYS_ioprio_get, SYS_ioprio_set, SYS_sched_yield, SYS_getcpu, SYS_sched_getaffinity,
    SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_setparam, SYS_sched_getscheduler,
    SYS_sched_setscheduler, SYS_sched_getattr, SYS_sched_setattr, SYS_sched_get_priority_max,
    SYS_sched_get_priority_min, SYS_sched_rr_get_interval, SYS_seccomp, SYS_landlock_create_ruleset,
    SYS_landlock_add_rule, SYS_landlock_restrict_self, SYS_getuid, SYS_geteuid, SYS_getgid,
    SYS_getegid, SYS_getgroups, SYS_getresuid, SYS_getresgid, SYS_capget, SYS_setuid, SYS_setgid,
    SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid,
    SYS_setgroups, SYS_capset, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_rt_sigpending, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo, SYS_sigaltstack, SYS_restart_syscall, SYS_clock_gettime,
    SYS_clock_getres, SYS_clock_nanosleep, SYS_gettimeofday, SYS_nanosleep, SYS_getitimer,
    SYS_setitimer, SYS_timer_create, SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun,
    SYS_timer_delete, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect, SYS_shutdown,
    SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_getsockname,
    SYS_getpeername, SYS_getsockopt, SYS_setsockopt, SYS_shmget, SYS_shmat, SYS_shmdt, SYS_shmctl,
    SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl, SYS_msgget, SYS_msgsnd, SYS_msgrcv,
    SYS_msgctl, SYS_uname, SYS_sysinfo, SYS_getrandom, SYS_clone, SYS_socket, SYS_socketpair,
    SYS_ioctl, SYS_prctl, SYS_madvise, SYS_mknodat, SYS_personality,
#ifdef __x86_64__
    SYS_open, SYS_creat, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_mkdir, SYS_rmdir,
    SYS_unlink, SYS_rename, SYS_link, SYS_symlink, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime,
    SYS_utimes, SYS_futimesat, SYS_getdents, SYS_inotify_init, SYS_pipe, SYS_dup2, SYS_poll,
    SYS_select, SYS_eventfd, SYS_signalfd, SYS_epoll_create, SYS_epoll_wait, SYS_fork, SYS_vfork,
    SYS_getpgrp, SYS_arch_prctl, NR_URETPROBE, NR_UPROBE, SYS_pause, SYS_time, SYS_alarm, SYS_mknod,
#endif
};
/* clang-format on */

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
