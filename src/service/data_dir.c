/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies where in the daemon's part of the data folder. The database's files are the store's
 * business, the rest of the data folder is the supervisor's.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "service/service_impl.h"

static const char *const folders[] = {
    [DATA_SPOOL] = "spool", [DATA_TEMPLATES] = "templates", [DATA_WORKSPACES] = "workspaces"};

static int make_folder(const char *path, struct err *e)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        return err_sys(e, errno, "make %s", path);
    }
    return 0;
}

int data_make_folders(const struct config *c, struct err *e)
{
    char path[DATA_PATH_SIZE];
    int r = 0;

    if (config_store_path(c, path, e) < 0) {
        return -1;
    }
    if (strlen(path) > DATA_MAX) {
        return err_set(e, ERR_INVALID, "the path of the data folder is too long");
    }
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(folders); i++) {
        data_folder_path(c, (enum data_folder)i, path);
        r = make_folder(path, e);
    }
    return r;
}

void data_folder_path(const struct config *c, enum data_folder folder, char ret[DATA_PATH_SIZE])
{
    char store[CONFIG_STORE_PATH_MAX];
    struct err ignored;

    (void)config_store_path(c, store, &ignored); /* data_make_folders() has looked */
    (void)str_format(ret, DATA_PATH_SIZE, "%s/%s", store, folders[folder]);
}

void data_file_path(const struct config *c, enum data_folder folder, const char *name,
                    const char *suffix, char ret[DATA_PATH_SIZE])
{
    char parent[DATA_PATH_SIZE];

    data_folder_path(c, folder, parent);
    (void)str_format(ret, DATA_PATH_SIZE, "%s/%s%s", parent, name, suffix);
}
