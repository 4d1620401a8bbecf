/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why this process cannot make a user namespace: measured cause by cause, since the kernel answers
 * EPERM for most of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "core/doctor.h"

#define BAD_UNSHARE_FLAG 0x1 /* the kernel answers EINVAL before it looks at rights */

static bool read_word(const char *path, char *dst, size_t size)
{
    ssize_t n = fd_read_file(AT_FDCWD, path, dst, size);

    dst[n > 0 ? strcspn(dst, " \n") : 0] = '\0';
    return n > 0;
}

static bool is_zero(const char *path)
{
    char text[32];

    return read_word(path, text, sizeof(text)) && str_eq(text, "0");
}

/*
 * The kernel makes no user namespace for a process whose root is not that of its mount namespace.
 * Joining the mount namespace that we are in moves us to its root: if that is another folder, or a
 * user namespace can be made from there, this is a chroot.
 */
static int try_from_real_root(void)
{
    struct stat here;
    struct stat there;
    int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

    if (ns < 0 || stat("/", &here) < 0 || setns(ns, CLONE_NEWNS) < 0 || stat("/", &there) < 0) {
        return EIO;
    }
    bool moved = here.st_dev != there.st_dev || here.st_ino != there.st_ino;
    return moved || unshare(CLONE_NEWUSER) == 0 ? 0 : EPERM;
}

/* Without rights to join: the root of a mount namespace is a mount, a chroot need not be. */
static bool root_is_no_mount(void)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char line[4096];
    char where[8];
    bool found = false;

    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL) {
        found = sscanf(line, "%*s %*s %*s %*s %7s", where) == 1 && str_eq(where, "/");
    }
    if (f == NULL) {
        return false;
    }
    fclose(f);
    return !found;
}

/* A filter that refuses the call does so whatever its flags are worth. */
static int try_bad_flags(void)
{
    return unshare(CLONE_NEWUSER | BAD_UNSHARE_FLAG) < 0 ? errno : 0;
}

static bool is_confined(char *profile, size_t size)
{
    return read_word("/proc/self/attr/current", profile, size) && profile[0] != '\0' &&
           !str_eq(profile, "unconfined") && strstr(profile, ":unconfined_t:") == NULL &&
           !str_eq(profile, "kernel");
}

void doctor_explain_namespaces(struct husk_layer *row, int err)
{
    char profile[100];

    if (err == ENOSPC || err == EUSERS) {
        DOCTOR_FACT(row, "the limit of user namespaces is reached%s",
                    is_zero("/proc/sys/user/max_user_namespaces") ? ": it is 0" : "");
        row->fix = "sysctl user.max_user_namespaces=15000";
    } else if (access("/proc/self/ns/user", F_OK) < 0 && access("/proc/self/ns/mnt", F_OK) == 0) {
        DOCTOR_FACT(row, "this kernel has no user namespaces");
        row->fix = "a kernel with CONFIG_USER_NS";
    } else if (doctor_in_child(try_bad_flags) != EINVAL) {
        DOCTOR_FACT(row, "a seccomp filter around this process refuses unshare(2)");
        row->fix = "allow unshare, clone3 and mount in the container's seccomp profile (docker: "
                   "--security-opt seccomp=unconfined)";
    } else if (doctor_in_child(try_from_real_root) == 0 || root_is_no_mount()) {
        DOCTOR_FACT(row, "this is a chroot, where the kernel makes no user namespace");
        row->fix =
            "leave the chroot, or enter its folder with pivot_root(2) instead: systemd-nspawn "
            "-D FOLDER does, and unshare --mount with pivot_root";
    } else if (geteuid() != 0 && is_zero("/proc/sys/kernel/unprivileged_userns_clone")) {
        DOCTOR_FACT(row, "kernel.unprivileged_userns_clone is 0");
        row->fix = "sysctl kernel.unprivileged_userns_clone=1, or run husk as root (sudo)";
    } else if (is_confined(profile, sizeof(profile))) {
        DOCTOR_FACT(row, "the security module's profile %.60s may refuse it: %s", profile,
                    strerrordesc_np(err));
        row->fix = "allow user namespaces in that profile (AppArmor: a rule `userns,`)";
    } else {
        DOCTOR_FACT(row, "%s, not by chroot, seccomp or sysctl", strerrordesc_np(err));
        row->fix = "the kernel log or the audit log may name the security module that refuses it";
    }
}
