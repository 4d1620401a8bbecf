/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crun and gVisor as peers: a minimal OCI bundle with Python in it. Less than a box gets (no
 * seccomp filter, no limits, no user namespace), which is in their favour.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "peers.h"

#define UNIFIED "/sys/fs/cgroup/unified" /* where crun looks for it, too */

static json_t *special(const char *type, const char *at)
{
    return json_pack("{s:s, s:s, s:s, s:[s]}", "destination", at, "type", type, "source", type,
                     "options", "nosuid");
}

static json_t *bind(const char *path)
{
    return json_pack("{s:s, s:s, s:s, s:[s, s]}", "destination", path, "type", "bind", "source",
                     path, "options", "rbind", "ro");
}

/*
 * Makes what a mount needs to stand on; a link of the host is made as a link. 1: needs a mount, 0:
 * does not.
 */
static int make_place(int root, const char *path)
{
    char target[256];
    struct stat st;

    if (peer_host_link(path, target, sizeof(target))) {
        return symlinkat(target, root, path + 1) < 0 && errno != EEXIST ? -1 : 0;
    }
    if (stat(path, &st) < 0) {
        return 0;
    }
    int r = S_ISDIR(st.st_mode) ? mkdirat(root, path + 1, 0755)
                                : mknodat(root, path + 1, S_IFREG | 0644, 0);
    return r < 0 && errno != EEXIST ? -1 : 1;
}

/* The mounts of a root that has been made for them; NULL when it could not. */
static json_t *make_root(int root)
{
    json_t *mounts = json_pack("[o, o, o]", special("proc", "/proc"), special("tmpfs", "/dev"),
                               special("tmpfs", "/tmp"));
    int r = mkdirat(root, "etc", 0755) < 0 && errno != EEXIST ? -1 : 0;

    for (const char *const *path = peer_host_paths; *path != NULL && r >= 0; path++) {
        r = make_place(root, *path);
        if (r > 0) {
            json_array_append_new(mounts, bind(*path));
        }
    }
    if (r < 0) {
        json_decref(mounts);
        return NULL;
    }
    return mounts;
}

static json_t *describe(const char *code, json_t *mounts)
{
    json_t *config = json_pack("{s:s, s:{s:s, s:b}, s:s}", "ociVersion", "1.0.2", "root", "path",
                               "rootfs", "readonly", 1, "hostname", "box");
    json_t *process =
        json_pack("{s:b, s:{s:i, s:i}, s:[s, s, s, s], s:[s, s], s:s, s:b}", "terminal", 0, "user",
                  "uid", 0, "gid", 0, "args", "/usr/bin/python3", "-I", "-c", code, "env",
                  "PATH=/usr/bin:/bin", "LANG=C.UTF-8", "cwd", "/", "noNewPrivileges", 1);
    json_t *namespaces = json_pack("[{s:s}, {s:s}, {s:s}, {s:s}, {s:s}]", "type", "pid", "type",
                                   "network", "type", "ipc", "type", "uts", "type", "mount");

    json_object_set_new(config, "process", process);
    json_object_set_new(config, "mounts", mounts);
    json_object_set_new(config, "linux", json_pack("{s:o}", "namespaces", namespaces));
    return config;
}

static int make_bundle(const char *path, const char *code, struct err *e)
{
    AUTO_CLOSE int bundle = -1;
    AUTO_CLOSE int root = -1;
    char file[PATH_MAX];

    if (mkdir(path, 0755) < 0 && errno != EEXIST) {
        return err_sys(e, errno, "make %s", path);
    }
    bundle = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (bundle < 0 || (mkdirat(bundle, "rootfs", 0755) < 0 && errno != EEXIST)) {
        return err_sys(e, errno, "make %s/rootfs", path);
    }
    root = openat(bundle, "rootfs", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || str_format(file, sizeof(file), "%s/config.json", path) < 0) {
        return err_sys(e, errno, "open %s/rootfs", path);
    }
    json_t *mounts = make_root(root);
    if (mounts == NULL) {
        return err_sys(e, errno, "fill %s/rootfs", path);
    }
    json_t *config = describe(code, mounts);
    int r = json_dump_file(config, file, JSON_INDENT(1));
    json_decref(config);
    return r < 0 ? err_sys(e, errno, "write %s", file) : 0;
}

/*
 * crun refuses a host whose unified cgroup tree has a controller while others sit in v1. It does
 * not look further than the mount, so it gets a mount namespace without it.
 */
static int hide_unified(struct err *e)
{
    AUTO_CLOSE int home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

    if (home < 0 || unshare(CLONE_NEWNS) < 0) {
        return err_sys(e, errno, "new mount namespace");
    }
    int made =
        mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || umount2(UNIFIED, MNT_DETACH) < 0
            ? -1
            : open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    int why = errno;
    if (setns(home, CLONE_NEWNS) < 0) {
        return err_sys(e, errno, "leave the new mount namespace");
    }
    return made < 0 ? err_sys(e, why, "hide " UNIFIED) : made;
}

static int bundle_of(const struct world *w, const char *code, char *ret, struct peer *p)
{
    struct err e = {0};

    if (str_format(ret, PATH_MAX, "%s/bundle", w->scratch) < 0 || make_bundle(ret, code, &e) < 0) {
        (void)str_format(p->absent, sizeof(p->absent), "%.190s", e.msg);
        return -1;
    }
    return 0;
}

void peer_crun(const struct world *w, const char *code, const char *expect, struct peer *ret)
{
    struct err e = {0};
    char bundle[PATH_MAX];

    peer_begin(ret, "crun+python", 34.2, expect);
    if (bundle_of(w, code, bundle, ret) < 0) {
        return;
    }
    peer_add(ret, (const char *const[]){"crun", "run", "--bundle", bundle, "id", NULL});
    ret->id_arg = ret->n_args - 1;
    peer_try(ret);
    if (ret->absent[0] == '\0' || access(UNIFIED, F_OK) < 0) {
        return;
    }
    ret->mount_ns = hide_unified(&e);
    if (ret->mount_ns >= 0) {
        peer_try(ret);
    }
}

void peer_runsc(const struct world *w, const char *code, const char *expect, struct peer *ret)
{
    char bundle[PATH_MAX];
    char platform[64];
    char root[PATH_MAX];
    bool is_current = w->runsc != NULL && str_eq(w->runsc_platform, "systrap");

    peer_begin(ret, "gVisor+python", is_current ? 104 : 277, expect);
    if (w->runsc == NULL) {
        (void)str_copy(ret->absent, sizeof(ret->absent),
                       "no runsc: neither Go to build it nor a package");
        return;
    }
    (void)str_format(ret->name, sizeof(ret->name), "gVisor %s+python", w->runsc_platform);
    (void)str_format(platform, sizeof(platform), "--platform=%s", w->runsc_platform);
    if (str_format(root, sizeof(root), "--root=%s/runsc", w->scratch) < 0 ||
        bundle_of(w, code, bundle, ret) < 0) {
        return;
    }
    peer_add(ret, (const char *const[]){w->runsc, platform, "--network=none", root, "run",
                                        "--bundle", bundle, "id", NULL});
    ret->id_arg = ret->n_args - 1;
    peer_try(ret);
}
