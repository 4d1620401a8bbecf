/* SPDX-License-Identifier: Apache-2.0 */
/* Servers under measurement; see server.h. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "host.h"
#include "http_client.h"

#define READY_MS 30000
#define STOP_MS 40000 /* husk up saves workspaces first */
#define SLICE_NS 5000000L

static void pause_slice(void)
{
    const struct timespec slice = {.tv_nsec = SLICE_NS};

    nanosleep(&slice, NULL);
}

/* A port without a listener. */
static int find_port(uint16_t *ret, struct err *e)
{
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0) {
        return err_sys(e, errno, "find a free port");
    }
    *ret = ntohs(address.sin_port);
    return 0;
}

static int prepare(const struct world *w, const char *name, struct server *ret, struct err *e)
{
    static unsigned servers;

    *ret = (struct server){.pid = 0};
    (void)str_format(ret->folder, sizeof(ret->folder), "%s/%s-%u", w->scratch, name, ++servers);
    /* 0755: what serves is another account than the one that starts it. */
    if (mkdir(ret->folder, 0755) < 0 || chmod(ret->folder, 0755) < 0) {
        return err_sys(e, errno, "make %s", ret->folder);
    }
    return find_port(&ret->port, e);
}

static void become(const char *const *argv, const char *log)
{
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(out, STDERR_FILENO) >= 0) {
        execvp(argv[0], (char *const *)(uintptr_t)argv);
    }
    _exit(127);
}

/* The last line that a server wrote: why it ended. */
static int explain(const struct server *s, const char *name, struct err *e)
{
    char path[PATH_MAX + 80];
    char text[8192];
    char line[200];

    (void)str_format(path, sizeof(path), "%s/log", s->folder);
    ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof(text));
    while (n > 0 && text[n - 1] == '\n') {
        text[--n] = '\0';
    }
    const char *last = n > 0 ? strrchr(text, '\n') : NULL;
    last = last != NULL ? last + 1 : n > 0 ? text : "it said nothing";
    str_printable(line, sizeof(line), last, strlen(last));
    return err_set(e, ERR_SYSTEM, "%s did not start: %s", name, line);
}

/* True when it answers 200 to a GET of that. */
static bool answers(const struct server *s, const char *target)
{
    static struct http_client client;
    struct http_answer answer;
    struct err ignored;

    if (http_open(&client, s->port, &ignored) < 0) {
        return false;
    }
    bool ok = http_call(&client, target, NULL, 200, &answer, &ignored) == 0;
    http_close(&client);
    return ok;
}

static int start(struct server *s, const char *const *argv, const char *probe, struct err *e)
{
    uint64_t until = clock_ms() + READY_MS;
    char log[PATH_MAX + 80];

    (void)str_format(log, sizeof(log), "%s/log", s->folder);
    s->pid = fork();
    if (s->pid == 0) {
        become(argv, log);
    }
    if (s->pid < 0) {
        return err_sys(e, errno, "start %s", argv[0]);
    }
    while (!answers(s, probe)) {
        bool ended = waitpid(s->pid, NULL, WNOHANG) == s->pid;
        if (ended) {
            s->pid = 0;
        }
        if (ended || clock_ms() > until) {
            server_stop(s);
            return explain(s, argv[0], e);
        }
        pause_slice();
    }
    return 0;
}

void server_stop(struct server *s)
{
    uint64_t until = clock_ms() + STOP_MS;

    if (s->pid <= 0) {
        return;
    }
    kill(s->pid, SIGTERM);
    while (waitpid(s->pid, NULL, WNOHANG) == 0) {
        if (clock_ms() > until) {
            kill(s->pid, SIGKILL);
            (void)waitpid(s->pid, NULL, 0);
            break;
        }
        pause_slice();
    }
    s->pid = 0;
}

pid_t server_child(const struct server *s, const char *name)
{
    static struct host_family family;
    struct err ignored;

    if (host_family(s->pid, &family, &ignored) < 0) {
        return 0;
    }
    for (size_t i = 0; i < family.n; i++) {
        char path[64];
        char comm[32];
        (void)str_format(path, sizeof(path), "/proc/%d/comm", family.members[i].pid);
        ssize_t n = fd_read_file(AT_FDCWD, path, comm, sizeof(comm));
        if (n > 1 && family.members[i].generation == 1) {
            comm[n - 1] = '\0';
            if (str_eq(comm, name)) {
                return family.members[i].pid;
            }
        }
    }
    return 0;
}

/* ---- which servers ---- */

int server_husk(const struct world *w, const char *const *flags, struct server *ret, struct err *e)
{
    char program[PATH_MAX + 16];
    char listen_on[32];
    char data[PATH_MAX + 80];
    const char *argv[SERVER_ARGS_MAX] = {program,  "up", "--listen",    listen_on,
                                         "--data", data, "--log-level", "warn"};
    size_t n = 8;

    if (prepare(w, "husk", ret, e) < 0) {
        return -1;
    }
    (void)str_format(program, sizeof(program), "%s/bin/husk", w->build);
    (void)str_format(listen_on, sizeof(listen_on), "127.0.0.1:%u", ret->port);
    (void)str_format(data, sizeof(data), "%s/data", ret->folder);
    for (; *flags != NULL && n < SERVER_ARGS_MAX - 1; flags++) {
        argv[n++] = *flags;
    }
    return start(ret, argv, "/api/v1/health/ready", e);
}

/* app: MODULE:NAME, below the folder. */
static int server_uvicorn(const struct world *w, const char *python, const char *folder,
                          const char *app, struct server *ret, struct err *e)
{
    char port[8];
    const char *argv[] = {python,        "-B",      "-m", "uvicorn", "--app-dir",
                          folder,        "--port",  port, "--host",  "127.0.0.1",
                          "--log-level", "warning", app,  NULL};

    if (prepare(w, "fastapi", ret, e) < 0) {
        return -1;
    }
    (void)str_format(port, sizeof(port), "%u", ret->port);
    return start(ret, argv, "/health", e);
}

int server_fastapi(const struct world *w, struct server *ret, struct err *e)
{
    return server_uvicorn(w, "/usr/bin/python3", w->source, "peer_fastapi:app", ret, e);
}

int server_fastapi_agent(const struct world *w, struct server *ret, struct err *e)
{
    char python[PATH_MAX + 32];
    char folder[PATH_MAX + 32];

    (void)str_format(python, sizeof(python), "%s/venv/bin/python", w->build);
    (void)str_format(folder, sizeof(folder), "%s/python", w->source);
    return server_uvicorn(w, python, folder, "peer_echo:app", ret, e);
}

int server_agent(const struct world *w, struct server *ret, struct err *e)
{
    char program[PATH_MAX + 16];
    char project[PATH_MAX + 32];
    char python[PATH_MAX + 32];
    char data[PATH_MAX + 80];
    char port[8];
    const char *argv[] = {program, "agents", "up", project,    "--host", "127.0.0.1", "--port",
                          port,    "--data", data, "--python", python,   NULL};

    if (prepare(w, "agents", ret, e) < 0) {
        return -1;
    }
    (void)str_format(program, sizeof(program), "%s/bin/husk", w->build);
    (void)str_format(project, sizeof(project), "%s/python/echo_project", w->source);
    (void)str_format(python, sizeof(python), "%s/venv/bin/python", w->build);
    (void)str_format(port, sizeof(port), "%u", ret->port);
    (void)str_format(data, sizeof(data), "%s/data", ret->folder);
    return start(ret, argv, ECHO_TARGET "health", e);
}

/* All of its files are in its folder; one worker, as huskd has one loop. */
static int write_nginx_files(const struct server *s, const char *conf, struct err *e)
{
    char path[PATH_MAX + 80];

    (void)str_format(path, sizeof(path), "%s/health", s->folder);
    FILE *page = fopen(path, "we");
    FILE *f = fopen(conf, "we");
    bool ok =
        page != NULL && f != NULL && fputs("{\"status\":\"healthy\"}", page) >= 0 &&
        fprintf(
            f,
            "daemon off;\nworker_processes 1;\nuser root;\npid %s/pid;\nerror_log stderr warn;\n"
            "events { worker_connections 4096; }\n"
            "http {\n  access_log off;\n  sendfile on;\n  default_type application/json;\n"
            "  keepalive_requests 1000000000;\n  keepalive_timeout 600s;\n"
            "  client_body_temp_path %s/body;\n  proxy_temp_path %s/proxy;\n"
            "  fastcgi_temp_path %s/fastcgi;\n  uwsgi_temp_path %s/uwsgi;\n"
            "  scgi_temp_path %s/scgi;\n"
            "  server { listen 127.0.0.1:%u backlog=4096; root %s; }\n}\n",
            s->folder, s->folder, s->folder, s->folder, s->folder, s->folder, s->port,
            s->folder) > 0;
    ok = (page == NULL || fclose(page) == 0) && ok;
    ok = (f == NULL || fclose(f) == 0) && ok;
    return ok ? 0 : err_sys(e, errno, "write %s", conf);
}

int server_nginx(const struct world *w, struct server *ret, struct err *e)
{
    char conf[PATH_MAX + 80];
    const char *argv[] = {"/usr/sbin/nginx", "-e", "stderr", "-c", conf, NULL};

    if (prepare(w, "nginx", ret, e) < 0) {
        return -1;
    }
    (void)str_format(conf, sizeof(conf), "%s/nginx.conf", ret->folder);
    return write_nginx_files(ret, conf, e) < 0 ? -1 : start(ret, argv, "/health", e);
}
