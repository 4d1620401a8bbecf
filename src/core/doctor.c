/* SPDX-License-Identifier: Apache-2.0 */
/* husk_doctor(): what this host offers, layer by layer, and what to do about what it does not. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/cgroup.h"
#include "box/landlock.h"
#include "box/netns.h"
#include "box/seccomp.h"
#include "core/doctor.h"

int doctor_in_child(int (*probe)(void))
{
    int status;

    /* Without a signal for its end: a caller that ignores SIGCHLD would keep us from waiting. */
    pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (pid < 0) {
        return errno;
    }
    if (pid == 0) {
        _exit(probe());
    }
    if (waitpid(pid, &status, __WALL) < 0 || !WIFEXITED(status)) {
        return EIO;
    }
    return WEXITSTATUS(status);
}

static int try_namespaces(void)
{
    return unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                   CLONE_NEWUTS | CLONE_NEWCGROUP) < 0
               ? errno
               : 0;
}

static int try_user_namespace(void)
{
    return unshare(CLONE_NEWUSER) < 0 ? errno : 0;
}

static int try_seccomp(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return errno;
    }
    return -seccomp_load(&seccomp_find("default")->whole);
}

static int try_mount_api(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
        return errno;
    }
    int fd = open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    return fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? errno : 0;
}

static void say(struct husk_layer *row, int err, const char *fine)
{
    row->present = err == 0;
    DOCTOR_FACT(row, "%s", err == 0 ? fine : strerrordesc_np(err));
}

static void probe_kernel(struct husk_layer *row)
{
    struct utsname u;

    row->present = uname(&u) == 0;
    DOCTOR_FACT(row, "Linux %.100s %.20s", u.release, u.machine);
}

static void probe_namespaces(struct husk_layer *row)
{
    int user = doctor_in_child(try_user_namespace);

    if (user != 0) {
        doctor_explain_namespaces(row, user);
    } else {
        say(row, doctor_in_child(try_namespaces), "user, mount, pid, net, ipc, uts, cgroup");
    }
}

static void probe_mounts(struct husk_layer *row)
{
    if (doctor_in_child(try_user_namespace) != 0) {
        DOCTOR_FACT(row, "not known: it is tried in a user namespace");
        row->fix = "as for namespaces";
    } else {
        say(row, doctor_in_child(try_mount_api), "open_tree, move_mount, mount_setattr");
    }
}

static void probe_seccomp(struct husk_layer *row)
{
    char fine[80];

    (void)str_format(fine, sizeof(fine), "profile default, digest %s",
                     seccomp_find("default")->digest);
    say(row, doctor_in_child(try_seccomp), fine);
}

static void probe_landlock(struct husk_layer *row)
{
    int abi = landlock_abi();

    row->present = abi > 0;
    DOCTOR_FACT(row, abi > 0 ? "ABI %d" : "absent (%d)", abi);
}

static void probe_ids(struct husk_layer *row)
{
    row->present = geteuid() == 0;
    DOCTOR_FACT(row, row->present ? "a block of 65536 host ids per box"
                                  : "not root: boxes share your own id");
}

static void probe_cgroup(struct husk_layer *row)
{
    static const char *const kinds[] = {"no cgroups", "v1", "v2",
                                        "hybrid: limits in v1, kill in v2"};
    struct cgroup_facts f;

    cgroup_probe(&f);
    row->present = f.memory && f.cpu && f.pids;
    if (row->present) {
        DOCTOR_FACT(row, "%s; memory, cpu, pids%s", kinds[f.kind], f.kill ? ", kill" : "");
    } else {
        DOCTOR_FACT(row, "%s: %.120s", kinds[f.kind], f.why_not);
    }
}

/* The server's own: boxes have theirs by the layer above. */
static void probe_server_memory(struct husk_layer *row)
{
    struct cgroup_facts f;

    cgroup_probe(&f);
    row->present = f.memory;
    if (f.memory) {
        DOCTOR_FACT(row, "a cgroup for huskd, of the size daemon_memory");
    } else {
        DOCTOR_FACT(row, "none for huskd: %.120s", f.why_not);
    }
}

static void probe_core(struct husk_layer *row)
{
    struct rlimit core;
    char pattern[64] = "";

    (void)fd_read_file(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof(pattern));
    pattern[strcspn(pattern, "\n")] = '\0';
    bool piped = pattern[0] == '|';
    row->present = !piped || (getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max >= 1);
    DOCTOR_FACT(row, "core_pattern %.50s", piped ? "is a pipe, limit 1 keeps it out" : pattern);
}

static void probe_files(struct husk_layer *row)
{
    struct rlimit files = {0};

    row->present = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max >= NETNS_FILES_LEAST;
    DOCTOR_FACT(row, "hard limit %" PRIu64, (uint64_t)files.rlim_max);
}

static const struct {
    struct husk_layer row;
    void (*probe)(struct husk_layer *row);
} layers[] = {
    {{.name = "kernel",
      .mandatory = true,
      .why = "every layer below is the kernel's",
      .fix = "Linux 5.12 or newer; 5.14 for cgroup.kill"},
     probe_kernel},
    {{.name = "namespaces",
      .mandatory = true,
      .why = "a box sees its own processes, mounts, network and names only",
      .fix = "sysctl user.max_user_namespaces=15000; in a container, allow unshare(2)"},
     probe_namespaces},
    {{.name = "mount API",
      .mandatory = true,
      .why = "read-only roots are built from descriptors, not paths",
      .fix = "Linux 5.12 or newer"},
     probe_mounts},
    {{.name = "seccomp",
      .mandatory = true,
      .why = "most of the kernel's system calls are out of reach",
      .fix = "a kernel with CONFIG_SECCOMP_FILTER"},
     probe_seccomp},
    {{.name = "landlock",
      .mandatory = true,
      .why = "a second opinion on what may be written",
      .fix = "Linux 5.13 or newer with landlock in the lsm= boot parameter"},
     probe_landlock},
    {{.name = "private ids",
      .mandatory = true,
      .why = "no id of a box means anything on the host",
      .fix = "run husk as root (sudo)"},
     probe_ids},
    {{.name = "cgroup limits",
      .mandatory = true,
      .why = "memory, CPU and process limits hold for the whole box",
      .fix = "run husk as root (sudo), or in a delegated cgroup v2 subtree"},
     probe_cgroup},
    {{.name = "server memory",
      .mandatory = false,
      .why = "what clients and boxes make huskd hold cannot use up the host",
      .fix = "run husk up as root (sudo), or in a delegated cgroup v2 subtree"},
     probe_server_memory},
    {{.name = "core dumps",
      .mandatory = true,
      .why = "a crash inside must not start the host's core handler",
      .fix = "raise the hard limit of core dumps to 1 (ulimit -Hc) or use a plain core_pattern"},
     probe_core},
    {{.name = "open files",
      .mandatory = true,
      .why = "each box holds some of the launcher's",
      .fix = "raise the hard limit of open files to 512 or more (ulimit -Hn)"},
     probe_files},
};

size_t husk_doctor(struct husk_layer *rows, size_t max)
{
    for (size_t i = 0; i < ARRAY_LEN(layers) && i < max; i++) {
        rows[i] = layers[i].row;
        layers[i].probe(&rows[i]);
    }
    return ARRAY_LEN(layers);
}
