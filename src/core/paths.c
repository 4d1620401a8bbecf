/* SPDX-License-Identifier: Apache-2.0 */
/* Husk's own files; see paths.h. */
#include "core/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

#define OTHERS_MAY (S_IROTH | S_IXOTH)

/* Directory of the running program. */
static int program_dir(char *ret, size_t size, struct err *e)
{
    ssize_t n = readlink("/proc/self/exe", ret, size - 1);

    if (n < 0) {
        return err_sys(e, errno, "find the running program");
    }
    ret[n] = '\0';
    char *slash = strrchr(ret, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    return 0;
}

int paths_lib(const char *name, char *ret, size_t size, struct err *e)
{
    const char *dir = getenv("HUSK_LIB_DIR");
    char program[PATH_MAX];
    int r;

    if (dir != NULL) {
        r = str_format(ret, size, "%s/%s", dir, name);
    } else {
        if (program_dir(program, sizeof(program), e) < 0) {
            return -1;
        }
        r = str_format(ret, size, "%s/../lib/husk/%s", program, name);
    }
    return r < 0 ? err_set(e, ERR_SYSTEM, "the path of husk's files is too long") : 0;
}

int paths_lib_dir(char *ret, size_t size, struct err *e)
{
    struct stat st;

    if (paths_lib("", ret, size, e) < 0) {
        return -1;
    }
    if (stat(ret, &st) < 0) {
        return err_sys(e, errno, "husk's own files, %.150s (`make install` copies all of it)", ret);
    }
    if (geteuid() == 0 && (st.st_mode & OTHERS_MAY) != OTHERS_MAY) {
        return err_set(e, ERR_SYSTEM,
                       "%.150s is closed to other accounts, and boxes have ids of their own:"
                       " chmod -R o+rX that folder",
                       ret);
    }
    return 0;
}

int paths_launcher(char *ret, size_t size, struct err *e)
{
    const char *path = getenv("HUSK_LAUNCHER");
    char program[PATH_MAX];
    int r;

    if (path != NULL) {
        r = str_copy(ret, size, path);
    } else {
        if (program_dir(program, sizeof(program), e) < 0) {
            return -1;
        }
        r = str_format(ret, size, "%s/husk-launcher", program);
    }
    return r < 0 ? err_set(e, ERR_SYSTEM, "the path of husk-launcher is too long") : 0;
}

int paths_daemon(char *ret, size_t size, struct err *e)
{
    char program[PATH_MAX];

    if (program_dir(program, sizeof(program), e) < 0) {
        return -1;
    }
    return str_format(ret, size, "%s/huskd", program) < 0
               ? err_set(e, ERR_SYSTEM, "the path of huskd is too long")
               : 0;
}
