/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up the account of huskd; see account.h. */
#include "supervisor/account.h"

#include <pwd.h>
#include <unistd.h>

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
        return err_set(e, ERR_INVALID,
                       "there is no account \"%s\": create it, or name another with --user",
                       c->user);
    }
    *ret = (struct account){.uid = pw.pw_uid, .gid = pw.pw_gid, .switch_to = true};
    return 0;
}
