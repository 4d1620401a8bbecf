/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's account and arguments; see child.h. */
#include "supervisor/child.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

int account_find(const struct config *c, struct account *ret, struct err *e)
{
    struct passwd pw;
    struct passwd *found = NULL;
    char text[4096];

    *ret = (struct account){.uid = geteuid(), .gid = getegid()};
    if (geteuid() != 0 || c->user[0] == '\0') {
        return 0;
    }
    if (getpwnam_r(c->user, &pw, text, sizeof(text), &found) != 0 || found == NULL) {
        return err_set(e, ERR_INVALID, "there is no account \"%s\" (--user)", c->user);
    }
    *ret = (struct account){.uid = pw.pw_uid, .gid = pw.pw_gid, .switch_to = true};
    return 0;
}

static bool is_setting(const char *name)
{
    for (int key = 0; key < CONFIG_KEYS; key++) {
        if (config_rows[key].seed != NULL && str_eq(config_rows[key].seed, name)) {
            return true;
        }
    }
    return false;
}

static bool is_for_daemon(const char *variable)
{
    static const char *const names[] = {"PATH", "HOME", "LANG", "TZ", "TMPDIR"};
    static const char *const families[] = {"HUSK_", "LC_", "XDG_", "ASAN_", "LSAN_", "UBSAN_"};
    char name[64];

    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (str_starts(variable, families[i])) {
            return true;
        }
    }
    size_t len = strcspn(variable, "=");
    if (len >= sizeof(name)) {
        return false;
    }
    memcpy(name, variable, len);
    name[len] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_eq(name, names[i])) {
            return true;
        }
    }
    return is_setting(name);
}

char **daemon_environment(void)
{
    size_t n = 0;

    while (environ[n] != NULL) {
        n++;
    }
    char **kept = calloc(n + 1, sizeof(*kept));
    size_t n_kept = 0;
    for (size_t i = 0; kept != NULL && i < n; i++) {
        if (is_for_daemon(environ[i])) {
            kept[n_kept++] = environ[i];
        }
    }
    return kept;
}

/*
 * The flags that we were given, and the same file, so that the daemon can read it again; data and socket always, since their defaults
 * depend on who asks.
 */
int daemon_args(const struct config *c, struct buf *text, char *argv[DAEMON_ARGS_MAX],
                struct err *e)
{
    size_t offsets[DAEMON_ARGS_MAX];
    size_t n = 0;

    if (c->file != NULL) {
        offsets[n++] = text->len;
        if (buf_printf(text, "--config=%s", c->file) < 0 || buf_add(text, "", 1) < 0) {
            return err_sys(e, ENOMEM, "arguments");
        }
    }

    for (int key = 0; key < CONFIG_KEYS; key++) {
        AUTO_BUF struct buf value = BUF_INIT((size_t)64 << 10);
        bool needed =
            c->origin[key].source == CONFIG_FROM_FLAG || key == CONFIG_data || key == CONFIG_socket;
        if (!needed || key == CONFIG_user) {
            continue;
        }
        if (config_value_text(c, (enum config_key)key, &value, e) < 0) {
            return -1;
        }
        offsets[n++] = text->len;
        if (buf_printf(text, "--%s=%s", config_rows[key].flag,
                       value.data != NULL ? value.data : "") < 0 ||
            buf_add(text, "", 1) < 0) {
            return err_sys(e, ENOMEM, "arguments");
        }
    }
    for (size_t i = 0; i < n; i++) {
        argv[i + 1] = text->data + offsets[i];
    }
    argv[n + 1] = NULL;
    return 0;
}
