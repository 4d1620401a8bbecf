/* SPDX-License-Identifier: Apache-2.0 */
/* Folders; see dirs.h. Follows links, as any later use of the path does. */
#include "base/dirs.h"

#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"

int dirs_make_parents(const char *path, mode_t mode)
{
    char part[PATH_MAX];

    if (str_copy(part, sizeof(part), path) < 0) {
        return -ENAMETOOLONG;
    }
    for (char *p = strchr(part, '/'); p != NULL; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (p != part && mkdir(part, mode) < 0 && errno != EEXIST) {
            return -errno;
        }
        *p = '/';
    }
    return 0;
}
