/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the agents of a project; see agents_find.h. */
#include "cli/common/agents_find.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/common/commands.h"
#include "cli/common/term.h"

#define TICK_MS 250
#define ARGS_MAX 16

/* ---- running discovery ---- */

/* On a terminal one line that is updated; elsewhere one line, once. */
static void show_progress(const struct agents_query *q, uint64_t started, bool first)
{
    const char *what = q->file != NULL ? q->file : q->folder;

    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[KImporting %s ... %.1f s", what,
                (double)(clock_ms() - started) / 1000.0);
    } else if (first) {
        fprintf(stderr, "Importing %s ...\n", what);
    }
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO)) {
        fputs("\r\033[K", stderr);
    }
}

static int read_answer(const struct agents_query *q, int fd, struct buf *ret, struct err *e)
{
    uint64_t started = clock_ms();
    bool first = true;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        show_progress(q, started, first);
        first = false;
        if (poll(&p, 1, TICK_MS) <= 0) {
            continue;
        }
        if (buf_reserve(ret, 4096) < 0) {
            return err_set(e, ERR_INVALID, "discovery printed more than %zu MiB",
                           AGENTS_PLAN_FILE_MAX >> 20);
        }
        ssize_t n = read(fd, ret->data + ret->len, 4096);
        if (n < 0 && errno != EINTR) {
            return err_sys(e, errno, "cannot read from discovery");
        }
        if (n == 0) {
            return 0;
        }
        ret->len += n > 0 ? (size_t)n : 0;
        ret->data[ret->len] = '\0';
    }
}

static void add(char **argv, size_t *n, const char *option, const char *value)
{
    if (value != NULL) {
        argv[(*n)++] = drop_const(option);
        argv[(*n)++] = drop_const(value);
    }
}

static int run_discovery(const struct agents_query *q, struct buf *ret, struct err *e)
{
    char *argv[ARGS_MAX] = {NULL, "-m", "husk.agents.discover"};
    size_t n = 3;
    int pipe_fds[2];
    int status = 0;
    pid_t pid;

    if (q->file != NULL) {
        add(argv, &n, "--file", q->file);
        argv[n++] = "--main";
    } else {
        add(argv, &n, "--folder", q->folder);
        add(argv, &n, "--agents", q->agents);
        add(argv, &n, "--servers", q->servers);
        add(argv, &n, "--only", q->only_servers ? "servers" : NULL);
    }
    add(argv, &n, "--out-fd", "3");
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    int r = python_start(q->python, argv, q->folder, pipe_fds[1], &pid, e);
    fd_close(&pipe_fds[1]);
    if (r == 0) {
        r = read_answer(q, pipe_fds[0], ret, e);
        end_progress();
        if (r < 0) {
            kill(pid, SIGKILL);
        }
        (void)waitpid(pid, &status, 0);
    }
    fd_close(&pipe_fds[0]);
    if (r == 0 && (status != 0 || ret->len == 0)) {
        return err_set(e, ERR_SYSTEM, "cannot find the agents: %s of husk.agents.discover is %d",
                       WIFSIGNALED(status) ? "the signal" : "the exit code",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    return r;
}

/* ---- the result ---- */

static const char *below(const char *folder, const char *file)
{
    size_t n = strlen(folder);

    return strncmp(folder, file, n) == 0 && file[n] == '/' ? file + n + 1 : file;
}

static void show_failures(const struct agents_plan *plan)
{
    struct term_out out;

    term_out_init(&out, STDERR_FILENO, false);
    for (size_t i = 0; i < plan->n_failed; i++) {
        const struct agent_failure *f = &plan->failed[i];

        term_say(PROGRAM, "cannot serve %s: %s", below(plan->folder, f->file), f->error);
        term_out_write(&out, f->traceback, strlen(f->traceback));
        term_out_line_end(&out);
    }
}

static int keep_copies(const struct agents_query *q, struct agents_plan *plan, struct err *e)
{
    plan->python = strdup(q->python->path);
    plan->folder = strdup(q->folder);
    plan->sdk = strdup(q->python->sdk);
    return plan->python == NULL || plan->folder == NULL || plan->sdk == NULL
               ? err_sys(e, ENOMEM, "cannot keep the agents")
               : 0;
}

static int nothing_found(const struct agents_query *q, const struct agents_plan *plan,
                         struct err *e)
{
    const char *what = q->only_servers ? "mcp_servers/*/server.py" : "agents/*/agent.py";

    if (plan->n_failed > 0) {
        return err_set(e, ERR_NOT_FOUND,
                       "nothing to serve: %zu file%s failed, and no other has an agent",
                       plan->n_failed, plan->n_failed == 1 ? "" : "s");
    }
    if (q->file != NULL) {
        return err_set(e, ERR_NOT_FOUND, "nothing to serve: %s does not call serve()", q->file);
    }
    return err_set(e, ERR_NOT_FOUND,
                   "nothing to serve in %s: no %s calls serve(); '" PROGRAM
                   " create-%s NAME' creates one",
                   q->folder, what, q->only_servers ? "mcp" : "agent");
}

int agents_find(const struct agents_query *q, struct agents_plan *ret, struct err *e)
{
    AUTO_BUF struct buf answer = BUF_INIT(AGENTS_PLAN_FILE_MAX);

    if (run_discovery(q, &answer, e) < 0 ||
        agents_plan_parse_found(answer.data, answer.len, "discovery", ret, e) < 0 ||
        keep_copies(q, ret, e) < 0) {
        return -1;
    }
    show_failures(ret);
    return ret->n_agents == 0 ? nothing_found(q, ret, e) : 0;
}

/* ---- output ---- */

void agents_show(const struct agents_plan *plan, const char *base)
{
    printf("Found in %s:\n", plan->folder);
    for (size_t i = 0; i < plan->n_agents; i++) {
        const struct agent_plan *a = &plan->agents[i];

        printf("  %-20s %-12s %s%s%s\n", a->name, a->framework, base, a->route_prefix,
               a->kind == AGENT_KIND_MCP ? "/mcp" : "/");
    }
    fflush(stdout);
}

void agents_show_calls(const struct agents_plan *plan, const char *base, const char *socket)
{
    for (size_t i = 0; i < plan->n_agents; i++) {
        const struct agent_plan *a = &plan->agents[i];

        if (a->kind == AGENT_KIND_MCP) {
            printf("  %s%s/mcp speaks the Model Context Protocol\n\n", base, a->route_prefix);
            continue;
        }
        printf("  curl -sN %s%s%s%s%s/%s -H 'Content-Type: application/json' \\\n"
               "    -d '{%s%s}'\n\n",
               socket != NULL ? "--unix-socket " : "", socket != NULL ? socket : "",
               socket != NULL ? " " : "", base, a->route_prefix, a->chat ? "chat" : "",
               a->chat ? "\"data\": {}" : "\"query\": \"Hello\"",
               (a->streams & AGENT_STREAM_TEXT) != 0 ? ", \"stream\": \"text\"" : "");
    }
}
