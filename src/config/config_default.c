/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults that depend on the user, the machine and other settings; see config_impl.h. */
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/limits.h"
#include "base/str.h"
#include "base/units.h"
#include "config/config_impl.h"

#define ACCOUNT "husk" /* used by no other program, so that none can touch the files of huskd */

static bool is_open(const struct config_loader *l, enum config_key key)
{
    return l->c->origin[key].source == CONFIG_FROM_DEFAULT;
}

static void set(struct config_loader *l, enum config_key key, const char *value)
{
    config_apply(l, key, value, (struct config_origin){0});
}

static void set_joined(struct config_loader *l, enum config_key key, const char *dir,
                       const char *name)
{
    char path[PATH_MAX];

    if (str_format(path, sizeof(path), "%s/%s", dir, name) < 0) {
        config_error(l->report, "default: %s: the directory's name is too long; set %s",
                     config_rows[key].key, config_rows[key].key);
        return;
    }
    set(l, key, path);
}

/* A relative path is ignored, as the XDG base directory specification demands. */
static const char *directory(const struct config_loader *l, const char *variable)
{
    const char *dir = config_env_get(l->in, variable);

    return dir != NULL && dir[0] == '/' ? dir : NULL;
}

static void default_data(struct config_loader *l)
{
    const char *state = directory(l, "XDG_STATE_HOME");
    const char *home = directory(l, "HOME");

    if (l->in->is_root) {
        set(l, CONFIG_data, "/var/lib/husk");
    } else if (state != NULL) {
        set_joined(l, CONFIG_data, state, "husk");
    } else if (home != NULL) {
        set_joined(l, CONFIG_data, home, ".local/state/husk");
    } else {
        config_error(l->report, "default: data: neither XDG_STATE_HOME nor HOME is set; set data");
    }
}

static void default_socket(struct config_loader *l)
{
    const char *runtime = directory(l, "XDG_RUNTIME_DIR");

    if (is_open(l, CONFIG_data) && l->in->is_root) {
        set(l, CONFIG_socket, "/run/husk/husk.sock");
    } else if (is_open(l, CONFIG_data) && runtime != NULL) {
        set_joined(l, CONFIG_socket, runtime, "husk/husk.sock");
    } else if (l->c->data != NULL) { /* otherwise an error was reported */
        set_joined(l, CONFIG_socket, l->c->data, "husk.sock");
    }
}

static void default_templates(struct config_loader *l)
{
    const char *dir = directory(l, "HUSK_TEMPLATE_DIR");
    const char *home = directory(l, "HOME");

    if (dir != NULL) {
        set(l, CONFIG_templates, dir);
    } else if (l->in->is_root || home == NULL) {
        set(l, CONFIG_templates, "/etc/husk/templates");
    } else {
        set_joined(l, CONFIG_templates, home, ".config/husk/templates");
    }
}

static void default_user(struct config_loader *l)
{
    struct err e;
    uid_t uid;

    if (l->in->is_root && config_account_find(ACCOUNT, &uid) < 0) {
        config_error(l->report,
                     "default: user: there is no account '" ACCOUNT "' for huskd: `useradd "
                     "--system --no-create-home --shell /usr/sbin/nologin " ACCOUNT
                     "` creates it, or --user names another one");
    } else if (l->in->is_root) {
        set(l, CONFIG_user, ACCOUNT);
    } else if (config_text_set(&l->c->user, "", &e) < 0) {
        config_error(l->report, "default: user: %s", e.msg);
    }
}

static void default_disk(struct config_loader *l)
{
    struct limits limits = {.memory_bytes = l->c->memory_bytes};

    limits_fill(&limits);
    l->c->disk_bytes = limits.disk_bytes;
}

static void default_daemon_memory(struct config_loader *l)
{
    l->c->daemon_memory_bytes = MAX(MIN(GIB, limits_machine_memory() / 4), 256 * MIB);
}

/* Of the folder or, if it does not exist yet, of its nearest existing parent. */
static uint64_t file_system_size(const char *folder)
{
    struct statvfs fs;
    char path[PATH_MAX];

    if (str_copy(path, sizeof(path), folder) < 0) {
        return UINT64_MAX;
    }
    while (statvfs(path, &fs) < 0) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path) {
            return statvfs("/", &fs) < 0 ? UINT64_MAX : (uint64_t)fs.f_blocks * fs.f_frsize;
        }
        *slash = '\0';
    }
    return (uint64_t)fs.f_blocks * fs.f_frsize;
}

static void default_data_quota(struct config_loader *l)
{
    uint64_t size = l->c->data != NULL ? file_system_size(l->c->data) : UINT64_MAX;

    l->c->data_quota_bytes = MAX(MIN(10 * GIB, size / 10 * 8), 16 * MIB);
}

void config_default_rest(struct config_loader *l)
{
    if (is_open(l, CONFIG_data)) {
        default_data(l);
    }
    if (is_open(l, CONFIG_templates)) {
        default_templates(l);
    }
    if (is_open(l, CONFIG_socket) && !l->in->only_data) {
        default_socket(l);
    }
    if (is_open(l, CONFIG_user)) {
        default_user(l);
    }
    if (is_open(l, CONFIG_disk)) {
        default_disk(l);
    }
    if (is_open(l, CONFIG_daemon_memory)) {
        default_daemon_memory(l);
    }
    if (is_open(l, CONFIG_data_quota)) {
        default_data_quota(l);
    }
}
