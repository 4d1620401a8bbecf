/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that are kept as text: paths and accounts; see config_impl.h. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "config/config_impl.h"

int config_text_set(char **field, const char *value, struct err *e)
{
    char *copy = strdup(value);

    if (copy == NULL) {
        return err_sys(e, ENOMEM, "cannot keep the value");
    }
    free(*field);
    *field = copy;
    return 0;
}

/* Text that can be shown and sent as JSON unchanged. */
static bool is_plain(const char *s)
{
    size_t left = strlen(s);

    while (left > 0) {
        size_t n = str_utf8_len(s, left);

        if (n == 0 || iscntrl((unsigned char)*s)) {
            return false;
        }
        s += n;
        left -= n;
    }
    return true;
}

/* A path on the command line can be relative to the working directory; in the file it cannot. */
int config_text_path(char **field, const struct config_row *row, const char *value,
                     enum config_source source, struct err *e)
{
    char shown[CONFIG_QUOTED_MAX];
    char here[PATH_MAX];
    char whole[2 * PATH_MAX];

    if (value[0] == '\0' && row->fallback != NULL && row->fallback[0] == '\0') {
        return config_text_set(field, "", e); /* an optional path */
    }
    if (value[0] == '\0' || (value[0] != '/' && source == CONFIG_FROM_FILE)) {
        return err_set(e, ERR_INVALID, "'%s' is not an absolute path such as /srv/husk",
                       config_quote(value, shown));
    }
    if (!is_plain(value)) {
        return err_set(e, ERR_INVALID,
                       "'%s' is not plain text: expected UTF-8 without invisible characters",
                       config_quote(value, shown));
    }
    if (value[0] != '/' && getcwd(here, sizeof(here)) == NULL) {
        return err_sys(e, errno, "'%s' is relative to a directory that cannot be found",
                       config_quote(value, shown));
    }
    while (str_starts(value, "./")) {
        value += 1;
        value += strspn(value, "/"); /* a second slash would make the rest absolute */
    }
    int r = value[0] == '/' ? str_copy(whole, sizeof(whole), value)
                            : str_format(whole, sizeof(whole), "%s/%s", here, value);
    if (r < 0 || strlen(whole) > row->most) {
        return err_set(e, ERR_INVALID, "'%s' is too long: expected at most %u characters in all",
                       config_quote(value, shown), (unsigned)row->most);
    }
    for (size_t n = strlen(whole); n > 1 && whole[n - 1] == '/'; n--) {
        whole[n - 1] = '\0'; /* so that the part after the last slash is a name */
    }
    return config_text_set(field, whole, e);
}

int config_account_find(const char *name, uid_t *ret)
{
    struct passwd account;
    struct passwd *found = NULL;
    char strings[16384];

    int r = getpwnam_r(name, &account, strings, sizeof(strings), &found);
    if (found != NULL) {
        *ret = account.pw_uid;
        return 0;
    }
    return r == 0 ? -ENOENT : -r;
}

int config_text_account(char **field, const char *value, struct err *e)
{
    char shown[CONFIG_QUOTED_MAX];
    uid_t uid = 0;

    int r = config_account_find(value, &uid);
    if (r == -ENOENT) {
        return err_set(e, ERR_INVALID, "there is no account '%s': expected an existing one",
                       config_quote(value, shown));
    }
    if (r < 0) {
        return err_sys(e, -r, "cannot look up account '%s'", config_quote(value, shown));
    }
    if (uid == 0) {
        return err_set(e, ERR_INVALID, "'%s' is root: expected an account without privileges",
                       config_quote(value, shown));
    }
    return config_text_set(field, value, e);
}

int config_store_path(const struct config *c, char ret[CONFIG_STORE_PATH_MAX], struct err *e)
{
    return str_format(ret, CONFIG_STORE_PATH_MAX, "%s/" CONFIG_STORE, c->data) < 0
               ? err_set(e, ERR_INVALID, "the path of the data directory is too long: %s", c->data)
               : 0;
}
