/* SPDX-License-Identifier: Apache-2.0 */
/* Environment, mounts and files of `husk run`; see run_request.h. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/common/hostfile.h"
#include "cli/husk/run_request.h"

static bool is_env_name(const char *s, size_t n)
{
    if (n == 0 || isdigit((unsigned char)s[0])) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!(isascii(s[i]) && isalnum((unsigned char)s[i])) && s[i] != '_') {
            return false;
        }
    }
    return true;
}

/* The caller's "NAME=value", or NULL. */
static const char *environ_find(const char *name)
{
    size_t n = strlen(name);

    for (char **p = environ; *p != NULL; p++) {
        if (strncmp(*p, name, n) == 0 && (*p)[n] == '=') {
            return *p;
        }
    }
    return NULL;
}

static int attach_env(struct run_request *r, struct err *e)
{
    const struct option_list *list = &r->opt.env;

    r->env = calloc(list->n + 1, sizeof(*r->env));
    if (r->env == NULL) {
        return err_sys(e, ENOMEM, "cannot keep --env");
    }
    for (size_t i = 0; i < list->n; i++) {
        const char *item = list->items[i];
        size_t name_len = strcspn(item, "=");

        if (!is_env_name(item, name_len)) {
            return err_set(e, ERR_INVALID, "--env '%s' is not NAME or NAME=VALUE", item);
        }
        r->env[i] = item[name_len] == '=' ? item : environ_find(item);
        if (r->env[i] == NULL) {
            return err_set(e, ERR_INVALID, "--env %s: this variable is not set; use --env %s=VALUE",
                           item, item);
        }
    }
    return 0;
}

/*
 * Splits "host:box" at the colon before the last absolute path. The host part can contain colons.
 */
static char *cut_before_path(char *text)
{
    for (char *p = text + strlen(text); p > text; p--) {
        if (p[0] == ':' && p[1] == '/') {
            *p = '\0';
            return p + 1;
        }
    }
    return NULL;
}

static int parse_mount(char *text, struct husk_mount *m, struct err *e)
{
    size_t n = strlen(text);

    if (n > 3 && (str_eq(text + n - 3, ":ro") || str_eq(text + n - 3, ":rw"))) {
        m->read_only = text[n - 1] == 'o';
        text[n - 3] = '\0';
    }
    m->box = cut_before_path(text);
    if (m->box == NULL || text[0] == '\0') {
        return err_set(e, ERR_INVALID,
                       "--mount '%s' is not HOST:BOX[:ro] with an absolute path in the sandbox",
                       text);
    }
    m->host = realpath(text, NULL);
    if (m->host == NULL) {
        return err_sys(e, errno, "--mount %s", text);
    }
    return 0;
}

static int attach_mounts(struct run_request *r, struct err *e)
{
    const struct option_list *list = &r->opt.mounts;

    r->mounts = calloc(list->n + 1, sizeof(*r->mounts));
    if (r->mounts == NULL) {
        return err_sys(e, ENOMEM, "cannot keep --mount");
    }
    for (; r->n_mounts < list->n; r->n_mounts++) {
        if (parse_mount(list->items[r->n_mounts], &r->mounts[r->n_mounts], e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* A path below the workspace: relative, without empty, "." or ".." parts. */
static bool is_workspace_path(const char *path)
{
    while (*path != '\0') {
        size_t n = strcspn(path, "/");

        if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.')) {
            return false;
        }
        path += n;
        if (*path == '/') {
            path++;
            if (*path == '\0') {
                return false;
            }
        } else {
            return true;
        }
    }
    return false;
}

/* Splits "a:b" at its last colon; without one, b is the last part of a. */
static int split_pair(char *text, const char **ret_first, const char **ret_second)
{
    char *colon = strrchr(text, ':');

    if (colon != NULL) {
        *colon = '\0';
        *ret_second = colon + 1;
    } else {
        const char *slash = strrchr(text, '/');
        *ret_second = slash != NULL ? slash + 1 : text;
    }
    *ret_first = text;
    return **ret_first != '\0' && **ret_second != '\0' ? 0 : -EINVAL;
}

static int attach_file(struct run_request *r, size_t i, size_t *room, struct err *e)
{
    const char *host;

    if (split_pair(r->opt.files.items[i], &host, &r->files[i].name) < 0 ||
        !is_workspace_path(r->files[i].name)) {
        return err_set(e, ERR_INVALID,
                       "--file '%s': the name in the sandbox must be relative, without '..'",
                       r->opt.files.items[i]);
    }
    r->file_data[i] = BUF_INIT(*room);
    if (hostfile_read(host, &r->file_data[i], e) < 0) {
        return err_wrap(e, "--file");
    }
    *room -= r->file_data[i].len;
    r->files[i].data = r->file_data[i].data;
    r->files[i].len = r->file_data[i].len;
    return 0;
}

static int attach_files(struct run_request *r, struct err *e)
{
    size_t n = r->opt.files.n;
    size_t room = FILES_MAX;

    r->files = calloc(n + 1, sizeof(*r->files));
    r->file_data = calloc(n + 1, sizeof(*r->file_data));
    if (r->files == NULL || r->file_data == NULL) {
        return err_sys(e, ENOMEM, "cannot keep --file");
    }
    for (; r->n_files < n; r->n_files++) {
        if (attach_file(r, r->n_files, &room, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int attach_outs(struct run_request *r, struct err *e)
{
    const struct option_list *list = &r->opt.outs;

    r->outputs = calloc(list->n + 1, sizeof(*r->outputs));
    r->out_paths = calloc(list->n + 1, sizeof(*r->out_paths));
    if (r->outputs == NULL || r->out_paths == NULL) {
        return err_sys(e, ENOMEM, "cannot keep --out");
    }
    for (size_t i = 0; i < list->n; i++) {
        if (split_pair(list->items[i], &r->outputs[i], &r->out_paths[i]) < 0 ||
            !is_workspace_path(r->outputs[i])) {
            return err_set(e, ERR_INVALID,
                           "--out '%s': the name in the sandbox must be relative, without '..'",
                           list->items[i]);
        }
        if (hostfile_check_target(r->out_paths[i], e) < 0) {
            return err_wrap(e, "--out");
        }
    }
    return 0;
}

int run_request_attach(struct run_request *r, struct err *e)
{
    if (attach_env(r, e) < 0 || attach_mounts(r, e) < 0 || attach_outs(r, e) < 0) {
        return -1;
    }
    return attach_files(r, e);
}

void run_request_release(struct run_request *r)
{
    for (size_t i = 0; i < r->n_mounts; i++) {
        free((char *)r->mounts[i].host);
    }
    for (size_t i = 0; r->file_data != NULL && i < r->opt.files.n; i++) {
        buf_release(&r->file_data[i]);
    }
    free(r->mounts);
    free(r->file_data);
    free(r->files);
    free(r->env);
    free(r->outputs);
    free(r->out_paths);
    buf_release(&r->code);
    option_list_release(&r->opt.env);
    option_list_release(&r->opt.mounts);
    option_list_release(&r->opt.files);
    option_list_release(&r->opt.outs);
}
