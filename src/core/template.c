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

/* What this host lacks for the template, in words; empty when nothing. */
static void find_missing(struct template_def *def)
{
    const char *path = def->info.runtime;

    if (def->host_root && access(path, X_OK) < 0) {
        (void)str_format(def->info.missing, sizeof(def->info.missing), "%s is not installed", path);
    } else if (!def->host_root && access(def->root, R_OK) < 0) {
        (void)str_format(def->info.missing, sizeof(def->info.missing), "root %.200s is not there",
                         def->root);
    }
}

/* Reads dir/name.template. 1 found, 0 not there, -1 broken. */
static int read_one(const char *dir, const char *name, const char *origin, struct template_def *ret,
                    struct err *e)
{
    AUTO_FREE char *text = malloc(TEMPLATE_FILE_MAX);
    char path[TEMPLATE_PATH_MAX + 80];

    if (text == NULL) {
        return err_sys(e, ENOMEM, "read template %s", name);
    }
    if (str_format(path, sizeof(path), "%s/%s" SUFFIX, dir, name) < 0) {
        return err_set(e, ERR_INVALID, "template path is too long");
    }
    ssize_t n = fd_read_file(AT_FDCWD, path, text, TEMPLATE_FILE_MAX);
    if (n == -ENOENT || n == -ENOTDIR) {
        return 0;
    }
    if (n < 0) {
        return err_sys(e, (int)-n, "read %s", path);
    }
    if (template_parse(name, origin != NULL ? origin : path, text, (size_t)n, ret, e) < 0) {
        return -1;
    }
    find_missing(ret);
    return 1;
}

int template_find(const char *dir, const char *name, struct template_def *ret, struct err *e)
{
    char built_in[TEMPLATE_PATH_MAX];

    if (!str_is_name(name)) {
        return err_set(e, ERR_INVALID, "\"%.80s\" is not a template name", name);
    }
    int r = dir != NULL ? read_one(dir, name, NULL, ret, e) : 0;
    if (r == 0) {
        if (paths_lib("templates", built_in, sizeof(built_in), e) < 0) {
            return -1;
        }
        r = read_one(built_in, name, "built in", ret, e);
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

static int each_in(const char *dir, const char *origin,
                   int (*fn)(void *user, const struct template_def *def), void *user, struct err *e)
{
    struct template_def def;
    struct err broken;
    int result = 0;

    DIR *d = opendir(dir);
    if (d == NULL) {
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, errno, "list %s", dir);
    }
    for (struct dirent *entry = readdir(d); entry != NULL && result == 0; entry = readdir(d)) {
        size_t n = strlen(entry->d_name);
        char name[64];
        if (n <= strlen(SUFFIX) || !str_eq(entry->d_name + n - strlen(SUFFIX), SUFFIX) ||
            str_format(name, sizeof(name), "%.*s", (int)(n - strlen(SUFFIX)), entry->d_name) < 0) {
            continue;
        }
        if (read_one(dir, name, origin, &def, &broken) < 0) {
            def = (struct template_def){0};
            (void)str_copy(def.info.name, sizeof(def.info.name), name);
            (void)str_copy(def.info.origin, sizeof(def.info.origin), dir);
            (void)str_format(def.info.missing, sizeof(def.info.missing), "%.250s", broken.msg);
        }
        result = fn(user, &def);
    }
    closedir(d);
    return result;
}

int template_each(const char *dir, int (*fn)(void *user, const struct template_def *def),
                  void *user, struct err *e)
{
    char built_in[TEMPLATE_PATH_MAX];

    if (paths_lib("templates", built_in, sizeof(built_in), e) < 0 ||
        each_in(built_in, "built in", fn, user, e) < 0) {
        return -1;
    }
    return dir != NULL ? each_in(dir, NULL, fn, user, e) : 0;
}
