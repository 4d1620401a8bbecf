/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call that the policy refuses by name, with null arguments: the kernel itself would mostly
 * answer otherwise.
 *
 * technique: E14 E13 E5
 * held: each call fails with exactly the error that the policy promises
 * expect: status=completed exit=0 stdout~HELD
 */
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHESTAT 451
#define NO_SUCH_CALL 999

/* clang-format off */
static const int not_permitted[] = {
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise,
    SYS_pidfd_getfd, SYS_kcmp, SYS_mount, SYS_umount2, SYS_fsopen, SYS_fsconfig, SYS_fsmount,
    SYS_fspick, SYS_open_tree, SYS_move_mount, SYS_mount_setattr, SYS_unshare, SYS_setns,
    SYS_chroot, SYS_pivot_root, SYS_bpf, SYS_perf_event_open, SYS_keyctl, SYS_add_key,
    SYS_request_key, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
    SYS_kexec_file_load, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_sethostname,
    SYS_setdomainname, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime,
    SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_quotactl, SYS_acct, SYS_syslog,
    SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_fanotify_init, SYS_fanotify_mark,
    SYS_userfaultfd, SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy, SYS_migrate_pages,
    SYS_move_pages, SYS_vhangup, SYS_lookup_dcookie};
static const int not_there[] = {
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_io_setup,
    SYS_io_submit, SYS_io_getevents, SYS_splice, SYS_tee, SYS_vmsplice, SYS_memfd_secret,
    SYS_mincore, SYS_remap_file_pages, SYS_clone3, CACHESTAT, SYS_mq_open, SYS_mq_unlink, NO_SUCH_CALL};
/* clang-format on */

static int check(const int *numbers, size_t n, int wanted)
{
    int wrong = 0;

    for (size_t i = 0; i < n; i++) {
        errno = 0;
        long got = syscall(numbers[i], 0L, 0L, 0L, 0L, 0L, 0L);
        if (got == -1 && errno == wanted)
            continue;
        printf("ESCAPED: call %d gave %ld, errno %d, wanted %d\n", numbers[i], got, errno, wanted);
        wrong = 1;
    }
    return wrong;
}

int main(void)
{
    int wrong = check(not_permitted, sizeof(not_permitted) / sizeof(int), EPERM);

    wrong |= check(not_there, sizeof(not_there) / sizeof(int), ENOSYS);
    if (!wrong)
        puts("HELD");
    return wrong;
}
