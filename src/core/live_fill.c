/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a template consists of, told to the launcher: mounts, links, arguments and variables.
 *
 * Sources are opened here, with the caller's rights, and travel as descriptors.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "core/engine.h"
#include "core/paths.h"

#define COPY_MAX ((off_t)256 * 1024) /* files up to this are copied: mounts cost every box time */

static int call(struct husk_engine *engine, struct launcher_req *req, const int *fd, struct err *e)
{
    struct launcher_rep rep;

    return native_call(engine->native, req, fd, fd != NULL ? 1 : 0, &rep, e);
}

static int add_link(struct husk_engine *engine, uint32_t id, const char *path, const char *text,
                    struct err *e)
{
    struct launcher_req req = {.op = LAUNCHER_LINK, .template_id = id};

    if (str_copy(req.place.path, sizeof(req.place.path), path) < 0 ||
        str_copy(req.place.link, sizeof(req.place.link), text) < 0) {
        return err_set(e, ERR_INVALID, "link %s is too long", path);
    }
    return call(engine, &req, NULL, e);
}

static int add_mount(struct husk_engine *engine, uint32_t id, int fd, const char *path,
                     enum launcher_place kind, struct err *e)
{
    struct launcher_req req = {.op = LAUNCHER_MOUNT, .template_id = id, .place.kind = kind};

    if (str_copy(req.place.path, sizeof(req.place.path), path) < 0 || !launcher_path_check(path)) {
        return err_set(e, ERR_INVALID, "mount point \"%.200s\" must be an absolute, plain path",
                       path);
    }
    return call(engine, &req, &fd, e);
}

static int add_text(struct husk_engine *engine, uint32_t id, enum launcher_op op, const char *text,
                    struct err *e)
{
    struct launcher_req req = {.op = op, .template_id = id};

    if (str_copy(req.text, sizeof(req.text), text) < 0) {
        return err_set(e, ERR_INVALID, "\"%.60s...\" is too long", text);
    }
    return call(engine, &req, NULL, e);
}

/*
 * Puts a host path into the box as what it is: a link as a link, a file or directory as a read-only
 * mount.
 */
static int add_host(struct husk_engine *engine, uint32_t id, int dirfd, const char *host,
                    const char *box, struct err *e)
{
    AUTO_CLOSE int fd = openat(dirfd, host, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char text[PATH_MAX];
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "open %s", host);
    }
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(fd, "", text, sizeof(text) - 1);
        if (n < 0) {
            return err_sys(e, errno, "readlink %s", host);
        }
        text[n] = '\0';
        return add_link(engine, id, box, text, e);
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
        return 0; /* sockets and devices have no business in a box */
    }
    if (S_ISREG(st.st_mode) && st.st_size <= COPY_MAX) {
        AUTO_CLOSE int file = openat(dirfd, host, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (file >= 0) {
            return add_mount(engine, id, file, box, LAUNCHER_COPY, e);
        }
    }
    return add_mount(engine, id, fd, box, LAUNCHER_READ_ONLY, e);
}

/*
 * This host's programs and libraries, and the part of /etc that they need. Nothing about its users.
 */
static int add_host_root(struct husk_engine *engine, uint32_t id, struct err *e)
{
    static const char *const needed[] = {
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/etc/alternatives",
        "/etc/ld.so.cache",
        "/etc/ssl/certs",
        "/etc/ssl/openssl.cnf",
        "/etc/services",
        "/etc/protocols",
        "/etc/localtime",
        "/etc/timezone",
        "/etc/mime.types",
        "/etc/fonts",
        "/etc/matplotlibrc",
        "/etc/bash.bashrc",
    };

    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        if (faccessat(AT_FDCWD, needed[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (add_host(engine, id, AT_FDCWD, needed[i], needed[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* An unpacked root: every top-level entry but those that a box has of its own. */
static int add_unpacked_root(struct husk_engine *engine, uint32_t id, const char *root,
                             struct err *e)
{
    static const char *const own[] = {".",   "..",  "dev",       "proc", "sys",
                                      "tmp", "run", "workspace", "husk"};
    int result = 0;

    DIR *dir = opendir(root);
    if (dir == NULL) {
        return err_sys(e, errno, "open template root %s", root);
    }
    for (struct dirent *entry = readdir(dir); entry != NULL && result == 0; entry = readdir(dir)) {
        char box[300];
        bool skip = false;
        for (size_t i = 0; i < ARRAY_LEN(own); i++) {
            skip = skip || str_eq(entry->d_name, own[i]);
        }
        if (!skip && str_format(box, sizeof(box), "/%s", entry->d_name) == 0) {
            result = add_host(engine, id, dirfd(dir), entry->d_name, box, e);
        }
    }
    closedir(dir);
    return result;
}

static int add_env(struct husk_engine *engine, uint32_t id, const struct template_def *def,
                   struct err *e)
{
    static const char *const base[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "HOME=/workspace",
        "USER=user",
        "LOGNAME=user",
        "LANG=C.UTF-8",
        "TMPDIR=/tmp",
        "SHELL=/bin/bash",
        /* A zygote with threads cannot fork, and a box has one core unless it asks for more. */
        "OPENBLAS_NUM_THREADS=1",
        "OMP_NUM_THREADS=1",
        "MKL_NUM_THREADS=1",
        "MPLCONFIGDIR=/tmp/.matplotlib",
    };

    for (size_t i = 0; i < ARRAY_LEN(base); i++) {
        if (add_text(engine, id, LAUNCHER_ENV, base[i], e) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < def->n_env; i++) {
        if (add_text(engine, id, LAUNCHER_ENV, def->env[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int add_preloads(struct husk_engine *engine, uint32_t id, const char *modules, struct err *e)
{
    char name[256];

    for (const char *p = modules; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (n > 0) {
            if (str_format(name, sizeof(name), "%.*s", (int)n, p) < 0) {
                return err_set(e, ERR_INVALID, "a preload's name is too long");
            }
            if (add_text(engine, id, LAUNCHER_ARG, name, e) < 0) {
                return -1;
            }
        }
        p += n + (p[n] == ' ');
    }
    return 0;
}

static int add_program(struct husk_engine *engine, uint32_t id, const struct template_def *def,
                       bool preload, struct err *e)
{
    static const char *const python[] = {"-I", "-B", "/husk/runtimes/python/zygote.py", NULL};
    static const char *const shell[] = {NULL};
    static const char *const node[] = {"/husk/runtimes/node/runner.js", NULL};
    const char *const *rest = def->info.language == HUSK_PYTHON  ? python
                              : def->info.language == HUSK_SHELL ? shell
                                                                 : node;

    if (def->info.language != HUSK_PYTHON) {
        const char *how = def->info.language == HUSK_SHELL ? "start" : "prestart";
        if (add_text(engine, id, LAUNCHER_ARG, "/husk/husk-init", e) < 0 ||
            add_text(engine, id, LAUNCHER_ARG, how, e) < 0) {
            return -1;
        }
    }
    if (add_text(engine, id, LAUNCHER_ARG, def->info.runtime, e) < 0) {
        return -1;
    }
    for (size_t i = 0; rest[i] != NULL; i++) {
        if (add_text(engine, id, LAUNCHER_ARG, rest[i], e) < 0) {
            return -1;
        }
    }
    if (!preload) {
        return 0;
    }
    if (def->warm[0] != '\0' && (add_text(engine, id, LAUNCHER_ARG, "--warm", e) < 0 ||
                                 add_text(engine, id, LAUNCHER_ARG, def->warm, e) < 0)) {
        return -1;
    }
    return add_preloads(engine, id, def->info.preload, e);
}

static int add_run_mounts(struct husk_engine *engine, uint32_t id, const struct husk_mount *mounts,
                          size_t n, struct err *e)
{
    AUTO_BUF struct buf writable = BUF_INIT(LAUNCHER_TEXT_MAX - 1);

    if (buf_add_str(&writable, "HUSK_WRITABLE=") < 0) {
        return err_sys(e, ENOMEM, "mounts");
    }
    for (size_t i = 0; i < n; i++) {
        AUTO_CLOSE int fd = open(mounts[i].host, O_PATH | O_CLOEXEC);
        if (fd < 0) {
            err_sys(e, errno, "mount source %s", mounts[i].host);
            e->code = errno == ENOENT ? ERR_NOT_FOUND : ERR_INVALID;
            return -1;
        }
        enum launcher_place kind = mounts[i].read_only ? LAUNCHER_READ_ONLY : LAUNCHER_WRITABLE;
        if (add_mount(engine, id, fd, mounts[i].box, kind, e) < 0) {
            return -1;
        }
        if (!mounts[i].read_only && buf_printf(&writable, "%s:", mounts[i].box) < 0) {
            return err_set(e, ERR_LIMIT, "too many writable mounts");
        }
    }
    return n == 0 ? 0 : add_text(engine, id, LAUNCHER_ENV, writable.data, e);
}

int live_fill(struct husk_engine *engine, const struct live_template *live,
              const struct husk_mount *mounts, size_t n, struct err *e)
{
    const struct template_def *def = &live->def;
    AUTO_CLOSE int lib = -1;
    char path[PATH_MAX];

    int r = def->host_root ? add_host_root(engine, live->id, e)
                           : add_unpacked_root(engine, live->id, def->root, e);
    if (r < 0 || paths_lib_dir(path, sizeof(path), e) < 0) {
        return -1;
    }
    lib = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (lib < 0) {
        return err_sys(e, errno, "open husk's own files in %s", path);
    }
    if (add_mount(engine, live->id, lib, "/husk", LAUNCHER_READ_ONLY, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < def->n_mounts; i++) {
        if (add_host(engine, live->id, AT_FDCWD, def->mounts[i].host, def->mounts[i].box, e) < 0) {
            return -1;
        }
    }
    if (add_env(engine, live->id, def, e) < 0 ||
        add_program(engine, live->id, def, live->preload, e) < 0) {
        return -1;
    }
    return add_run_mounts(engine, live->id, mounts, n, e);
}
