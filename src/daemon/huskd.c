/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huskd: the unprivileged daemon. `husk up` starts it with the settings, the launcher's socket and
 * the listening sockets (supervisor_msg.h), and restarts it if it dies; boxes keep running
 * meanwhile.
 *
 * Exit codes: 0 after SIGTERM, 1 it could not start (the reason is on stderr), 3 the launcher is
 * gone.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "api/call/call.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/fiber.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/agent_link.h"
#include "daemon/confine.h"
#include "daemon/loop.h"
#include "daemon/supervisor_link.h"
#include "http/server.h"
#include "service/service.h"
#include "wire/supervisor_msg.h"

enum { EXIT_NO_START = 1, EXIT_NO_LAUNCHER = 3 };

#define MMAP_FROM (1 << 20)
#define TRIM_FROM (8 << 20)
#define WORKERS_END_MS 3000 /* their requests are over by then */

static struct daemon {
    struct config config;
    uv_loop_t loop;
    uv_signal_t term;
    uv_signal_t interrupt;
    uv_signal_t hangup;
    uv_poll_t supervisor;
    struct service *service;
    struct api *api;
    struct agents *agents; /* NULL: none are served */
    struct http_server *http;
    const char **hosts;
    int exit_code;
    bool draining;
} d;

static int fail(const struct err *e)
{
    if (log_is_json()) {
        log_error("start_failed", "pid=%d: %s", (int)getpid(), e->msg);
    } else {
        fprintf(stderr, "huskd: %s\n", e->msg);
    }
    return EXIT_NO_START;
}

static void set_log(void)
{
    log_set_level((enum log_level)d.config.log_level);
    log_set_json(d.config.log_format == CONFIG_LOG_JSON);
}

/* ---- the end ---- */

static void tell_progress(void *user)
{
    supervisor_link_tell_progress();
}

static void save(void *user)
{
    if (d.agents != NULL) {
        agents_end(d.agents, WORKERS_END_MS);
    }
    FAULT_POINT("stop.drained");
    service_save(d.service, tell_progress, NULL);
    FAULT_POINT("stop.saved");
    uv_stop(&d.loop);
}

static void on_drained(void *user)
{
    if (fiber_start(save, NULL) < 0) {
        d.exit_code = EXIT_NO_START; /* the supervisor starts another daemon, which saves */
        uv_stop(&d.loop);
    }
}

static void drain(int exit_code)
{
    if (d.draining) {
        return;
    }
    d.draining = true;
    d.exit_code = exit_code;
    FAULT_POINT("stop.begun");
    if (d.agents != NULL) {
        agents_stop(d.agents);
    }
    http_server_drain(d.http, (unsigned)d.config.drain_timeout_ms, on_drained, NULL);
}

/* A service manager and the supervisor may both send it: only the first one counts. */
static void on_signal(uv_signal_t *h, int signum)
{
    drain(0);
}

static void on_launcher_lost(void *user)
{
    log_error("launcher_lost", "every box is gone; starting over");
    drain(EXIT_NO_LAUNCHER);
}

/* ---- the start ---- */

/*
 * Limits writing to our part of the data folder. Although that folder belongs to this account, a
 * folder above it may be closed to the account.
 */
static int confine(struct err *e)
{
    char store[CONFIG_STORE_PATH_MAX];

    if (config_store_path(&d.config, store, e) < 0) {
        return -1;
    }
    return access(store, R_OK | W_OK | X_OK) < 0
               ? err_sys(e, errno,
                         "the data folder %s is out of reach: the account of huskd must be able to"
                         " enter every folder above it (--data names another one)",
                         d.config.data)
               : confine_self(store, e);
}

/* Names by which clients may call us; addresses need no list. */
static int list_hosts(struct http_config *http)
{
    const struct config *c = &d.config;
    size_t n = 0;

    free(d.hosts);
    d.hosts = calloc(1 + c->allowed_hosts.n, sizeof(*d.hosts));
    if (d.hosts == NULL) {
        return -1;
    }
    d.hosts[n++] = "localhost";
    for (size_t i = 0; i < c->allowed_hosts.n; i++) {
        d.hosts[n++] = c->allowed_hosts.items[i];
    }
    http->hosts = d.hosts;
    http->nhosts = n;
    return 0;
}

static int http_settings(struct http_config *ret, struct err *e)
{
    const struct config *c = &d.config;

    *ret = http_config_default();
    ret->on_request = api_on_request;
    ret->error_body = api_error_body;
    ret->user = d.api;
    ret->limits.connections = c->max_connections;
    ret->limits.per_address = c->max_connections_per_address;
    ret->limits.head_ms = (unsigned)c->head_timeout_ms;
    ret->limits.idle_ms = (unsigned)c->idle_timeout_ms;
    ret->limits.body_bytes_per_s = (unsigned)c->body_min_rate_bytes;
    ret->limits.write_ms = (unsigned)c->write_timeout_ms;
    ret->origins = (const char *const *)c->allowed_origins.items;
    ret->norigins = c->allowed_origins.n;
    return list_hosts(ret) < 0 ? err_sys(e, ENOMEM, "host names") : 0;
}

static int open_http(struct fd_set_msg *listeners, struct err *e)
{
    struct http_config http;

    if (http_settings(&http, e) < 0) {
        return -1;
    }
    d.http = http_server_new(&d.loop, &http, e);
    if (d.http == NULL) {
        return -1;
    }
    for (size_t i = 1; i < listeners->n; i++) {
        if (http_server_listen(d.http, listeners->fds[i], e) < 0) {
            return -1;
        }
        listeners->fds[i] = -1;
    }
    return 0;
}

static void warm(void)
{
    /* The limits of POST /run when its body names none. */
    static const struct husk_limits run_default = {.memory_bytes = (uint64_t)512 << 20};
    /* The limits of /workspace/se/v2/execute_code. */
    const struct husk_limits se_default = {.memory_bytes = d.config.se_memory_bytes,
                                           .cpu_milli = (uint32_t)d.config.se_cpu_milli,
                                           .pids = (uint32_t)d.config.se_max_processes};

    service_warm(d.service, "pyrunner", &run_default, d.config.pool_min);
    service_warm(d.service, "python", &se_default, d.config.se_pool);
}

/* Old values stay allocated while the server still uses them. */
static void on_settings(struct config *fresh)
{
    AUTO(config_report_release) struct config_report report = {0};
    struct http_config http;
    struct err e = {0};

    config_reload(&d.config, fresh, &report);
    set_log();
    service_reconfigure(d.service);
    warm();
    if (http_settings(&http, &e) == 0) {
        http_server_reconfigure(d.http, &http);
    }
    log_info("settings_read", "pid=%d", (int)getpid());
}

/* The supervisor reads the settings, so that the next daemon has the same ones. */
static void on_hangup(uv_signal_t *h, int signum)
{
    supervisor_link_ask_settings();
}

/*
 * Messages about workers and settings, or end of file: without a supervisor no daemon would follow
 * us, and the launcher is about to end.
 */
static void on_supervisor(uv_poll_t *h, int status, int events)
{
    if (!supervisor_link_hear(on_settings) || status < 0) {
        uv_poll_stop(h);
        drain(0);
    }
}

static int watch(struct err *e)
{
    if (uv_signal_init(&d.loop, &d.term) < 0 || uv_signal_init(&d.loop, &d.interrupt) < 0 ||
        uv_signal_start(&d.term, on_signal, SIGTERM) < 0 ||
        uv_signal_start(&d.interrupt, on_signal, SIGINT) < 0 ||
        uv_signal_init(&d.loop, &d.hangup) < 0 ||
        uv_signal_start(&d.hangup, on_hangup, SIGHUP) < 0 ||
        uv_poll_init(&d.loop, &d.supervisor, SUPERVISOR_FD) < 0 ||
        uv_poll_start(&d.supervisor, UV_READABLE | UV_DISCONNECT, on_supervisor) < 0) {
        return err_set(e, ERR_SYSTEM, "the event loop could not be set up");
    }
    return 0;
}

static void log_started(void)
{
    struct service_figures f;

    service_figures(d.service, &f);
    log_info("started", "version=%s pid=%d epoch=%lld sessions=%llu data=\"%s\" listen=\"%s\"",
             HUSK_VERSION, (int)getpid(), (long long)f.epoch, (unsigned long long)f.sessions_live,
             d.config.data, d.config.listen.n > 0 ? d.config.listen.items[0] : d.config.socket);
}

/*
 * Of the first daemon the supervisor waits for this before it reports that husk is ready. A server
 * in which nothing can run is of no use.
 */
static void prove(void *user)
{
    (void)user;
    supervisor_link_tell_verdict(service_await_boxes(d.service, -1) == NULL);
}

static int serve(int launcher, struct fd_set_msg *listeners, struct err *e)
{
    struct service_options options = {
        .config = &d.config, .launcher = launcher, .on_launcher_lost = on_launcher_lost};

    if (uv_loop_init(&d.loop) < 0) {
        return err_set(e, ERR_SYSTEM, "the event loop could not be set up");
    }
    if (service_open(&options, &d.service, e) < 0) {
        return -1;
    }
    d.api =
        api_open(&(struct api_options){.service = d.service, .config = &d.config, .loop = &d.loop});
    if (d.api == NULL) {
        return err_sys(e, ENOMEM, "open the API");
    }
    warm();
    if (service_watch(d.service, e) < 0) {
        return -1;
    }
    /*
     * In this order: libuv calls prepare handles in reverse order of their creation, and the one
     * that checks whether a fiber can run must come last. Writing to workers may wake fibers.
     */
    if (loop_serve_fibers(&d.loop, e) < 0 || agent_link_open(&d.loop, &d.agents, e) < 0) {
        return -1;
    }
    api_set_agents(d.api, d.agents);
    if (open_http(listeners, e) < 0 || watch(e) < 0) {
        return -1;
    }
    api_set_server(d.api, d.http);
    supervisor_link_tell_ready();
    log_started();
    int r = fiber_start(prove, NULL);
    if (r < 0) {
        return err_sys(e, -r, "start a fiber");
    }
    uv_run(&d.loop, UV_RUN_DEFAULT);
    return 0;
}

int main(void)
{
    struct fd_set_msg listeners = {.n = 0};
    struct err e = {0};
    int launcher = -1;

    prctl(PR_SET_NAME, "huskd", 0, 0, 0); /* the kernel would show the number of a descriptor */
    /* Survive a closed log pipe. */
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);

    /*
     * Before there is another thread: malloc_trim() cannot shrink the heap of a thread (see
     * call.c).
     */
    (void)mallopt(M_ARENA_MAX, 1);
    /*
     * Memory that boxes made us hold goes back to the kernel when it is freed; by default malloc
     * learns from large blocks to keep them.
     */
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_FROM);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_FROM);
    fd_raise_limit();
    if (supervisor_link_start(&d.config, &launcher, &listeners, &e) < 0) {
        return fail(&e);
    }
    set_log();
    if (agent_link_load(&e) < 0 || confine(&e) < 0) {
        return fail(&e);
    }
    if (serve(launcher, &listeners, &e) < 0) {
        fail(&e);
        _exit(EXIT_NO_START);
    }
    service_leave(d.service);
    FAULT_POINT("stop.left");
    /* The rest belongs to connections that are being dropped; the kernel frees it faster. */
    _exit(d.exit_code);
}
