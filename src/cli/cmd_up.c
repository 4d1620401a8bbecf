/* SPDX-License-Identifier: Apache-2.0 */
/* husk up: starts the server and keeps it running; husk down: ends it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/config_options.h"
#include "cli/term.h"
#include "core/paths.h"
#include "supervisor/supervisor.h"

struct up_options {
    struct config_options settings;
    int detach;
    int help;
};

#define FIELD(name) offsetof(struct up_options, name)
#define CONFIG_OPTIONS_AT FIELD(settings)

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_FLAG, 'd', "detach", NULL, FIELD(detach), 1,
     "return when it serves; it goes on in the background and logs to DATA/husk.log"},
    {OPTION_HELP, 'h', "help", NULL, FIELD(help), 1, "show this text"},
#include "cli/config_options.def"
};

const struct option_table up_table = {
    .usage = "husk up [--detach] [settings]",
    .about = "Starts the server: HTTP on loopback and on a unix socket. Ctrl-C stops it. A daemon "
             "that dies is "
             "started again, and what runs in sandboxes goes on.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = "husk up\n"
                "husk up --listen 127.0.0.1:9000 --data /srv/husk\n"
                "husk up --detach && curl -s localhost:8000/health; husk down",
    .anywhere = true,
};

const struct option_table down_table = {
    .usage = "husk down [settings]",
    .about = "Ends the server that uses the data folder (--data), and waits until it is gone.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = "husk down\nhusk down --data /srv/husk",
    .anywhere = true,
};

/* ---- up ---- */

struct starting {
    const struct config *config;
    int report; /* detached: where the waiting parent hears of it; else -1 */
};

static void greet(const struct config *c)
{
    const char *address = c->listen.n > 0 ? c->listen.items[0] : NULL;

    if (address == NULL) {
        printf("husk is ready on %s\n\n  curl -s --unix-socket %s http://localhost/health\n",
               c->socket, c->socket);
    } else {
        printf("husk is ready on http://%s and %s\n\n"
               "  curl -s http://%s/run -H 'Content-Type: application/json' -d '{\"code\": "
               "\"print(6 * 7)\"}'\n",
               address, c->socket, address);
        if (c->docs) {
            printf("\nDocumentation: http://%s/docs\n", address);
        }
    }
    fflush(stdout);
}

static void on_ready(void *user)
{
    struct starting *s = user;

    if (s->report >= 0) {
        (void)!write(s->report, "", 1);
        fd_close(&s->report);
    } else {
        greet(s->config);
        puts("Ctrl-C stops it.");
        fflush(stdout);
    }
}

static int supervise(struct starting *s)
{
    char launcher[PATH_MAX];
    char daemon[PATH_MAX];
    struct supervisor_options options = {.config = s->config,
                                         .launcher = launcher,
                                         .daemon = daemon,
                                         .on_ready = on_ready,
                                         .user = s};
    struct err e = {0};

    if (paths_launcher(launcher, sizeof(launcher), &e) < 0 ||
        paths_daemon(daemon, sizeof(daemon), &e) < 0 || supervisor_run(&options, &e) < 0) {
        term_say(PROGRAM, "%s", e.msg);
        return EXIT_HUSK;
    }
    return 0;
}

/* The child goes on in a session of its own; its last words and its log go to DATA/husk.log. */
static int detach(struct starting *s)
{
    char path[PATH_MAX];
    int report[2];
    char byte;

    if (pipe2(report, O_CLOEXEC) < 0) {
        term_say(PROGRAM, "pipe: %s", strerror(errno));
        return EXIT_HUSK;
    }
    pid_t pid = fork();
    if (pid == 0) {
        fd_close(&report[0]);
        s->report = report[1];
        setsid();
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        (void)dup2(null, STDIN_FILENO);
        if (str_format(path, sizeof(path), "%s/husk.log", s->config->data) == 0) {
            struct err ignored;
            (void)place_prepare(s->config, &ignored); /* if not, starting says why */
            int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
            if (log >= 0) {
                (void)dup2(log, STDOUT_FILENO);
                (void)dup2(log, STDERR_FILENO);
            }
        }
        _exit(supervise(s));
    }
    fd_close(&report[1]);
    bool ready = pid > 0 && read(report[0], &byte, 1) == 1;
    fd_close(&report[0]);
    if (!ready) {
        if (pid > 0) {
            (void)waitpid(pid, NULL, 0);
        }
        term_say(PROGRAM, "the server could not start: see %s/husk.log", s->config->data);
        return EXIT_HUSK;
    }
    greet(s->config);
    puts("`husk down` stops it.");
    return 0;
}

static int load(const struct up_options *o, struct config *c)
{
    AUTO(config_report_release) struct config_report report = {0};
    struct err e = {0};

    int r = config_options_load(&o->settings, c, &report, &e);
    config_options_say(&report);
    if (r < 0 && report.n_errors == 0) {
        term_say(PROGRAM, "%s", e.msg);
    }
    return r;
}

static int parse(const struct option_table *table, const char *name, int argc, char **argv,
                 struct up_options *o)
{
    struct option_rest rest;
    struct err e;

    if (options_parse(table, argc, argv, o, &rest, &e) < 0) {
        return usage_error(name, &e);
    }
    if (rest.n > 0) {
        err_set(&e, ERR_INVALID, "%s takes no argument '%s'", name, rest.args[0]);
        return usage_error(name, &e);
    }
    return 0;
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET) {
        return (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
    }
    return a->ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static void warn_about_addresses(const struct config *c)
{
    struct sockaddr_storage address;
    struct err ignored;
    socklen_t len;

    for (size_t i = 0; i < c->listen.n; i++) {
        if (config_address(c->listen.items[i], &address, &len, &ignored) == 0 &&
            !is_loopback(&address)) {
            term_say(PROGRAM,
                     "warning: %s can be reached from other machines, and there is no "
                     "authentication: put a proxy that has some in front of it",
                     c->listen.items[i]);
        }
    }
}

int cmd_up(int argc, char **argv)
{
    struct up_options o = {0};
    AUTO(config_release) struct config c = {0};

    int r = parse(&up_table, "up", argc, argv, &o);
    if (r == 0 && o.help) {
        options_print_help(&up_table, stdout);
    } else if (r == 0 && load(&o, &c) < 0) {
        r = EXIT_HUSK;
    } else if (r == 0) {
        struct starting s = {.config = &c, .report = -1};
        log_set_level((enum log_level)c.log_level);
        log_set_json(c.log_format == CONFIG_LOG_JSON);
        warn_about_addresses(&c);
        r = o.detach ? detach(&s) : supervise(&s);
    }
    config_options_release(&o.settings);
    return r;
}

/* ---- down ---- */

static int end(const struct config *c)
{
    struct err e = {0};
    pid_t pid;

    if (place_holder(c, &pid, &e) < 0) {
        term_say(PROGRAM, "%s", e.msg);
        return EXIT_HUSK;
    }
    AUTO_CLOSE int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0 || pidfd_send_signal(pidfd, SIGTERM, NULL, 0) < 0) {
        term_say(PROGRAM, "end process %d: %s", (int)pid, strerror(errno));
        return EXIT_HUSK;
    }
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int patience = (int)MIN(c->drain_timeout_ms + 20000, (uint64_t)INT_MAX);
    if (poll(&p, 1, patience) != 1) {
        term_say(PROGRAM, "process %d does not end", (int)pid);
        return EXIT_HUSK;
    }
    printf("husk is down\n");
    return 0;
}

int cmd_down(int argc, char **argv)
{
    struct up_options o = {0};
    AUTO(config_release) struct config c = {0};

    int r = parse(&down_table, "down", argc, argv, &o);
    if (r == 0 && o.help) {
        options_print_help(&down_table, stdout);
    } else if (r == 0) {
        r = load(&o, &c) < 0 ? EXIT_HUSK : end(&c);
    }
    config_options_release(&o.settings);
    return r;
}
