/* SPDX-License-Identifier: Apache-2.0 */
/* The Python interpreter of a project; see python.h. */
#include "cli/common/python.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/paths.h"

#define OUT_FD 3
#define PROBE_MS 30000

/* Must run in any Python, so that an old one can report its version. */
static const char probe[] = "import os, sys\n"
                            "def has(name):\n"
                            "    spec = importlib.util.find_spec(name)\n"
                            "    return spec is not None and spec.origin is not None\n"
                            "if sys.version_info < (3, 10):\n"
                            "    answer = 'old %d.%d' % sys.version_info[:2]\n"
                            "else:\n"
                            "    import importlib.util\n"
                            "    answer = 'ok ' + ''.join('01'[has(n)] for n in sys.argv[1:])\n"
                            "os.write(3, answer.encode())\n";

/* ---- which one ---- */

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Makes a path absolute without resolving links; searches a bare name in PATH. */
static int search(const char *name, char *ret, size_t size)
{
    char cwd[PATH_MAX];
    const char *at = getenv("PATH");

    if (strchr(name, '/') != NULL) {
        if (name[0] == '/') {
            return str_copy(ret, size, name) == 0 && is_program(ret) ? 0 : -1;
        }
        return getcwd(cwd, sizeof(cwd)) != NULL && str_format(ret, size, "%s/%s", cwd, name) == 0 &&
                       is_program(ret)
                   ? 0
                   : -1;
    }
    while (at != NULL && *at != '\0') {
        int n = (int)strcspn(at, ":");

        if (*at == '/' && str_format(ret, size, "%.*s/%s", n, at, name) == 0 && is_program(ret)) {
            return 0;
        }
        at += n;
        at += *at == ':';
    }
    return -1;
}

int python_find(const char *given, const char *folder, struct python *ret, struct err *e)
{
    const char *venv = getenv("VIRTUAL_ENV");
    char path[PATH_MAX];

    *ret = (struct python){0};
    if (given != NULL) {
        return search(given, ret->path, sizeof(ret->path)) == 0
                   ? 0
                   : err_set(e, ERR_NOT_FOUND,
                             "there is no program %s: name another one with --python", given);
    }
    if (venv != NULL && venv[0] != '\0') {
        return str_format(path, sizeof(path), "%s/bin/python", venv) == 0 &&
                       search(path, ret->path, sizeof(ret->path)) == 0
                   ? 0
                   : err_set(e, ERR_NOT_FOUND,
                             "VIRTUAL_ENV is %s, which has no bin/python: unset it or use --python",
                             venv);
    }
    if (str_format(path, sizeof(path), "%s/.venv/bin/python", folder) == 0 &&
        search(path, ret->path, sizeof(ret->path)) == 0) {
        return 0;
    }
    return search("python3", ret->path, sizeof(ret->path)) == 0
               ? 0
               : err_set(e, ERR_NOT_FOUND,
                         "there is no python3 in PATH: name an interpreter with --python");
}

/* ---- starting it ---- */

static int set_python_path(const char *sdk)
{
    const char *old = getenv("PYTHONPATH");
    size_t size = strlen(sdk) + (old != NULL ? strlen(old) : 0) + 2;
    AUTO_FREE char *value = NULL;

    if (sdk[0] == '\0') {
        return 0;
    }
    value = calloc(1, size);
    if (value == NULL) {
        return -1;
    }
    bool more = old != NULL && old[0] != '\0';
    (void)str_format(value, size, "%s%s%s", sdk, more ? ":" : "", more ? old : "");
    return setenv("PYTHONPATH", value, 1);
}

int python_start(const struct python *p, char **argv, const char *folder, int out, pid_t *ret,
                 struct err *e)
{
    pid_t parent = getpid();

    argv[0] = drop_const(p->path);
    pid_t pid = fork();
    if (pid < 0) {
        return err_sys(e, errno, "cannot start %s", p->path);
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (getppid() == parent && chdir(folder) == 0 && dup2(null, STDIN_FILENO) == 0 &&
            dup2(STDERR_FILENO, STDOUT_FILENO) == STDOUT_FILENO &&
            (out == OUT_FD ? fcntl(out, F_SETFD, 0) == 0 : dup2(out, OUT_FD) == OUT_FD) &&
            close_range(OUT_FD + 1, ~0U, 0) == 0 && set_python_path(p->sdk) == 0) {
            execv(argv[0], argv);
        }
        _exit(127);
    }
    *ret = pid;
    return 0;
}

int python_become(const struct python *p, char **argv, const char *folder, struct err *e)
{
    argv[0] = drop_const(p->path);
    if (chdir(folder) == 0 && set_python_path(p->sdk) == 0) {
        execv(argv[0], argv);
    }
    return err_sys(e, errno, "cannot start %s", p->path);
}

/* ---- what it has ---- */

/* The output of the probe; "" if there is none in time. */
static int ask(const struct python *p, char **argv, char *ret, size_t size, struct err *e)
{
    uint64_t until = clock_ms() + PROBE_MS;
    int pipe_fds[2];
    size_t n = 0;
    pid_t pid = 0;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    /* In the root folder, so that a module of the project does not count as installed. */
    int r = python_start(p, argv, "/", pipe_fds[1], &pid, e);
    fd_close(&pipe_fds[1]);
    while (r == 0 && n < size - 1) {
        struct pollfd poll_fd = {.fd = pipe_fds[0], .events = POLLIN};
        uint64_t now = clock_ms();
        ssize_t got = now < until && poll(&poll_fd, 1, (int)(until - now)) == 1
                          ? read(pipe_fds[0], ret + n, size - 1 - n)
                          : 0;
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
    }
    ret[n] = '\0';
    fd_close(&pipe_fds[0]);
    if (r == 0) {
        if (n == 0) {
            kill(pid, SIGKILL);
        }
        (void)waitpid(pid, NULL, 0);
    }
    return r;
}

int python_missing(const struct python *p, const char *const *names, size_t n,
                   uint32_t *ret_missing, struct err *e)
{
    char *argv[PYTHON_MODULES_MAX + 4] = {NULL, "-c", drop_const(probe)};
    char answer[64] = "";

    for (size_t i = 0; i < n && i < PYTHON_MODULES_MAX; i++) {
        argv[3 + i] = drop_const(names[i]);
    }
    if (ask(p, argv, answer, sizeof(answer), e) < 0) {
        return -1;
    }
    if (str_starts(answer, "old ")) {
        return err_set(e, ERR_INVALID,
                       "%s is Python %s: husk needs 3.10 or newer, name another one with --python",
                       p->path, answer + 4);
    }
    if (!str_starts(answer, "ok ") || strlen(answer) != 3 + n) {
        return err_set(e, ERR_INVALID,
                       "%s does not work as a Python interpreter: name another one with --python",
                       p->path);
    }
    *ret_missing = 0;
    for (size_t i = 0; i < n; i++) {
        *ret_missing |= answer[3 + i] == '1' ? 0 : 1U << i;
    }
    return 0;
}

/* A folder that was installed with this program, without symbolic links; -1: it does not exist. */
static int own_folder(const char *name, char ret[PATH_MAX], struct err *e)
{
    char path[PATH_MAX];

    if (paths_lib(name, path, sizeof(path), e) < 0) {
        return -1;
    }
    return realpath(path, ret) != NULL ? 0 : err_sys(e, errno, "cannot open %s", path);
}

int python_find_sdk(struct python *p, struct err *e)
{
    static const char *const modules[] = {"husk", "httpx", "cloudpickle"};
    char sdk[PATH_MAX];
    char deps[PATH_MAX];
    uint32_t missing = 0;
    struct err ignored;

    p->sdk[0] = '\0';
    if (python_missing(p, modules, ARRAY_LEN(modules), &missing, e) < 0) {
        return -1;
    }
    if ((missing & 1) == 0) {
        return 0;
    }
    if (own_folder("python", sdk, e) < 0) {
        return err_wrap(e, "%s has no package husk", p->path);
    }
    /*
     * Packages that the SDK needs may be installed with it; those of the interpreter are preferred.
     */
    bool add_deps = missing != 1 && own_folder("python-deps", deps, &ignored) == 0;
    return str_format(p->sdk, sizeof(p->sdk), "%s%s%s", sdk, add_deps ? ":" : "",
                      add_deps ? deps : "") < 0
               ? err_set(e, ERR_INVALID, "the path of the Python SDK is too long")
               : 0;
}
