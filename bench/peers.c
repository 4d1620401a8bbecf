/* SPDX-License-Identifier: Apache-2.0 */
/* Running peers; see peers.h. What the container runtimes need besides is in oci.c. */
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

static char *const peer_env[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "OPENBLAS_NUM_THREADS=1",
                                 NULL};

const char *const peer_host_paths[] = {"/usr",
                                       "/bin",
                                       "/sbin",
                                       "/lib",
                                       "/lib32",
                                       "/lib64",
                                       "/libx32",
                                       "/etc/ld.so.cache",
                                       "/etc/alternatives",
                                       NULL};

bool peer_host_link(const char *path, char *target, size_t size)
{
    ssize_t n = readlink(path, target, size - 1);

    target[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* A pipe to read its stdout from, and somewhere for its complaints. -1: inherited. */
struct streams {
    int out_read;
    int out_write;
    int complaints;
};

static int start(char *const *argv, const struct streams *s, pid_t *ret)
{
    posix_spawn_file_actions_t actions;

    if (s->out_write < 0) {
        return posix_spawn(ret, argv[0], NULL, NULL, argv, peer_env);
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, s->out_write, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, s->complaints, STDERR_FILENO);
    int r = posix_spawnp(ret, argv[0], &actions, NULL, argv, peer_env);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

/* From spawn to reaped. The exit code says whether it worked. */
static int run_timed(char *const *argv, struct streams *s, char *out, size_t size, double *ret_ms)
{
    ssize_t n = 0;
    int status = 0;
    pid_t pid;

    uint64_t begun = clock_ns();
    int r = start(argv, s, &pid);
    if (r != 0) {
        return -r;
    }
    fd_close(&s->out_write);
    if (s->out_read >= 0) {
        n = fd_read_all(s->out_read, out, size - 1);
    }
    if (waitpid(pid, &status, 0) < 0) {
        return -errno;
    }
    *ret_ms = (double)(clock_ns() - begun) / 1e6;
    out[n > 0 ? n : 0] = '\0';
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

static int open_streams(struct streams *s, struct err *e)
{
    int pair[2];

    s->complaints = memfd_create("stderr", MFD_CLOEXEC);
    if (s->complaints < 0 || pipe2(pair, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe to a peer");
    }
    s->out_read = pair[0];
    s->out_write = pair[1];
    return 0;
}

static int explain(const struct peer *p, int r, const struct streams *s, struct err *e)
{
    char raw[160] = "";
    char text[200];

    if (s->complaints < 0 || pread(s->complaints, raw, sizeof(raw) - 1, 0) <= 0) {
        return err_sys(e, -r, "%s", p->args[0]);
    }
    raw[strcspn(raw, "\n")] = '\0';
    str_printable(text, sizeof(text), raw, strlen(raw));
    return err_set(e, ERR_SYSTEM, "%s: %s", p->args[0], text);
}

static int run_peer(const struct peer *p, char *out, size_t size, double *ret_ms, struct err *e)
{
    static unsigned containers;
    char *argv[PEER_ARGS_MAX + 1];
    char id[32];
    struct streams s = {-1, -1, -1};

    for (int i = 0; i < p->n_args; i++) {
        argv[i] = (char *)p->args[i];
    }
    argv[p->n_args] = NULL;
    if (p->id_arg > 0) {
        (void)str_format(id, sizeof(id), "bench-%d-%u", getpid(), ++containers);
        argv[p->id_arg] = id;
    }
    int r = p->expect[0] == '\0' ? 0 : open_streams(&s, e);
    if (r == 0) {
        r = run_timed(argv, &s, out, size, ret_ms);
        r = r < 0 ? explain(p, r, &s, e) : 0;
    }
    fd_close(&s.out_read);
    fd_close(&s.out_write);
    fd_close(&s.complaints);
    return r;
}

/* In the peer's mount namespace, if it has one; the way there and back is not timed. */
static int run_placed(const struct peer *p, char *out, size_t size, double *ret_ms, struct err *e)
{
    AUTO_CLOSE int home = -1;

    if (p->mount_ns < 0) {
        return run_peer(p, out, size, ret_ms, e);
    }
    home = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (home < 0 || setns(p->mount_ns, CLONE_NEWNS) < 0) {
        return err_sys(e, errno, "enter the peer's mount namespace");
    }
    int r = run_peer(p, out, size, ret_ms, e);
    if (setns(home, CLONE_NEWNS) < 0) {
        return err_sys(e, errno, "leave the peer's mount namespace");
    }
    return r;
}

int peer_capture(const struct peer *peer, char *ret, size_t size, struct err *e)
{
    double ignored;

    return run_placed(peer, ret, size, &ignored, e);
}

int peer_once(void *user, double *ret, struct err *e)
{
    const struct peer *p = user;
    char out[256];

    if (run_placed(p, out, sizeof(out), ret, e) < 0) {
        return -1;
    }
    if (!str_eq(out, p->expect)) {
        return err_set(e, ERR_PROTOCOL, "it printed \"%.60s\"", out);
    }
    return 0;
}

void peer_add(struct peer *p, const char *const *args)
{
    for (; *args != NULL && p->n_args < PEER_ARGS_MAX; args++) {
        (void)str_copy(p->args[p->n_args++], sizeof(p->args[0]), *args);
    }
}

void peer_begin(struct peer *p, const char *name, double recorded_ms, const char *expect)
{
    memset(p, 0, sizeof(*p));
    p->mount_ns = -1;
    p->recorded_ms = recorded_ms;
    (void)str_copy(p->name, sizeof(p->name), name);
    (void)str_copy(p->expect, sizeof(p->expect), expect);
}

void peer_try(struct peer *p)
{
    struct err e = {0};
    double ignored;

    p->absent[0] = '\0';
    if (peer_once(p, &ignored, &e) < 0) {
        (void)str_format(p->absent, sizeof(p->absent), "%.190s", e.msg);
    }
}

void peer_release(struct peer *peer)
{
    fd_close(&peer->mount_ns);
}

void peer_true(struct peer *ret)
{
    peer_begin(ret, "exec true", 0.88, "");
    peer_add(ret, (const char *const[]){"/usr/bin/true", NULL});
}

void peer_bwrap(const char *code, const char *expect, struct peer *ret)
{
    peer_begin(ret, "bwrap+python", 23.3, expect);
    peer_add(ret, (const char *const[]){"bwrap", "--unshare-all", "--proc", "/proc", "--dev",
                                        "/dev", "--tmpfs", "/tmp", NULL});
    for (const char *const *path = peer_host_paths; *path != NULL; path++) {
        char target[256];
        if (peer_host_link(*path, target, sizeof(target))) {
            peer_add(ret, (const char *const[]){"--symlink", target, *path, NULL});
        } else if (access(*path, F_OK) == 0) {
            peer_add(ret, (const char *const[]){"--ro-bind", *path, *path, NULL});
        }
    }
    peer_add(ret, (const char *const[]){"/usr/bin/python3", "-I", "-c", code, NULL});
    peer_try(ret);
}

void peer_docker(const struct world *w, const char *code, const char *expect, struct peer *ret)
{
    peer_begin(ret, "docker+python", 250, expect);
    if (w->docker_image == NULL) {
        (void)str_copy(ret->absent, sizeof(ret->absent), "no Docker engine answers here");
        return;
    }
    const char *engine = getenv("DOCKER_HOST");
    peer_add(ret, (const char *const[]){"docker", NULL});
    if (engine != NULL) {
        peer_add(ret, (const char *const[]){"--host", engine, NULL});
    }
    peer_add(ret, (const char *const[]){"run", "--rm", "--network", "none", "--read-only",
                                        "--tmpfs", "/tmp", NULL});
    for (const char *const *path = peer_host_paths; *path != NULL; path++) {
        char volume[300];
        if (access(*path, F_OK) == 0) {
            (void)str_format(volume, sizeof(volume), "%s:%s:ro", *path, *path);
            peer_add(ret, (const char *const[]){"-v", volume, NULL});
        }
    }
    peer_add(ret,
             (const char *const[]){w->docker_image, "/usr/bin/python3", "-I", "-c", code, NULL});
    peer_try(ret);
}
