/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of the supervisor; see supervisor.h and supervisor_impl.h. */
#include "supervisor/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/place.h"
#include "supervisor/supervisor_impl.h"

#define WAIT_TICK_MS 20 /* between two looks at a launcher that is ending */
/* A daemon whose supervisor was killed closes its sockets within this. */
#define LEFT_PATIENCE_MS 2000

static int block_signals(struct supervisor *s, struct err *e)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, &s->mask_before);
    /* Keep running when the reader of the log is gone. Children have all signals reset. */
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signals < 0 ? err_sys(e, errno, "signalfd") : 0;
}

/* The launcher ends by itself, with all its boxes. Its output is read so that it cannot block. */
static void end_launcher(struct supervisor *s)
{
    struct pollfd p[OUTPUTS_POLLED];
    uint64_t until = clock_ms() + END_EXTRA_MS;

    fd_close(&s->launcher.socket);
    while (s->launcher.pid > 0 && waitpid(s->launcher.pid, NULL, WNOHANG) == 0) {
        if (clock_ms() >= until) {
            kill(s->launcher.pid, SIGKILL); /* its guard cleans up */
        }
        outputs_poll(&s->kit.outputs, p);
        (void)poll(p, OUTPUTS_POLLED, WAIT_TICK_MS);
        outputs_pump(&s->kit.outputs, p);
    }
}

static int open_place(struct supervisor *s, bool *ret_was_left, struct err *e)
{
    const struct supervisor_options *o = s->kit.o;

    s->folder = place_open(o->config, e);
    if (s->folder < 0) {
        return -1;
    }
    s->pid_file = place_take(s->folder, o->config, ret_was_left, e);
    if (s->pid_file < 0) {
        return -1;
    }
    s->settings.folder = s->folder;
    settings_save(&s->settings);
    return outputs_open(&s->kit.outputs, o->config, o->is_detached ? s->folder : -1, e);
}

static int open_workers(struct supervisor *s, struct err *e)
{
    const struct supervisor_options *o = s->kit.o;
    struct workers_options options = {.config = o->config,
                                      .daemon = o->daemon,
                                      .plan = o->plan,
                                      .output = outputs_end_of(&s->kit.outputs, OUTPUT_WORKERS)};

    if (workers_open(&options, &s->workers, e) < 0) {
        return -1;
    }
    s->kit.plan = workers_plan(s->workers);
    return 0;
}

/* The order matters: nothing is created or changed before the data folder is locked. */
static int begin(struct supervisor *s, struct err *e)
{
    const struct config *c = s->kit.o->config;
    const struct account *account = &s->kit.account;
    bool was_left = false;

    return account_find(c, &s->kit.account, e) < 0 || open_place(s, &was_left, e) < 0 ||
                   listeners_open(c, account->uid, account->gid, was_left ? LEFT_PATIENCE_MS : 0,
                                  &s->kit.listeners, e) < 0 ||
                   block_signals(s, e) < 0 || open_workers(s, e) < 0 ||
                   supervisor_start_launcher(s, e) < 0 || supervisor_start_daemon(s, e) < 0
               ? -1
               : 0;
}

static void end_all(struct supervisor *s)
{
    if (s->daemon.pid > 0) {
        kill(s->daemon.pid, SIGKILL);
        (void)waitpid(s->daemon.pid, NULL, 0);
    }
    workers_close(s->workers);
    definitions_drop(&s->definitions);
    end_launcher(s);
    outputs_close(&s->kit.outputs);
    if (s->kit.listeners.n > 0) {
        listeners_close(&s->kit.listeners, s->kit.o->config);
    }
    if (s->pid_file >= 0) {
        place_leave(s->folder, s->pid_file);
    }
    fd_close(&s->folder);
    fd_close(&s->daemon.socket);
    if (s->signals >= 0) {
        fd_close(&s->signals);
        sigprocmask(SIG_SETMASK, &s->mask_before, NULL);
    }
}

int supervisor_run(const struct supervisor_options *options, struct err *e)
{
    struct supervisor *s = calloc(1, sizeof(*s));
    int r = -1;

    if (s == NULL) {
        return err_sys(e, ENOMEM, "cannot start the server");
    }
    s->kit.o = options;
    s->kit.settings = &s->settings;
    s->settings.o = options;
    s->signals = s->folder = s->pid_file = s->launcher.socket = s->daemon.socket = -1;
    if (begin(s, e) == 0) {
        supervisor_loop(s);
        r = s->cannot_run ? err_set(e, ERR_ISOLATION, "no program can run in a sandbox here")
            : s->failed   ? err_set(e, ERR_SYSTEM, "the server could not start")
                          : 0;
    }
    end_all(s);
    free(s);
    return r;
}
