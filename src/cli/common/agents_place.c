/* SPDX-License-Identifier: Apache-2.0 */
/* Data folder and socket of a served project; see agents_place.h. */
#include "cli/common/agents_place.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

#define SOCKET_LENGTH_MAX 107

/* A short name for a path, always the same. */
static unsigned long long path_hash(const char *path)
{
    unsigned long long hash = 0xcbf29ce484222325ULL;

    for (; *path != '\0'; path++) {
        hash = (hash ^ (unsigned char)*path) * 0x100000001b3ULL;
    }
    return hash;
}

static bool others_may_enter(const char *folder)
{
    char path[PATH_MAX];
    struct stat st;

    if (str_copy(path, sizeof(path), folder) < 0) {
        return false;
    }
    while (path[0] != '\0') {
        if (stat(path, &st) < 0 || (st.st_mode & S_IXOTH) == 0) {
            return false;
        }
        *strrchr(path, '/') = '\0';
    }
    return true;
}

static int make_absolute(const char *path, char ret[PATH_MAX])
{
    char cwd[PATH_MAX];

    if (path[0] == '/') {
        return str_copy(ret, PATH_MAX, path);
    }
    return getcwd(cwd, sizeof(cwd)) != NULL ? str_format(ret, PATH_MAX, "%s/%s", cwd, path) : -1;
}

int agents_place_data(const char *given, const char *project, const char *script,
                      char ret[PATH_MAX], struct err *e)
{
    int r;

    if (given != NULL) {
        r = make_absolute(given, ret);
    } else if (geteuid() == 0 && !others_may_enter(project)) {
        r = str_format(ret, PATH_MAX, "/var/lib/husk-agents/%016llx",
                       path_hash(script != NULL ? script : project));
    } else if (script != NULL) {
        r = str_format(ret, PATH_MAX, "%s/.husk/script-%016llx", project, path_hash(script));
    } else {
        r = str_format(ret, PATH_MAX, "%s/.husk", project);
    }
    return r < 0 ? err_set(e, ERR_INVALID, "the path of the data directory is too long") : 0;
}

int agents_place_socket(const char *data, char ret[PATH_MAX], struct err *e)
{
    const char *runtime = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");

    if (str_format(ret, PATH_MAX, "%s/husk.sock", data) == 0 && strlen(ret) <= SOCKET_LENGTH_MAX) {
        return 0;
    }
    if (runtime == NULL || runtime[0] != '/' ||
        str_format(ret, PATH_MAX, "%s/husk/agents-%016llx.sock", runtime, path_hash(data)) < 0) {
        return err_set(
            e, ERR_INVALID,
            "the path of the socket in %s would be too long: choose another with --socket", data);
    }
    return 0;
}
