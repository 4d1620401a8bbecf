/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of kernel settings that programs read; see root_sys.h.
 *
 * The kernel's own /proc/sys has hundreds of entries, and some reveal facts about the host:
 * boot_id, counts of open files, the path of its core handler. So a box gets a copy of the entries
 * listed here, and nothing else. One mount hides the rest, also entries of later kernels.
 * docs/threats.md has the verdict on each entry; a test compares.
 */
#include "box/root_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"

#define VALUE_MAX 1024
#define UUID "kernel/random/uuid"
#define OWN_UUID "/run/uuid"

static const char *const folders[] = {
    "",           "/kernel", "/kernel/random", "/kernel/yama", "/vm",       "/fs",  "/fs/inotify",
    "/fs/mqueue", "/net",    "/net/core",      "/net/ipv4",    "/net/ipv6", "/user"};

/* Limits and versions: facts of the kernel and of the zygote's own namespaces. Absent is fine. */
static const char *const copied[] = {
    "kernel/cap_last_cap",
    "kernel/domainname",
    "kernel/hostname",
    "kernel/msgmax",
    "kernel/msgmnb",
    "kernel/msgmni",
    "kernel/ngroups_max",
    "kernel/osrelease",
    "kernel/ostype",
    "kernel/overflowgid",
    "kernel/overflowuid",
    "kernel/pid_max",
    "kernel/random/entropy_avail",
    "kernel/random/poolsize",
    "kernel/randomize_va_space",
    "kernel/sem",
    "kernel/shmall",
    "kernel/shmmax",
    "kernel/shmmni",
    "kernel/threads-max",
    "kernel/version",
    "kernel/yama/ptrace_scope",
    "vm/max_map_count",
    "vm/mmap_min_addr",
    "vm/overcommit_memory",
    "vm/overcommit_ratio",
    "vm/swappiness",
    "fs/aio-max-nr",
    "fs/file-max",
    "fs/inotify/max_queued_events",
    "fs/inotify/max_user_watches",
    "fs/mqueue/msg_max",
    "fs/mqueue/msgsize_max",
    "fs/mqueue/queues_max",
    "fs/nr_open",
    "fs/pipe-max-size",
    "net/core/rmem_default",
    "net/core/rmem_max",
    "net/core/somaxconn",
    "net/core/wmem_default",
    "net/core/wmem_max",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_fin_timeout",
    "net/ipv4/tcp_keepalive_time",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv6/bindv6only",
};

/* Not the host's value, or not yet that of a box when this is written (steps_drop.c sets it). */
static const struct {
    const char *name;
    const char *text;
} own[] = {
    {"kernel/core_pattern", "core\n"},
    {"user/max_inotify_instances", "16\n"},
    {"user/max_user_namespaces", "0\n"},
};

static int write_entry(const char *name, const char *text, struct err *e)
{
    char path[128];

    (void)str_format(path, sizeof(path), "%s/%s", &ROOT_SYS[1], name);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (fd < 0) {
        return err_sys(e, errno, "make /%s", path);
    }
    int r = fd_write_all(fd, text, strlen(text));
    return r < 0 ? err_sys(e, -r, "write /%s", path) : 0;
}

static int copy_entry(const char *name, struct err *e)
{
    char path[128];
    char text[VALUE_MAX];

    (void)str_format(path, sizeof(path), "proc/sys/%s", name);
    ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof(text));
    if (n < 0) {
        return 0; /* not in this kernel, or not readable */
    }
    return write_entry(name, text, e);
}

/* Programs use it to identify one boot of a machine. Boxes of one zygote have the same. */
static int write_boot_id(struct err *e)
{
    char hex[33];
    char text[40];

    rand_hex(hex, sizeof(hex));
    (void)str_format(text, sizeof(text), "%.8s-%.4s-4%.3s-a%.3s-%.12s\n", hex, hex + 8, hex + 12,
                     hex + 15, hex + 18);
    return write_entry("kernel/random/boot_id", text, e);
}

/*
 * The kernel's own, which differs on each read. Boxes inherit the mount. A link leads there,
 * because /run/sys is bound without the mounts in it.
 */
static int show_uuid(struct err *e)
{
    const char *at = &OWN_UUID[1];
    const unsigned long read_only =
        MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    AUTO_CLOSE int fd = open(at, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

    if (fd < 0 || mount("proc/sys/" UUID, at, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, at, NULL, read_only, NULL) < 0 ||
        symlink(OWN_UUID, &(ROOT_SYS "/" UUID)[1]) < 0) {
        return err_sys(e, errno, "bind /proc/sys/" UUID);
    }
    return 0;
}

int root_sys_write(struct err *e)
{
    char path[128];

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        (void)str_format(path, sizeof(path), "%s%s", &ROOT_SYS[1], folders[i]);
        if (mkdir(path, 0755) < 0) {
            return err_sys(e, errno, "make /%s", path);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(copied); i++) {
        if (copy_entry(copied[i], e) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        if (write_entry(own[i].name, own[i].text, e) < 0) {
            return -1;
        }
    }
    return write_boot_id(e) < 0 ? -1 : show_uuid(e);
}
