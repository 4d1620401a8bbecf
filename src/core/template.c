/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and listing templates; see template.h. */
#include "core/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "core/paths.h"

#define SUFFIX ".template"

/* gcc 12's analyzer says that a text which is NULL from its declaration on was never set. */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-use-of-uninitialized-value"
#endif

static const char *const languages[] = {
    [HUSK_PYTHON] = "python",
    [HUSK_SHELL] = "shell",
    [HUSK_JAVASCRIPT] = "javascript",
};

const char *template_language_name(enum husk_language language)
{
    return languages[language];
}

bool template_language_find(const char *name, enum husk_language *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
        if (str_eq(name, languages[i])) {
            *ret = (enum husk_language)i;
            return true;
        }
    }
    return false;
}

int template_default_dir(char *ret, size_t size, struct err *e)
{
    const char *dir = getenv("HUSK_TEMPLATE_DIR");
    const char *home = getenv("HOME");
    int r;

    if (dir != NULL && dir[0] == '/') {
        r = str_copy(ret, size, dir);
    } else if (geteuid() == 0 || home == NULL || home[0] != '/') {
        r = str_copy(ret, size, "/etc/husk/templates");
    } else {
        r = str_format(ret, size, "%s/.config/husk/templates", home);
    }
    return r < 0 ? err_set(e, ERR_INVALID, "template directory path is too long") : 0;
}

/* The first folder of an absolute path that we may not enter; "": none. */
static void find_closed(const char *path, char *ret, size_t size)
{
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        if (str_format(ret, size, "%.*s", (int)(slash - path), path) == 0 &&
            access(ret, X_OK) < 0) {
            return;
        }
    }
    ret[0] = '\0';
}

static void explain_runtime(struct template_def *def, int sys_errno)
{
    const char *path = def->info.runtime;
    char closed[TEMPLATE_PATH_MAX] = "";

    if (sys_errno == EACCES) {
        find_closed(path, closed, sizeof(closed));
    }
    if (closed[0] != '\0') {
        (void)str_format(def->info.missing, sizeof(def->info.missing),
                         "%.120s is in a folder that this account may not enter: %.60s", path,
                         closed);
    } else {
        (void)str_format(def->info.missing, sizeof(def->info.missing), "%.120s is not %s", path,
                         sys_errno == EACCES ? "executable" : "installed");
    }
}

/* What this host lacks for the template, in words; empty when nothing. */
static void find_missing(const struct template_dirs *dirs, struct template_def *def)
{
    if (def->host_root && access(def->info.runtime, X_OK) < 0) {
        if (errno != EACCES || !dirs->others_start) {
            explain_runtime(def, errno);
        }
    } else if (!def->host_root && access(def->root, R_OK) < 0) {
        (void)str_format(def->info.missing, sizeof(def->info.missing), "root %.200s is not there",
                         def->root);
    }
}

enum side { OPERATORS, CLIENTS };

static bool is_ours(const struct stat *st)
{
    return (st->st_uid == geteuid() || st->st_uid == 0) && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Held by descriptor, so that what was looked at is what is read. -errno, or a descriptor. */
static int open_ours(const char *dir, const char *path)
{
    AUTO_CLOSE int folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (folder < 0 || fstat(folder, &st) < 0) {
        return -errno;
    }
    if (!is_ours(&st)) {
        return -EPERM;
    }
    AUTO_CLOSE int fd = openat(folder, strrchr(path, '/') + 1,
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return errno == ELOOP ? -EPERM : -errno; /* a link leads wherever its maker wants */
    }
    return is_ours(&st) && S_ISREG(st.st_mode) && st.st_nlink == 1 ? take_fd(&fd) : -EPERM;
}

static ssize_t read_ours(const char *dir, const char *path, char *text, size_t size)
{
    AUTO_CLOSE int fd = open_ours(dir, path);

    return fd < 0 ? fd : fd_read_all(fd, text, size - 1);
}

/* The length plus 1, 0: there is none, -1. */
static int read_text(const char *dir, bool must_be_ours, const char *path, char **ret,
                     struct err *e)
{
    AUTO_FREE char *text = malloc(TEMPLATE_FILE_MAX);

    if (text == NULL) {
        return err_sys(e, ENOMEM, "read %s", path);
    }
    ssize_t n = must_be_ours ? read_ours(dir, path, text, TEMPLATE_FILE_MAX)
                             : fd_read_file(AT_FDCWD, path, text, TEMPLATE_FILE_MAX);
    /* A folder that we may not enter is none of ours; a file that we may not read is a mistake. */
    if (n == -ENOENT || n == -ENOTDIR || (n == -EACCES && access(dir, X_OK) < 0)) {
        return 0;
    }
    if (n == -EPERM && must_be_ours) {
        return err_set(e, ERR_INVALID,
                       "%s must be a plain file that only you or root can write, in such a folder",
                       path);
    }
    if (n < 0) {
        return err_sys(e, (int)-n, "read %s", path);
    }
    *ret = TAKE_PTR(text);
    return (int)n + 1;
}

int template_rebase(const struct template_dirs *dirs, struct template_def *def, struct err *e)
{
    const struct template_dirs of_operator = {.operators = dirs->operators};
    AUTO_FREE struct template_def *base = malloc(sizeof(*base)); /* large, for a fiber's stack */

    if (base == NULL) {
        return err_sys(e, ENOMEM, "template %s", def->info.name);
    }
    if (template_find(&of_operator, def->base, base, e) < 0) {
        return err_wrap(e, "the base of template %s", def->info.name);
    }
    return template_derive(def, base, e);
}

/* Where files are, and whose they are. */
struct folder {
    const char *dir;
    enum side side;
    const char *origin; /* as users read it; NULL: the path of each file */
};

/* Reads dir/name.template. 1 found, 0 not there, -1 broken. */
static int read_one(const struct template_dirs *dirs, const struct folder *in, const char *name,
                    struct template_def *ret, struct err *e)
{
    char path[TEMPLATE_PATH_MAX + 80];
    AUTO_FREE char *text = NULL;

    if (str_format(path, sizeof(path), "%s/%s" SUFFIX, in->dir, name) < 0) {
        return err_set(e, ERR_INVALID, "template path is too long");
    }
    bool must_be_ours = dirs->must_be_ours && in->dir == dirs->operators;
    int n = read_text(in->dir, must_be_ours, path, &text, e);
    if (n <= 0) {
        return n;
    }
    const char *from = in->origin != NULL ? in->origin : path;
    int r = in->side == CLIENTS ? template_parse_client(name, from, text, (size_t)n - 1, ret, e)
                                : template_parse(name, from, text, (size_t)n - 1, ret, e);
    if (r < 0 || (in->side == CLIENTS && template_rebase(dirs, ret, e) < 0)) {
        return -1;
    }
    find_missing(dirs, ret);
    return 1;
}

int template_find(const struct template_dirs *dirs, const char *name, struct template_def *ret,
                  struct err *e)
{
    char built_in[TEMPLATE_PATH_MAX];

    if (!str_is_name(name)) {
        return err_set(e, ERR_INVALID, "\"%.80s\" is not a template name", name);
    }
    const struct folder own = {.dir = built_in, .side = OPERATORS, .origin = "built in"};
    const struct folder operators = {.dir = dirs->operators, .side = OPERATORS};
    const struct folder clients = {.dir = dirs->clients, .side = CLIENTS};
    int r = dirs->operators != NULL ? read_one(dirs, &operators, name, ret, e) : 0;
    if (r == 0) {
        if (paths_lib("templates", built_in, sizeof(built_in), e) < 0) {
            return -1;
        }
        r = read_one(dirs, &own, name, ret, e);
    }
    if (r == 0 && dirs->clients != NULL) {
        r = read_one(dirs, &clients, name, ret, e);
    }
    if (r == 0 && paths_lib_dir(built_in, sizeof(built_in), e) < 0) {
        return -1;
    }
    if (r == 0) {
        return err_set(e, ERR_NOT_FOUND, "there is no template \"%s\": see `husk template list`",
                       name);
    }
    return r < 0 ? -1 : 0;
}

struct visit {
    const struct template_dirs *dirs;
    int (*fn)(void *user, const struct template_def *def);
    void *user;
};

static int each_in(const struct visit *v, const struct folder *in, struct err *e)
{
    AUTO_FREE struct template_def *def = malloc(sizeof(*def)); /* large, for a fiber's stack */
    struct err broken;
    int result = 0;

    DIR *d = def != NULL ? opendir(in->dir) : NULL;
    if (def == NULL) {
        return err_sys(e, ENOMEM, "list %s", in->dir);
    }
    if (d == NULL) {
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES
                   ? 0
                   : err_sys(e, errno, "list %s", in->dir);
    }
    for (struct dirent *entry = readdir(d); entry != NULL && result == 0; entry = readdir(d)) {
        size_t n = strlen(entry->d_name);
        char name[64];
        if (n <= strlen(SUFFIX) || !str_eq(entry->d_name + n - strlen(SUFFIX), SUFFIX) ||
            str_format(name, sizeof(name), "%.*s", (int)(n - strlen(SUFFIX)), entry->d_name) < 0) {
            continue;
        }
        if (read_one(v->dirs, in, name, def, &broken) < 0) {
            memset(def, 0, sizeof(*def));
            (void)str_copy(def->info.name, sizeof(def->info.name), name);
            (void)str_copy(def->info.origin, sizeof(def->info.origin), in->dir);
            (void)str_format(def->info.missing, sizeof(def->info.missing), "%.250s", broken.msg);
        }
        result = v->fn(v->user, def);
    }
    closedir(d);
    return result;
}

int template_each(const struct template_dirs *dirs,
                  int (*fn)(void *user, const struct template_def *def), void *user, struct err *e)
{
    const struct visit v = {.dirs = dirs, .fn = fn, .user = user};
    char built_in[TEMPLATE_PATH_MAX];
    const struct folder own = {.dir = built_in, .side = OPERATORS, .origin = "built in"};
    const struct folder operators = {.dir = dirs->operators, .side = OPERATORS};
    const struct folder clients = {.dir = dirs->clients, .side = CLIENTS};

    if (paths_lib("templates", built_in, sizeof(built_in), e) < 0 ||
        (clients.dir != NULL && each_in(&v, &clients, e) < 0) || each_in(&v, &own, e) < 0) {
        return -1;
    }
    return operators.dir != NULL ? each_in(&v, &operators, e) : 0;
}
