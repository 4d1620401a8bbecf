/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_add().
 *
 * A virtual environment refers to its own path and to the Python it was made from, so both appear
 * in the box where they are on the host. The interpreter itself says where they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/engine_impl.h"

#define ABOUT_PREFIX_MAX 100 /* a longer one would not fit the line about a template */

struct python_facts {
    char executable[TEMPLATE_PATH_MAX];
    char prefix[TEMPLATE_PATH_MAX];
    char base_prefix[TEMPLATE_PATH_MAX];
    int major;
    int minor;
};

/* An interpreter, a prefix with bin/python3, or a prefix with bin/python. */
static int find_python(const char *path, char *ret, size_t size, struct err *e)
{
    static const char *const inside[] = {"bin/python3", "bin/python", "python3"};
    char absolute[PATH_MAX];
    struct stat st;

    /*
     * Not realpath(): a virtual environment's python is a link, and only under its own name finds
     * home.
     */
    if (path[0] == '/') {
        (void)str_copy(absolute, sizeof(absolute), path);
    } else {
        AUTO_FREE char *cwd = getcwd(NULL, 0);
        if (cwd == NULL) {
            return err_sys(e, errno, "find the current folder");
        }
        if (str_format(absolute, sizeof(absolute), "%s/%s", cwd, path) < 0) {
            return err_set(e, ERR_INVALID, "path %.200s is too long", path);
        }
    }
    if (stat(absolute, &st) < 0 && strchr(path, '/') == NULL) {
        return err_set(e, ERR_NOT_FOUND,
                       "there is no file %.100s here: name its path, as `command -v"
                       " %.100s` shows it",
                       path, path);
    }
    if (stat(absolute, &st) < 0) {
        err_sys(e, errno, "%s", path);
        e->code = ERR_NOT_FOUND;
        return -1;
    }
    if (!S_ISDIR(st.st_mode)) {
        return str_copy(ret, size, absolute) < 0 ? err_set(e, ERR_INVALID, "path is too long") : 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
        if (str_format(ret, size, "%s/%s", absolute, inside[i]) == 0 && stat(ret, &st) == 0 &&
            S_ISREG(st.st_mode) && access(ret, X_OK) == 0) {
            return 0;
        }
    }
    return err_set(e, ERR_NOT_FOUND, "there is no Python in %.300s", path);
}

/* Runs the interpreter once and returns what it prints. */
static int capture(const char *python, const char *code, char *ret, size_t size, struct err *e)
{
    posix_spawn_file_actions_t actions;
    char *argv[] = {(char *)python, "-I", "-c", (char *)code, NULL};
    int pipe_fds[2];
    int status;
    pid_t pid;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    AUTO_CLOSE int out = pipe_fds[0];
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    int r = posix_spawn(&pid, python, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    if (r != 0) {
        return err_sys(e, r, "run %s", python);
    }
    ssize_t n = fd_read_all(out, ret, size - 1);
    bool endless = n == (ssize_t)size - 1;
    if (endless) {
        kill(pid, SIGKILL);
    }
    if (waitpid(pid, &status, 0) < 0) {
        status = 0; /* a caller that ignores SIGCHLD: only what was printed can tell */
    }
    if (n < 0 || endless || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return err_set(e, ERR_TEMPLATE, "%.300s is not a working Python", python);
    }
    ret[n] = '\0';
    return 0;
}

static int take_line(char **text, char *ret, size_t size)
{
    size_t n = strcspn(*text, "\n");

    if ((*text)[n] != '\n' || n >= size) {
        return -1;
    }
    (*text)[n] = '\0';
    (void)str_copy(ret, size, *text);
    *text += n + 1;
    return 0;
}

static int ask_python(const char *python, struct python_facts *ret, struct err *e)
{
    static const char question[] =
        "import sys\n"
        "print(sys.prefix, sys.base_prefix, sys.version_info[0], sys.version_info[1], sep='\\n')\n";
    char answer[4 * TEMPLATE_PATH_MAX];
    char major[16];
    char minor[16];
    char *p = answer;

    if (capture(python, question, answer, sizeof(answer), e) < 0) {
        return -1;
    }
    (void)str_copy(ret->executable, sizeof(ret->executable), python);
    if (take_line(&p, ret->prefix, sizeof(ret->prefix)) < 0 ||
        take_line(&p, ret->base_prefix, sizeof(ret->base_prefix)) < 0 ||
        take_line(&p, major, sizeof(major)) < 0 || take_line(&p, minor, sizeof(minor)) < 0) {
        return err_set(e, ERR_TEMPLATE, "%.300s gave an answer that no Python gives", python);
    }
    ret->major = (int)strtol(major, NULL, 10);
    ret->minor = (int)strtol(minor, NULL, 10);
    if (ret->major != 3 || ret->minor < 9) {
        return err_set(e, ERR_TEMPLATE, "%.200s is Python %s.%s; husk needs CPython 3.9 or newer",
                       python, major, minor);
    }
    return 0;
}

static bool is_on_host_root(const char *prefix)
{
    return str_eq(prefix, "/usr") || str_starts(prefix, "/usr/");
}

static void write_mount(FILE *f, const char *path)
{
    if (!is_on_host_root(path)) {
        fprintf(f, "mount    = %s\n", path);
    }
}

static bool is_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return str_starts(path, folder) && path[n] == '/';
}

/*
 * The box sees /usr and the prefixes: a link from elsewhere (~/.local/bin) is followed, once and
 * for all.
 */
static int place_executable(struct python_facts *p, struct err *e)
{
    const char *there[] = {"/usr", p->prefix, p->base_prefix};
    AUTO_FREE char *real = realpath(p->executable, NULL);

    for (size_t i = 0; i < ARRAY_LEN(there); i++) {
        if (is_in(p->executable, there[i])) {
            return 0;
        }
    }
    /* In a virtual environment only the link itself finds home. */
    if (real == NULL || !str_eq(p->prefix, p->base_prefix) || !is_in(real, p->prefix)) {
        return err_set(e, ERR_TEMPLATE,
                       "%.200s is not in its own folder, %.200s: name the Python in there",
                       p->executable, p->prefix);
    }
    (void)str_copy(p->executable, sizeof(p->executable), real);
    return 0;
}

static void write_template(FILE *f, const struct python_facts *p, const char *const *preload,
                           const char *bytecode)
{
    fprintf(f,
            "# Made by `husk template add`. Edit freely; docs/templates.md explains every key.\n");
    fprintf(f, "about    = Python %d.%d", p->major, p->minor);
    if (strlen(p->prefix) <= ABOUT_PREFIX_MAX) {
        fprintf(f, " from %s", p->prefix);
    }
    fputc('\n', f);
    fprintf(f, "language = python\nruntime  = %s\n", p->executable);
    write_mount(f, p->prefix);
    if (!str_eq(p->prefix, p->base_prefix)) {
        write_mount(f, p->base_prefix);
    }
    if (!is_on_host_root(p->prefix) || !is_on_host_root(p->base_prefix)) {
        fprintf(f, "bytecode = %s\n", bytecode);
    }
    if (preload != NULL && preload[0] != NULL) {
        fprintf(f, "preload  =");
        for (size_t i = 0; preload[i] != NULL; i++) {
            fprintf(f, " %s", preload[i]);
        }
        fputc('\n', f);
    }
}

/*
 * The text of the template, which can be read again: what cannot is refused before there is a file.
 */
static int make_text(const char *name, const struct python_facts *p, const char *const *preload,
                     char **ret, struct err *e)
{
    struct template_def def;
    char bytecode[TEMPLATE_PATH_MAX];
    size_t n = 0;

    if (template_cache_path(name, bytecode, sizeof(bytecode), e) < 0) {
        return -1;
    }
    FILE *f = open_memstream(ret, &n);
    if (f == NULL) {
        return err_sys(e, errno, "template");
    }
    write_template(f, p, preload, bytecode);
    if (fclose(f) != 0) {
        return err_sys(e, errno, "template");
    }
    return template_parse(name, "the template", *ret, n, &def, e);
}

static int write_file(const char *name, const char *path, const char *text, struct err *e)
{
    int r = dirs_make_parents(path, 0755);
    AUTO_CLOSE int fd = -1;

    if (r < 0) {
        return err_sys(e, -r, "make the folder of %s", path);
    }
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        return errno == EEXIST
                   ? err_set(e, ERR_EXISTS, "there is a template %s already: %s", name, path)
                   : err_sys(e, errno, "write %s", path);
    }
    r = fchmod(fd, 0644) < 0 ? -errno : fd_write_all(fd, text, strlen(text)); /* huskd reads it */
    if (r < 0) {
        (void)unlink(path);
        return err_sys(e, -r, "write %s", path);
    }
    return 0;
}

int template_add(const char *name, const char *python, const char *const *preload, char *ret_path,
                 size_t path_size, struct err *e)
{
    struct python_facts facts = {0};
    char program[TEMPLATE_PATH_MAX];
    char dir[TEMPLATE_PATH_MAX];
    char *text = NULL;

    if (!str_is_name(name)) {
        return err_set(e, ERR_INVALID, "\"%.80s\" is no name for a template: use a-z 0-9 - _ .",
                       name);
    }
    if (find_python(python, program, sizeof(program), e) < 0 ||
        ask_python(program, &facts, e) < 0 || place_executable(&facts, e) < 0 ||
        template_default_dir(dir, sizeof(dir), e) < 0) {
        return -1;
    }
    if (str_format(ret_path, path_size, "%s/%s.template", dir, name) < 0) {
        return err_set(e, ERR_INVALID, "template path is too long");
    }
    int r = make_text(name, &facts, preload, &text, e);
    if (r == 0) {
        r = write_file(name, ret_path, text, e);
    }
    free(text);
    return r;
}
