/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the server from a command; see serving.h. */
#include "cli/common/serving.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/common/commands.h"
#include "cli/common/term.h"
#include "core/core.h"
#include "core/paths.h"
#include "core/template_fill.h"

#define LAYERS_MAX 48

struct starting {
    const struct serving *serving;
    struct config *config;
    int report; /* detached: pipe to the waiting parent; else -1 */
};

/* What an operator reads on a terminal, and as JSON what a collector reads. */
static void say(const char *event, const char *text)
{
    if (log_is_json()) {
        log_error(event, "%s", text);
    } else {
        term_say(PROGRAM, "%s", text);
    }
}

static void on_ready(void *user)
{
    struct starting *s = user;

    if (log_is_json()) {
        const struct config *c = s->config;
        log_info("ready", "pid=%d listen=\"%s\" socket=\"%s\"", (int)getpid(),
                 c->listen.n > 0 ? c->listen.items[0] : "", c->socket);
    }
    if (s->report >= 0) {
        (void)!write(s->report, "", 1);
        fd_close(&s->report);
    } else if (!log_is_json()) {
        s->serving->greet(s->serving);
        puts("Ctrl-C stops it.");
        fflush(stdout);
    }
}

/* From the same file, even if it was the system's file and is gone now. */
static int load_again(void *user, struct config *ret, struct config_report *report, struct err *e)
{
    const struct starting *s = user;
    struct config_options settings = *s->serving->settings; /* shallow copy */

    settings.again = true;
    if (s->config->file != NULL) {
        settings.file = s->config->file;
    }
    return config_options_load(&settings, ret, report, e);
}

/* Read with our rights; the daemon can only name a template. */
static int define(void *user, const struct definition_wanted *want,
                  int (*put)(void *to, struct launcher_req *req, const int *fd, struct err *e),
                  void *to, struct err *e)
{
    const struct starting *s = user;
    const struct template_dirs dirs = {.operators = s->config->templates, .must_be_ours = true};
    const struct template_choice choice = {
        .preload = want->preload, .modules = want->modules, .memory_most = limits_machine_memory()};
    const struct template_sink sink = {.put = put, .user = to};
    AUTO_FREE struct template_def *def = malloc(sizeof(*def));

    if (def == NULL) {
        return err_sys(e, ENOMEM, "cannot define template %s", want->base);
    }
    return template_find(&dirs, want->base, def, e) < 0 ? -1
                                                        : template_fill(def, &choice, &sink, e);
}

/* The reason was printed; a layer of this machine that is missing is the likely cause of it. */
static void show_missing_layers(void)
{
    struct husk_layer layers[LAYERS_MAX] = {0};
    size_t n = MIN(husk_doctor(layers, LAYERS_MAX), (size_t)LAYERS_MAX);

    for (size_t i = 0; i < n; i++) {
        if (layers[i].mandatory && !layers[i].present) {
            char text[640];
            (void)str_format(text, sizeof(text), "%s: %s (to get it: %s)", layers[i].name,
                             layers[i].fact, layers[i].fix);
            say("layer_missing", text);
        }
    }
}

static int supervise(struct starting *s)
{
    char launcher[PATH_MAX];
    char daemon[PATH_MAX];
    char lib[PATH_MAX];
    struct supervisor_options options = {.config = s->config,
                                         .load = load_again,
                                         .define = define,
                                         .launcher = launcher,
                                         .daemon = daemon,
                                         .lib = lib,
                                         .plan = s->serving->plan,
                                         .is_detached = s->report >= 0,
                                         .on_ready = on_ready,
                                         .user = s};
    struct err e = {0};

    if (paths_launcher(launcher, sizeof(launcher), &e) < 0 ||
        paths_daemon(daemon, sizeof(daemon), &e) < 0 || paths_lib_dir(lib, sizeof(lib), &e) < 0 ||
        supervisor_run(&options, &e) < 0) {
        say("start_failed", e.msg);
        if (e.code == ERR_ISOLATION) {
            show_missing_layers();
        }
        return EXIT_HUSK;
    }
    return 0;
}

/* In the child: its log and its last message go to DATA/husk.log. Never returns. */
static NORETURN void go_on_detached(struct starting *s, int log)
{
    setsid();
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(log, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    _exit(supervise(s));
}

/* Prints why it could not start, as without --detach. The log has it, too. */
static void show_end(const struct starting *s, int log, off_t begin)
{
    char text[4096];

    ssize_t n = pread(log, text, sizeof(text), begin);
    if (n > 0) {
        (void)!write(STDERR_FILENO, text, (size_t)n);
    } else {
        term_say(PROGRAM, "the server could not start: %s/husk.log has the reason",
                 s->config->data);
    }
}

/* The child continues in a session of its own. */
static int run_detached(struct starting *s)
{
    struct err e = {0};
    int report[2];
    char byte;

    AUTO_CLOSE int folder = place_open(s->config, &e);
    AUTO_CLOSE int log = folder < 0 ? -1 : place_open_log(folder, s->config, &e);
    if (log < 0) {
        term_say(PROGRAM, "%s", e.msg);
        return EXIT_HUSK;
    }
    off_t begin = lseek(log, 0, SEEK_END);
    if (pipe2(report, O_CLOEXEC) < 0) {
        term_say(PROGRAM, "cannot create a pipe: %s", strerror(errno));
        return EXIT_HUSK;
    }
    pid_t pid = fork();
    if (pid == 0) {
        fd_close(&report[0]);
        s->report = report[1];
        go_on_detached(s, log);
    }
    fd_close(&report[1]);
    bool ready = pid > 0 && read(report[0], &byte, 1) == 1;
    fd_close(&report[0]);
    if (!ready) {
        if (pid > 0) {
            (void)waitpid(pid, NULL, 0);
        }
        show_end(s, log, begin);
        return EXIT_HUSK;
    }
    s->serving->greet(s->serving);
    printf("`husk down --data %s` stops it.\n", s->config->data);
    (void)fflush(stdout); /* the server is up: an output that is closed is no failure */
    return 0;
}

int serving_load(const struct config_options *settings, struct config *c)
{
    AUTO(config_report_release) struct config_report report = {0};
    struct err e = {0};

    int r = config_options_load(settings, c, &report, &e);
    config_options_say(&report);
    if (r < 0 && report.n_errors == 0) {
        term_say(PROGRAM, "%s", e.msg);
    }
    return r;
}

static void warn_about_addresses(const struct config *c)
{
    struct sockaddr_storage address;
    struct err ignored;
    socklen_t len;

    for (size_t i = 0; i < c->listen.n; i++) {
        if (config_address(c->listen.items[i], &address, &len, &ignored) == 0 &&
            !config_is_loopback(&address)) {
            char text[400];
            (void)str_format(text, sizeof(text),
                             "warning: %s can be reached from other machines, and there is no "
                             "authentication: put a proxy that has it in front; host names other "
                             "than localhost must be in --allowed-hosts",
                             c->listen.items[i]);
            say("address_is_open", text);
        }
    }
}

int serving_run(const struct serving *s, bool detach)
{
    struct config *c = s->config;
    struct starting starting = {.serving = s, .config = c, .report = -1};

    log_set_level((enum log_level)c->log_level);
    log_set_json(c->log_format == CONFIG_LOG_JSON);
    warn_about_addresses(c);
    engine_make_room();
    return detach ? run_detached(&starting) : supervise(&starting);
}
