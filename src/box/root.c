/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a template's root and entering it (child side of the launcher's clone); see root.h.
 *
 * The tree is a fresh tmpfs that no sandboxed code has ever written, so the paths used here cannot
 * be rearranged. The old root stays visible until the new /proc is mounted: the kernel allows a new
 * proc only where an unmasked one is visible.
 */
#include "box/root.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/devices.h"
#include "box/root_etc.h"
#include "box/root_sys.h"
#include "box/setup.h"
#include "box/sys.h"

/* A directory that every host has; the new root is put together on top of it. */
#define STAGE "/tmp"

static int prepare_process(const struct root_entry *entry, struct err *e)
{
    for (size_t i = 0; i < entry->n_procs; i++) {
        if (write(entry->procs[i], "0", 1) != 1) {
            return err_sys(e, errno, "join cgroup hierarchy %zu", i);
        }
    }
    if (!entry->single_id && syscall(SYS_setgroups, 0, NULL) < 0) {
        return err_sys(e, errno, "drop supplementary groups");
    }
    if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0) {
        return err_sys(e, errno, "become root of the namespace");
    }
    if (unshare(CLONE_NEWCGROUP) < 0) {
        return err_sys(e, errno, "new cgroup namespace");
    }
    if (setsid() < 0 || sethostname("husk", 4) < 0) {
        return err_sys(e, errno, "new session and host name");
    }
    return 0;
}

static int mount_stage(struct err *e)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return err_sys(e, errno, "make mounts private");
    }
    if (mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,nr_inodes=4096,mode=0755") <
        0) {
        return err_sys(e, errno, "mount the new root");
    }
    if (chdir(STAGE) < 0) {
        return err_sys(e, errno, "enter the new root");
    }
    umask(022);
    return 0;
}

/*
 * The host's root is still reachable while we build, and a template can contain links, in a mount
 * or as such: we must follow none of them. So every path is walked one directory at a time, beneath
 * the new root and through no link.
 */
static int open_part(int dir, const char *name)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };

    return sys_openat2(dir, name, &how);
}

/*
 * The directory that path's last component is in, made where it is missing. In a mounted directory
 * that fails, as it should.
 */
static int open_parent(const char *path, const char **ret_name, struct err *e)
{
    AUTO_CLOSE int dir = open_part(AT_FDCWD, ".");
    const char *at = path + 1;

    for (const char *end = strchr(at, '/'); dir >= 0 && end != NULL; end = strchr(at, '/')) {
        char part[ROOT_PATH_MAX];
        (void)str_format(part, sizeof(part), "%.*s", (int)(end - at), at);
        if (mkdirat(dir, part, 0755) < 0 && errno != EEXIST) {
            return err_sys(e, errno, "make a directory of %s", path);
        }
        int next = open_part(dir, part);
        close(dir);
        dir = next;
        at = end + 1;
    }
    if (dir < 0) {
        return err_sys(e, -dir, "open a directory of %s", path);
    }
    *ret_name = at;
    return take_fd(&dir);
}

static int make_mount_point(int parent, const char *name, const struct root_place *place,
                            struct err *e)
{
    if (place->is_dir) {
        if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST) {
            return err_sys(e, errno, "make mount point %s", place->path);
        }
        return 0;
    }
    AUTO_CLOSE int fd = openat(parent, name, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0444);
    if (fd < 0) {
        return err_sys(e, errno, "make mount point %s", place->path);
    }
    return 0;
}

static int put_mount(int parent, const char *name, const struct root_place *place, struct err *e)
{
    if (make_mount_point(parent, name, place, e) < 0) {
        return -1;
    }
    AUTO_CLOSE int at = open_part(parent, name);
    if (at < 0) {
        return err_sys(e, -at, "open mount point %s", place->path);
    }
    if (move_mount(place->tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
        0) {
        return err_sys(e, errno, "mount at %s", place->path);
    }
    return 0;
}

static int copy_file(int parent, const char *name, const struct root_place *place, struct err *e)
{
    AUTO_CLOSE int to = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    char chunk[16384];
    size_t total = 0;

    if (to < 0) {
        return err_sys(e, errno, "make %s", place->path);
    }
    for (;;) {
        ssize_t n = pread(place->source, chunk, sizeof(chunk), (off_t)total);
        if (n == 0) {
            return 0;
        }
        int r = n < 0 ? -errno : fd_write_all(to, chunk, (size_t)n);
        total += n > 0 ? (size_t)n : 0;
        if (r < 0 || total > ROOT_COPY_MAX) {
            return err_sys(e, r < 0 ? -r : EFBIG, "copy %s", place->path);
        }
    }
}

static int put_place(const struct root_place *place, struct err *e)
{
    const char *name = place->path;
    AUTO_CLOSE int parent = open_parent(place->path, &name, e);

    if (parent < 0) {
        return -1;
    }
    if (place->source >= 0) {
        return copy_file(parent, name, place, e);
    }
    if (place->link[0] == '\0') {
        return put_mount(parent, name, place, e);
    }
    if (symlinkat(place->link, parent, name) < 0) {
        return err_sys(e, errno, "make link %s", place->path);
    }
    return 0;
}

/* Without root: the host's devices, one bind each, since a user namespace cannot make nodes. */
static int bind_devices(struct err *e)
{
    char from[64];
    char link[64];

    if (mkdir("dev/pts", 0755) < 0) {
        return err_sys(e, errno, "make /dev/pts");
    }
    for (unsigned i = 0; i < devices_n; i++) {
        (void)str_format(from, sizeof(from), "/dev/%s", devices[i].name);
        AUTO_CLOSE int fd = open(from + 1, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 || mount(from, from + 1, NULL, MS_BIND, NULL) < 0) {
            return err_sys(e, errno, "make %s", from);
        }
    }
    for (unsigned i = 0; i < device_links_n; i++) {
        (void)str_format(link, sizeof(link), "dev/%s", device_links[i].name);
        if (symlink(device_links[i].text, link) < 0) {
            return err_sys(e, errno, "make /%s", link);
        }
    }
    return 0;
}

static int make_dev(int devices_tree, struct err *e)
{
    if (mkdir("dev", 0755) < 0) {
        return err_sys(e, errno, "make /dev");
    }
    if (devices_tree < 0) {
        return bind_devices(e);
    }
    if (move_mount(devices_tree, "", AT_FDCWD, "dev", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        return err_sys(e, errno, "mount devices");
    }
    return 0;
}

static int make_skeleton(struct err *e)
{
    static const char *const dirs[] = {"proc",    "tmp",       "workspace", "run",
                                       "run/box", "run/empty", "var",       "home"};

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (mkdir(dirs[i], 0755) < 0 && errno != EEXIST) {
            return err_sys(e, errno, "make /%s", dirs[i]);
        }
    }
    /* A template's own /var may be a link, or contain one. */
    AUTO_CLOSE int var = open_part(AT_FDCWD, "var");
    if (var >= 0 && symlinkat("/tmp", var, "tmp") < 0 && errno != EEXIST) {
        return err_sys(e, errno, "make /var/tmp");
    }
    /* Some libraries need scratch space when they are imported; boxes never see this /tmp. */
    if (mount("tmpfs", "tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,nr_inodes=4096,mode=1777") <
        0) {
        return err_sys(e, errno, "mount the zygote's /tmp");
    }
    if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        return err_sys(e, errno, "mount proc (inside a container, its /proc must not be masked)");
    }
    return root_sys_write(e);
}

static int pivot(struct err *e)
{
    if (syscall(SYS_pivot_root, ".", ".") < 0) {
        return err_sys(e, errno, "pivot_root");
    }
    if (umount2(".", MNT_DETACH) < 0) {
        return err_sys(e, errno, "detach the old root");
    }
    if (chdir("/") < 0) {
        return err_sys(e, errno, "enter the new root");
    }
    if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0) {
        return err_sys(e, errno, "make the root read-only");
    }
    return 0;
}

static int place_descriptors(const struct root_entry *entry, struct err *e)
{
    int sock = fcntl(entry->socket, F_DUPFD_CLOEXEC, 16);
    int errors = fcntl(entry->errors, F_DUPFD_CLOEXEC, 16);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (sock < 0 || errors < 0 || null < 0) {
        return err_sys(e, errno, "open descriptors of the zygote");
    }
    for (int i = 0; i < ZYGOTE_FD; i++) {
        if (dup3(i == STDERR_FILENO ? errors : null, i, 0) < 0) {
            return err_sys(e, errno, "place descriptor %d", i);
        }
    }
    if (dup3(sock, ZYGOTE_FD, 0) < 0 || sys_close_range(ZYGOTE_FD + 1, ~0U) < 0) {
        return err_sys(e, errno, "place the zygote's socket");
    }
    return 0;
}

/* Names a folder on the way that is closed to the ids of boxes, which the host does not know. */
static int explain_start(const char *program, int sys_errno, struct err *e)
{
    char folder[ROOT_PATH_MAX];

    for (const char *slash = strchr(program + 1, '/'); sys_errno == EACCES && slash != NULL;
         slash = strchr(slash + 1, '/')) {
        if (str_format(folder, sizeof(folder), "%.*s", (int)(slash - program), program) == 0 &&
            access(folder, X_OK) < 0) {
            return err_set(e, ERR_TEMPLATE,
                           "cannot start %.120s: the folder %.120s is closed to other accounts, as "
                           "which boxes run (chmod o+x opens it)",
                           program, folder);
        }
    }
    err_sys(e, sys_errno, "start %s", program);
    e->code = ERR_TEMPLATE;
    return -1;
}

int root_enter(const struct root_entry *entry, struct err *e)
{
    const struct root_plan *plan = entry->plan;

    if (prepare_process(entry, e) < 0 || mount_stage(e) < 0 || make_dev(entry->devices, e) < 0) {
        return -1;
    }
    bool own_etc = true;
    for (size_t i = 0; i < plan->n_places; i++) {
        if (put_place(&plan->places[i], e) < 0) {
            e->code = ERR_TEMPLATE; /* what it asks for, this host cannot give */
            return -1;
        }
        own_etc = own_etc && !str_eq(plan->places[i].path, "/etc");
    }
    if (make_skeleton(e) < 0 || (own_etc && root_etc_write(e) < 0) || pivot(e) < 0) {
        return -1;
    }
    if (zygote_confine(&entry->confinement, e) < 0 || place_descriptors(entry, e) < 0) {
        return -1;
    }
    /* Set after the last change of credentials, which would clear it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
        return err_sys(e, errno, "tie to the launcher's life");
    }
    execve(plan->args[0], plan->args, plan->env);
    return explain_start(plan->args[0], errno, e);
}
