/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a template consists of, told to the launcher: mounts, links, arguments and variables, then
 * how its zygote is confined.
 *
 * Runs where the operator's rights are: in the supervisor of a server, or in a program that has a
 * launcher of its own. Sources are opened here, with those rights, and travel as descriptors.
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
#include "box/seccomp.h"
#include "core/engine_impl.h"
#include "core/paths.h"
#include "core/template_fill.h"

#define COPY_MAX ((off_t)256 * 1024) /* files up to this are copied: mounts cost every box time */

static int put(const struct template_sink *to, struct launcher_req *req, const int *fd,
               struct err *e)
{
    return to->put(to->user, req, fd, e);
}

static int add_link(const struct template_sink *to, const char *path, const char *text,
                    struct err *e)
{
    struct launcher_req req = {.op = LAUNCHER_LINK};

    if (str_copy(req.place.path, sizeof(req.place.path), path) < 0 ||
        str_copy(req.place.link, sizeof(req.place.link), text) < 0) {
        return err_set(e, ERR_INVALID, "link %s is too long", path);
    }
    return put(to, &req, NULL, e);
}

static int add_mount(const struct template_sink *to, int fd, const char *path,
                     enum launcher_place kind, struct err *e)
{
    struct launcher_req req = {.op = LAUNCHER_MOUNT, .place.kind = kind};

    if (str_copy(req.place.path, sizeof(req.place.path), path) < 0 || !launcher_path_check(path)) {
        return err_set(e, ERR_INVALID, "mount point \"%.200s\" must be an absolute, plain path",
                       path);
    }
    return put(to, &req, &fd, e);
}

static int add_text(const struct template_sink *to, enum launcher_op op, const char *text,
                    struct err *e)
{
    struct launcher_req req = {.op = op};

    if (str_copy(req.text, sizeof(req.text), text) < 0) {
        return err_set(e, ERR_INVALID, "\"%.60s...\" is too long", text);
    }
    return put(to, &req, NULL, e);
}

/*
 * Puts a host path into the box as what it is: a link as a link, a file or directory as a read-only
 * mount.
 */
static int add_host(const struct template_sink *to, int dirfd, const char *host, const char *box,
                    struct err *e)
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
        return add_link(to, box, text, e);
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
        return 0; /* sockets and devices have no business in a box */
    }
    if (S_ISREG(st.st_mode) && st.st_size <= COPY_MAX) {
        AUTO_CLOSE int file = openat(dirfd, host, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (file >= 0) {
            return add_mount(to, file, box, LAUNCHER_COPY, e);
        }
    }
    return add_mount(to, fd, box, LAUNCHER_READ_ONLY, e);
}

/*
 * This host's programs and libraries, and the part of /etc that they need. Nothing about its users.
 */
static int add_host_root(const struct template_sink *to, struct err *e)
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
        if (add_host(to, AT_FDCWD, needed[i], needed[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* An unpacked root: every top-level entry but those that a box has of its own. */
static int add_unpacked_root(const struct template_sink *to, const char *root, struct err *e)
{
    static const char *const own[] = {".",   "..",  "dev",       "proc", "sys",
                                      "tmp", "run", "workspace", "husk", "husk-bytecode"};
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
            result = add_host(to, dirfd(dir), entry->d_name, box, e);
        }
    }
    closedir(dir);
    return result;
}

static int add_env(const struct template_sink *to, const struct template_def *def, struct err *e)
{
    static const char *const base[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "HOME=/workspace",
        "USER=user",
        "LOGNAME=user",
        "LANG=C.UTF-8",
        "TMPDIR=/tmp",
        "SHELL=/bin/bash",
        /* For programs that a program starts; the zygote's own interpreter is told by options. */
        "PYTHONUNBUFFERED=1",
        "PYTHONDONTWRITEBYTECODE=1",
        /* A zygote with threads cannot fork, and a box has one core unless it asks for more. */
        "OPENBLAS_NUM_THREADS=1",
        "OMP_NUM_THREADS=1",
        "MKL_NUM_THREADS=1",
        "_RJEM_MALLOC_CONF=background_thread:false", /* polars before 2.0 */
        "MPLCONFIGDIR=/tmp/.matplotlib",
    };

    for (size_t i = 0; i < ARRAY_LEN(base); i++) {
        if (add_text(to, LAUNCHER_ENV, base[i], e) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < def->n_env; i++) {
        if (add_text(to, LAUNCHER_ENV, def->env[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

struct additions {
    const struct template_sink *to;
    uint64_t chosen; /* bits of indices */
    bool all;
    bool optional; /* the zygote is told by a question mark */
    struct err *e;
};

static int add_module(void *user, const char *name, size_t index)
{
    const struct additions *a = user;
    bool is_chosen = a->all || (index < TEMPLATE_OFFERS_MAX && (a->chosen >> index & 1) != 0);

    if (!is_chosen) {
        return 0;
    }
    char argument[260];
    (void)str_format(argument, sizeof(argument), "%s%s", a->optional ? "?" : "", name);
    return add_text(a->to, LAUNCHER_ARG, argument, a->e);
}

/* The template's own, and those of its offers that were chosen. */
static int add_modules(const struct template_sink *to, const struct template_def *def,
                       const struct template_choice *choice, struct err *e)
{
    struct additions own = {.to = to, .all = true, .e = e};
    struct additions optional = {.to = to, .all = true, .optional = true, .e = e};
    struct additions offered = {.to = to, .chosen = choice->modules, .e = e};

    if (template_each_module(def->info.preload, add_module, &own) != 0 ||
        template_each_module(def->info.preload_optional, add_module, &optional) != 0 ||
        template_each_module(def->offers, add_module, &offered) != 0) {
        return e->code != ERR_NONE ? -1 : err_set(e, ERR_INVALID, "a module's name is too long");
    }
    return 0;
}

static int add_program(const struct template_sink *to, const struct template_def *def,
                       const struct template_choice *choice, struct err *e)
{
    static const char *const python[] = {"-I", "-B", "/husk/runtimes/python/zygote.py", NULL};
    static const char *const shell[] = {NULL};
    static const char *const node[] = {"/husk/runtimes/node/runner.js", NULL};
    const char *const *rest = def->info.language == HUSK_PYTHON  ? python
                              : def->info.language == HUSK_SHELL ? shell
                                                                 : node;

    if (def->info.language != HUSK_PYTHON) {
        const char *how = def->info.language == HUSK_SHELL ? "start" : "prestart";
        if (add_text(to, LAUNCHER_ARG, "/husk/husk-init", e) < 0 ||
            add_text(to, LAUNCHER_ARG, how, e) < 0) {
            return -1;
        }
    }
    if (add_text(to, LAUNCHER_ARG, def->info.runtime, e) < 0) {
        return -1;
    }
    for (size_t i = 0; rest[i] != NULL; i++) {
        if (add_text(to, LAUNCHER_ARG, rest[i], e) < 0) {
            return -1;
        }
    }
    if (!choice->preload) {
        return 0;
    }
    if (def->warm[0] != '\0' && (add_text(to, LAUNCHER_ARG, "--warm", e) < 0 ||
                                 add_text(to, LAUNCHER_ARG, def->warm, e) < 0)) {
        return -1;
    }
    return add_modules(to, def, choice, e);
}

static int add_run_mounts(const struct template_sink *to, const struct template_choice *choice,
                          struct err *e)
{
    for (size_t i = 0; i < choice->n_mounts; i++) {
        const struct husk_mount *m = &choice->mounts[i];
        AUTO_CLOSE int fd = open(m->host, O_PATH | O_CLOEXEC);
        if (fd < 0) {
            err_sys(e, errno, "mount source %s", m->host);
            e->code = errno == ENOENT ? ERR_NOT_FOUND : ERR_INVALID;
            return -1;
        }
        enum launcher_place kind = m->read_only ? LAUNCHER_READ_ONLY : LAUNCHER_WRITABLE;
        if (add_mount(to, fd, m->box, kind, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Without the folder imports take longer, no more. */
static int add_bytecode(const struct template_sink *to, const struct template_def *def,
                        struct err *e)
{
    AUTO_CLOSE int fd = open(def->bytecode, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 && errno == ENOENT) {
        return 0;
    }
    if (fd < 0 || fstat(fd, &st) < 0 || (st.st_uid != geteuid() && st.st_uid != 0) ||
        (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return err_set(e, ERR_TEMPLATE,
                       "bytecode: %.200s must be a folder of yours or root's that no other account "
                       "can write",
                       def->bytecode);
    }
    return add_mount(to, fd, "/husk-bytecode", LAUNCHER_READ_ONLY, e);
}

static int add_places(const struct template_sink *to, const struct template_def *def, struct err *e)
{
    AUTO_CLOSE int lib = -1;
    char path[PATH_MAX];

    int r = def->host_root ? add_host_root(to, e) : add_unpacked_root(to, def->root, e);
    if (r < 0 || paths_lib_dir(path, sizeof(path), e) < 0) {
        return -1;
    }
    lib = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (lib < 0) {
        return err_sys(e, errno, "open husk's own files in %s", path);
    }
    if (add_mount(to, lib, "/husk", LAUNCHER_READ_ONLY, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < def->n_mounts; i++) {
        if (add_host(to, AT_FDCWD, def->mounts[i].host, def->mounts[i].box, e) < 0) {
            if (e->code == ERR_SYSTEM) { /* the definition's mistake, and its reader must see it */
                e->code = ERR_TEMPLATE;
                e->sys_errno = 0;
            }
            return -1;
        }
    }
    return def->bytecode[0] != '\0' ? add_bytecode(to, def, e) : 0;
}

static int add_start(const struct template_sink *to, const struct template_def *def,
                     const struct template_choice *choice, struct err *e)
{
    const struct seccomp_program *profile = seccomp_find(def->seccomp);
    struct launcher_req req = {
        .op = LAUNCHER_START,
        .start = {.imports = choice->preload &&
                             (def->info.preload[0] != '\0' || def->warm[0] != '\0' ||
                              def->info.preload_optional[0] != '\0' || choice->modules != 0),
                  .memory_bytes = def->preload_memory_bytes,
                  .patience_ms = def->preload_timeout_ms,
                  .most = engine_limits_import(&def->most)},
    };

    if (req.start.most.memory_bytes == 0) {
        req.start.most.memory_bytes = choice->memory_most;
    }
    if (profile == NULL) {
        return err_set(e, ERR_INVALID, "there is no seccomp profile \"%s\"", def->seccomp);
    }
    req.start.seccomp = (uint32_t)(profile - seccomp_programs);
    return put(to, &req, NULL, e);
}

int template_fill(const struct template_def *def, const struct template_choice *choice,
                  const struct template_sink *to, struct err *e)
{
    if (def->info.missing[0] != '\0') {
        return err_set(e, ERR_TEMPLATE, "it cannot run here: %s", def->info.missing);
    }
    if (add_places(to, def, e) < 0 || add_env(to, def, e) < 0 ||
        add_program(to, def, choice, e) < 0 || add_run_mounts(to, choice, e) < 0) {
        return -1;
    }
    return add_start(to, def, choice, e);
}
