/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock; see landlock.h. */
#include "box/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdbool.h>

#include "base/fd.h"
#include "box/sys.h"

#define FS_READ                                                                                    \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_FILE_ONLY                                                                               \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |   \
     LANDLOCK_FS_TRUNCATE | LANDLOCK_FS_IOCTL_DEV)

int landlock_abi(void)
{
    int abi = sys_landlock_abi();

    return abi < 0 ? 0 : abi;
}

/* Every right that this ABI knows: what is handled and not granted is refused. */
static uint64_t all_rights(int abi)
{
    uint64_t rights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1; /* the 13 of ABI 1 */

    if (abi >= 2) {
        rights |= LANDLOCK_ACCESS_FS_REFER;
    }
    if (abi >= 3) {
        rights |= LANDLOCK_FS_TRUNCATE;
    }
    if (abi >= 5) {
        rights |= LANDLOCK_FS_IOCTL_DEV;
    }
    return rights;
}

static int allow(int ruleset, const char *path, uint64_t rights, struct err *e)
{
    AUTO_CLOSE int fd = -1;

    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(e, errno, "landlock: open %s", path);
    }
    int r = sys_landlock_allow(ruleset, rights, fd);
    if (r == -EINVAL) { /* not a folder: rights of folders are refused then */
        r = sys_landlock_allow(ruleset, rights & FS_FILE_ONLY, fd);
    }
    if (r < 0) {
        return err_sys(e, -r, "landlock: rule for %s", path);
    }
    return 0;
}

int landlock_confine(int abi, const char *const *writable, size_t n, struct err *e)
{
    AUTO_CLOSE int ruleset = -1;
    struct landlock_ruleset attr = {.handled_access_fs = all_rights(abi)};
    size_t size = sizeof(attr.handled_access_fs);

    if (abi < 1) {
        return 0;
    }
    if (abi >= 6) {
        attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX | LANDLOCK_SCOPE_SIGNALS;
        size = sizeof(attr);
    }

    ruleset = sys_landlock_create(&attr, size);
    if (ruleset < 0) {
        return err_sys(e, -ruleset, "landlock: create ruleset");
    }
    if (allow(ruleset, "/", FS_READ, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        if (allow(ruleset, writable[i], all_rights(abi), e) < 0) {
            return -1;
        }
    }
    int r = sys_landlock_restrict(ruleset);
    if (r < 0) {
        return err_sys(e, -r, "landlock: restrict");
    }
    return 0;
}
