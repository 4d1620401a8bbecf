/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A template's cache of compiled modules: template_compile(), template_cache_path().
 *
 * Mounts are read-only, so a Python environment without .pyc files would be compiled anew in every
 * zygote. How it works: a box of the template compiles, where it can read what boxes can read and
 * nothing else, and prints the results. We write them into a new folder and exchange it for the old
 * one. Boxes see the folder read-only. Python compares time and size of each source itself, so what
 * is outdated is ignored.
 *
 * What the box prints is hostile: names are checked, lengths are bounded, and every file is new.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/units.h"
#include "core/engine_impl.h"
#include "core/paths.h"

#define HEADER_MAX 1100
#define FILE_BYTES_MAX (64 * MIB)
#define BYTES_MAX (2 * GIB)
#define COMPILE_MS 600000
#define PROGRAM_MAX 65536

int template_cache_path(const char *name, char *ret, size_t size, struct err *e)
{
    const char *own = getenv("HUSK_CACHE_DIR");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int r;

    if (own != NULL && own[0] == '/') {
        r = str_format(ret, size, "%s/bytecode/%s", own, name);
    } else if (geteuid() == 0 || home == NULL || home[0] != '/') {
        r = str_format(ret, size, "/var/cache/husk/bytecode/%s", name);
    } else if (cache != NULL && cache[0] == '/') {
        r = str_format(ret, size, "%s/husk/bytecode/%s", cache, name);
    } else {
        r = str_format(ret, size, "%s/.cache/husk/bytecode/%s", home, name);
    }
    return r < 0 ? err_set(e, ERR_INVALID, "the path of the cache is too long") : 0;
}

/* ---- what the box prints ---- */

struct intake {
    const struct template_def *def;
    const char *folder; /* new, ours alone */
    char header[HEADER_MAX];
    size_t header_len;
    int file; /* that is being written; -1: a header comes */
    uint64_t left;
    uint64_t total;
    uint32_t files;
    struct err err;
};

/* A .pyc file below one of the template's mounts. */
static bool is_expected(const struct intake *in, const char *path)
{
    size_t n = strlen(path);

    if (!launcher_path_check(path) || n < 4 || !str_eq(path + n - 4, ".pyc")) {
        return false;
    }
    for (size_t i = 0; i < in->def->n_mounts; i++) {
        size_t len = strlen(in->def->mounts[i].box);
        if (str_starts(path, in->def->mounts[i].box) && path[len] == '/') {
            return true;
        }
    }
    return false;
}

/* "LENGTH PATH" */
static int begin_file(struct intake *in, struct err *e)
{
    char path[TEMPLATE_PATH_MAX + HEADER_MAX];
    char *space = strchr(in->header, ' ');

    if (space == NULL) {
        return err_set(e, ERR_PROTOCOL, "the compiling program printed something else");
    }
    *space = '\0';
    if (parse_u64(in->header, &in->left) < 0 || in->left > FILE_BYTES_MAX ||
        (in->total += in->left) > BYTES_MAX || !is_expected(in, space + 1) ||
        str_format(path, sizeof(path), "%s%s", in->folder, space + 1) < 0) {
        return err_set(e, ERR_PROTOCOL, "the compiling program printed a file that it must not");
    }
    int r = dirs_make_parents(path, 0755);
    if (r < 0) {
        return err_sys(e, -r, "make the folder of %s", path);
    }
    in->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (in->file < 0) {
        return err_sys(e, errno, "write %s", path);
    }
    in->files++;
    return 0;
}

static int take_header(struct intake *in, char c, struct err *e)
{
    if (c != '\n') {
        if (in->header_len + 1 >= sizeof(in->header)) {
            return err_set(e, ERR_PROTOCOL, "the compiling program printed something else");
        }
        in->header[in->header_len++] = c;
        return 0;
    }
    in->header[in->header_len] = '\0';
    in->header_len = 0;
    return begin_file(in, e);
}

/* The number of bytes taken, or -1. */
static ssize_t take_some(struct intake *in, const char *data, size_t n, struct err *e)
{
    if (in->file < 0) {
        return take_header(in, data[0], e) < 0 ? -1 : 1;
    }
    size_t some = MIN(n, in->left);
    int r = fd_write_all(in->file, data, some);
    if (r < 0) {
        return err_sys(e, -r, "write the cache");
    }
    in->left -= some;
    if (in->left == 0) {
        fd_close(&in->file);
    }
    return (ssize_t)some;
}

static void take_output(void *user, enum husk_stream stream, const char *data, size_t n)
{
    struct intake *in = user;

    while (stream == HUSK_STDOUT && n > 0 && in->err.code == ERR_NONE) {
        ssize_t taken = take_some(in, data, n, &in->err);
        if (taken > 0) {
            data += taken;
            n -= (size_t)taken;
        }
    }
}

/* ---- the folder ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/*
 * A new folder beside that one. Its name begins with a dot, as no template's does: other templates
 * have their folders in the same place.
 */
static int make_folder(const char *path, char *ret, size_t size, struct err *e)
{
    const char *slash = strrchr(path, '/');
    int dir = (int)(slash - path) + 1;

    if (str_format(ret, size, "%.*s.%s.XXXXXX", dir, path, slash + 1) < 0) {
        return err_set(e, ERR_INVALID, "the path of the cache is too long");
    }
    int r = dirs_make_parents(ret, 0755);
    return r < 0 || mkdtemp(ret) == NULL || chmod(ret, 0755) < 0
               ? err_sys(e, r < 0 ? -r : errno, "make %s", ret)
               : 0;
}

/* Instead of an older one. Boxes that have that mounted keep it. */
static int place_folder(const char *fresh, const char *path, struct err *e)
{
    char old[TEMPLATE_PATH_MAX + 32];

    (void)str_format(old, sizeof(old), "%s.old", fresh);
    if (rename(path, old) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "replace %s", path);
    }
    if (rename(fresh, path) < 0) {
        return err_sys(e, errno, "make %s", path);
    }
    remove_tree(old);
    return 0;
}

/* ---- the run ---- */

static int read_program(char *ret, size_t size, size_t *n, struct err *e)
{
    char path[TEMPLATE_PATH_MAX];

    if (paths_lib("runtimes/python/bytecode.py", path, sizeof(path), e) < 0) {
        return -1;
    }
    ssize_t r = fd_read_file(AT_FDCWD, path, ret, size);
    if (r < 0) {
        return err_sys(e, (int)-r, "read %s", path);
    }
    *n = (size_t)r;
    return 0;
}

static int run_program(struct engine *engine, struct intake *in, const char *code, size_t n,
                       struct err *e)
{
    const char *folders[TEMPLATE_LIST_MAX + 1] = {NULL};
    struct husk_result *result = NULL;

    for (size_t i = 0; i < in->def->n_mounts; i++) {
        folders[i] = in->def->mounts[i].box;
    }
    const struct husk_spec spec = {
        .template_name = in->def->info.name,
        .kind = HUSK_SCRIPT,
        .code = code,
        .code_len = n,
        .name = "<bytecode>",
        .args = folders,
        .no_pool = true,
        .limits = {.memory_bytes = 4 * GIB,
                   .disk_bytes = 2 * GIB,
                   .timeout_ms = COMPILE_MS,
                   .output_bytes = 2 * BYTES_MAX,
                   .cpu_milli = 64000},
        .on_output = take_output,
        .user = in,
    };
    if (engine_run(engine, &spec, NULL, &result, e) < 0) {
        return -1;
    }
    if (in->err.code != ERR_NONE) {
        *e = in->err;
    } else if (result->status != HUSK_COMPLETED) {
        char words[200];
        const char *said = result->err_len > 0 ? result->err : result->termination.detail;
        str_printable(words, sizeof(words), said, strlen(said));
        err_set(e, ERR_TEMPLATE, "its modules could not be compiled: %s", words);
    } else if (in->file >= 0 || in->header_len > 0) {
        err_set(e, ERR_PROTOCOL, "the compiling program ended in the middle of a file");
    }
    husk_result_free(result);
    return e->code == ERR_NONE ? 0 : -1;
}

static int fill_folder(struct engine *engine, const struct template_def *def, const char *fresh,
                       uint32_t *ret_files, struct err *e)
{
    struct intake in = {.def = def, .folder = fresh, .file = -1};
    AUTO_FREE char *code = malloc(PROGRAM_MAX);
    size_t n = 0;

    if (code == NULL) {
        return err_sys(e, ENOMEM, "compile");
    }
    if (read_program(code, PROGRAM_MAX, &n, e) < 0) {
        return -1;
    }
    int r = run_program(engine, &in, code, n, e);
    fd_close(&in.file);
    *ret_files = in.files;
    return r;
}

int template_compile(struct engine *engine, const char *name, uint32_t *ret_files, struct err *e)
{
    AUTO_FREE struct template_def *def = malloc(sizeof(*def));
    char fresh[TEMPLATE_PATH_MAX + 16];

    if (def == NULL) {
        return err_sys(e, ENOMEM, "compile");
    }
    if (template_find(&engine->dirs, name, def, e) < 0) {
        return -1;
    }
    if (def->info.language != HUSK_PYTHON || def->n_mounts == 0) {
        *ret_files = 0;
        return 0;
    }
    if (def->bytecode[0] == '\0') {
        return err_set(e, ERR_INVALID,
                       "template %s does not say where to: add `bytecode = FOLDER` to its file",
                       name);
    }
    if (make_folder(def->bytecode, fresh, sizeof(fresh), e) < 0) {
        return -1;
    }
    int r = fill_folder(engine, def, fresh, ret_files, e);
    if (r == 0 && *ret_files > 0) {
        r = place_folder(fresh, def->bytecode, e);
    }
    remove_tree(fresh); /* it failed, or there was nothing to compile */
    return r;
}
