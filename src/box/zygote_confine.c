/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confines a zygote before it runs the first instruction of its template; see zygote_confine.h.
 *
 * The zygote imports unreviewed modules, then makes boxes. So it keeps what making a box needs and
 * nothing else. `steps` is the order: what takes privilege away comes after the last step that
 * needs it.
 *
 * Runs in the launcher's child, in the template's finished root. Must not fail open.
 */
#include "box/zygote_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/idmap.h"
#include "box/seccomp.h"
#include "box/sys.h"

/* User namespaces below a zygote's own, beyond its boxes: a failed start frees one late. */
#define SPARE_NAMESPACES 64

/* What making a box needs of a zygote, in its own user namespace. The child has a new one. */
static const int kept_caps[] = {
    CAP_SETUID,    /* write a box's uid_map */
    CAP_SETGID,    /* write its gid_map */
    CAP_SYS_ADMIN, /* make and enter network namespaces */
    CAP_NET_ADMIN, /* bring their loopback up */
    CAP_SETFCAP,   /* without root: map id 0 of this namespace, the only one there is */
};

static uint64_t caps_kept(bool single_id)
{
    uint64_t caps = 0;

    for (size_t i = 0; i < ARRAY_LEN(kept_caps); i++) {
        if (kept_caps[i] != CAP_SETFCAP || single_id) {
            caps |= (uint64_t)1 << kept_caps[i];
        }
    }
    return caps;
}

/*
 * The helper stays in the first namespace, where it may write the maps of the second. It sends a
 * byte when they are written, and ends.
 */
static NORETURN void map_parent(const struct zygote_confinement *c, int unshared, int mapped)
{
    struct err e;
    char byte;

    if (read(unshared, &byte, 1) != 1 ||
        idmap_write_same(getppid(), c->single_id ? 1 : c->ids, &e) < 0 ||
        write(mapped, "", 1) != 1) {
        _exit(1);
    }
    _exit(0);
}

static int await_helper(pid_t helper, int mapped, struct err *e)
{
    char byte;
    ssize_t n = read(mapped, &byte, 1);

    if (waitpid(helper, NULL, 0) < 0) { /* the zygote must find no child but its boxes */
        return err_sys(e, errno, "wait for the helper");
    }
    return n == 1 ? 0 : err_set(e, ERR_ISOLATION, "the second user namespace got no id maps");
}

/*
 * Mounts that were attached here are not locked: with CAP_SYS_ADMIN they could be made writable
 * again. In a second user and mount namespace the same mounts are copies of a more privileged one,
 * and the kernel lets no process in it unmount them or lift their restrictions.
 */
static int lock_mounts(const struct zygote_confinement *c, struct err *e)
{
    AUTO_CLOSE int unshared_read = -1;
    AUTO_CLOSE int unshared_write = -1;
    AUTO_CLOSE int mapped_read = -1;
    AUTO_CLOSE int mapped_write = -1;
    int there[2];
    int back[2];

    if (pipe2(there, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    unshared_read = there[0];
    unshared_write = there[1];
    if (pipe2(back, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    mapped_read = back[0];
    mapped_write = back[1];
    /* Lets the helper open our uid_map. The memory inherited from the launcher holds no secret. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) {
        return err_sys(e, errno, "prctl");
    }
    pid_t helper = fork();
    if (helper < 0) {
        return err_sys(e, errno, "start a helper");
    }
    if (helper == 0) {
        fd_close(&unshared_write);
        map_parent(c, unshared_read, mapped_write);
    }
    fd_close(&mapped_write);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || write(unshared_write, "", 1) != 1) {
        return err_sys(e, errno, "new user and mount namespace");
    }
    return await_helper(helper, mapped_read, e);
}

static int limit_namespaces(const struct zygote_confinement *c, struct err *e)
{
    char text[16];

    (void)str_format(text, sizeof(text), "%u", c->boxes_max + SPARE_NAMESPACES);
    int r = fd_write_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces", text);
    return r < 0 ? err_sys(e, -r, "limit the number of user namespaces") : 0;
}

/* On exec the root of a namespace gets what its bounding set holds. */
static int drop_caps(const struct zygote_confinement *c, struct err *e)
{
    int r = sys_caps_bound(caps_kept(c->single_id));

    return r < 0 ? err_sys(e, -r, "drop capabilities") : 0;
}

/*
 * The early half of the boxes' filter: what they may do, and the calls that make one. Boxes inherit
 * it, whatever a preload has made of the zygote's memory.
 */
static int load_filter(const struct zygote_confinement *c, struct err *e)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return err_sys(e, errno, "no_new_privs");
    }
    int r = seccomp_load(&seccomp_programs[c->seccomp].early);
    return r < 0 ? err_sys(e, -r, "load the first half of filter %s",
                           seccomp_programs[c->seccomp].name)
                 : 0;
}

static const struct {
    const char *name;
    int (*run)(const struct zygote_confinement *c, struct err *e);
} steps[] = {
    {"mount lock", lock_mounts},           /* in a second user namespace; all below acts in it */
    {"namespace limit", limit_namespaces}, /* needs CAP_SYS_RESOURCE there */
    {"capabilities", drop_caps},           /* needs CAP_SETPCAP */
    {"seccomp", load_filter},              /* last: the filter forbids most of the calls above */
};

int zygote_confine(const struct zygote_confinement *c, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        if (steps[i].run(c, e) < 0) {
            e->code = ERR_ISOLATION;
            return err_wrap(e, "confine the zygote, step \"%s\"", steps[i].name);
        }
    }
    return 0;
}
