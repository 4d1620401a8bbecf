/* SPDX-License-Identifier: Apache-2.0 */
/* husk up: starts the server and keeps it running; husk down: ends it. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/common/commands.h"
#include "cli/common/serving.h"
#include "cli/common/term.h"

struct up_options {
    struct config_options settings;
    int detach;
};

#define FIELD(name) offsetof(struct up_options, name)
#define CONFIG_OPTIONS_AT FIELD(settings)

#define UP_ROWS 2 /* the first rows, which `down` does not have */

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Start", NULL, 0, 0, NULL},
    {OPTION_FLAG, 'd', "detach", NULL, FIELD(detach), 1, SERVING_TEXT_DETACH},
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
#include "cli/common/config_options.def"
};

const struct option_table up_table = {
    .usage = "husk up [--detach] [settings]",
    .about = "Starts the server: HTTP on loopback and on a unix socket. Ctrl-C stops it. A daemon "
             "that dies is restarted, and programs in sandboxes keep running.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = "husk up\n"
                "husk up --listen 127.0.0.1:9000 --data /srv/husk\n"
                "husk up --detach && curl -s localhost:8000/health; husk down",
    .anywhere = true,
};

const struct option_table down_table = {
    .usage = "husk down [settings]",
    .about = "Stops the server that uses the data directory (--data) and waits until it has ended.",
    .rows = rows + UP_ROWS,
    .n_rows = ARRAY_LEN(rows) - UP_ROWS,
    .examples = "husk down\nhusk down --data /srv/husk",
    .anywhere = true,
};

/* ---- up ---- */

static void greet(const struct serving *s)
{
    const struct config *c = s->config;
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

int cmd_up(int argc, char **argv)
{
    struct up_options o = {0};
    AUTO(config_release) struct config c = {0};

    int code = command_parse("up", &up_table, argc, argv, &o, NULL);
    if (code == COMMAND_GOES_ON) {
        struct serving s = {.config = &c, .settings = &o.settings, .plan = -1, .greet = greet};
        code = serving_load(&o.settings, &c) < 0 ? EXIT_HUSK : serving_run(&s, o.detach != 0);
    }
    config_options_release(&o.settings);
    return code;
}

/* ---- down ---- */

/*
 * How long the server may take, by the settings that it runs with, which may differ from the file.
 */
static int patience_ms(int folder, const struct config *c)
{
    AUTO(config_release) struct config saved = {0};
    AUTO_BUF struct buf text = BUF_INIT(PLACE_SETTINGS_MAX);
    struct err ignored;
    bool has = place_read_settings(folder, c, &text, &ignored) == 0 &&
               config_unpack(text.data, text.len, &saved, &ignored) == 0;

    return (int)MIN(supervisor_end_ms(has ? &saved : c), (uint64_t)INT_MAX);
}

static int wait_end(pid_t pid, int pidfd, int ms)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    if (pidfd < 0 || pidfd_send_signal(pidfd, SIGTERM, NULL, 0) < 0) {
        term_say(PROGRAM, "cannot end process %d: %s", (int)pid, strerror(errno));
        return EXIT_HUSK;
    }
    if (poll(&p, 1, ms) != 1) {
        term_say(PROGRAM, "process %d has not ended in %d s", (int)pid, ms / 1000);
        return EXIT_HUSK;
    }
    printf("husk is down\n");
    (void)fflush(stdout); /* the server has ended: an output that is closed is no failure */
    return 0;
}

static int end(const struct config *c)
{
    struct err e = {0};
    pid_t pid = 0;
    pid_t still = 0;

    AUTO_CLOSE int folder = place_look(c, &e);
    if (folder < 0 || place_holder(folder, c, &pid, &e) < 0) {
        if (e.code == ERR_NOT_FOUND) {
            term_say(PROGRAM, "no server runs with the data directory %s", c->data);
        } else {
            term_say(PROGRAM, "%s", e.msg);
        }
        return EXIT_HUSK;
    }
    AUTO_CLOSE int pidfd = pidfd_open(pid, 0);
    /* Checked again: the pid may have been reused before pidfd_open(). */
    if (place_holder(folder, c, &still, &e) < 0 || still != pid) {
        term_say(PROGRAM, "no server runs with the data directory %s", c->data);
        return EXIT_HUSK;
    }
    return wait_end(pid, pidfd, patience_ms(folder, c));
}

int cmd_down(int argc, char **argv)
{
    /* A mistake in the file must not keep the server running. */
    struct up_options o = {.settings.only_data = true};
    AUTO(config_release) struct config c = {0};

    int code = command_parse("down", &down_table, argc, argv, &o, NULL);
    if (code == COMMAND_GOES_ON) {
        code = serving_load(&o.settings, &c) < 0 ? EXIT_HUSK : end(&c);
    }
    config_options_release(&o.settings);
    return code;
}
