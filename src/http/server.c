/* SPDX-License-Identifier: Apache-2.0 */
/* The server as a whole: creation, the list of connections to run, draining, end. See server.h. */
#include "http/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "base/fd.h"
#include "http/conn.h"
#include "http/date.h"

struct http_config http_config_default(void)
{
    return (struct http_config){
        .limits =
            {
                .connections = 4096,
                .per_address = 1024,
                .head_ms = 10000,
                .idle_ms = 75000,
                .body_window_ms = 10000,
                .body_bytes_per_s = 512,
                .write_ms = 30000,
                .linger_ms = 1000,
                .heartbeat_ms = 15000,
                .ping_ms = 30000,
                .queue_high = 256U << 10,
                .queue_low = 64U << 10,
                .queue_max = 8U << 20,
                .websocket_message = 1U << 20,
                .websocket_frames = 1024,
            },
    };
}

/* ---- what is to be run ---- */

static void tell_drained(struct http_server *s)
{
    void (*tell)(void *) = s->on_drained;

    if (s->phase == SERVER_DRAINING && s->stats.open == 0 && tell != NULL) {
        s->on_drained = NULL;
        tell(s->drained_user);
    }
}

static void on_idle(uv_idle_t *idle)
{
    struct http_server *s = idle->data;
    struct http_conn *c = s->awake;

    /* Connections that wake while this runs wait for the next turn, so that others run too. */
    s->awake = NULL;
    uv_idle_stop(idle);
    while (c != NULL) {
        struct http_conn *next = c->next_awake;
        http_conn_run(c);
        c = next;
    }
    if (s->phase != SERVER_FREED) {
        tell_drained(s);
    }
}

void http_server_wake(struct http_server *s)
{
    if (s->phase != SERVER_FREED) {
        uv_idle_start(&s->idle, on_idle);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct http_server *s = timer->data;

    http_timeouts_check(s);
    if (s->conns == NULL && s->accept_again == 0) {
        uv_timer_stop(timer);
    }
}

void http_server_tick_on(struct http_server *s)
{
    if (!uv_is_active((uv_handle_t *)&s->tick) && s->phase != SERVER_FREED) {
        uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
    }
}

const char *http_server_date(struct http_server *s)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != s->date_second) {
        s->date_second = now.tv_sec;
        http_date_format(now.tv_sec, s->date);
    }
    return s->date;
}

/* ---- birth and end ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct http_server *s = handle->data;

    s->handles--;
    http_server_forget(s);
}

struct http_server *http_server_new(struct uv_loop_s *loop, const struct http_config *config,
                                    struct err *e)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct http_server *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        err_sys(e, ENOMEM, "HTTP server");
        return NULL;
    }
    s->config = *config;
    s->loop = loop;
    s->date_second = -1;
    s->peers = http_peers_new();
    s->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (s->peers == NULL || s->reserve < 0 || sigaction(SIGPIPE, &ignore, NULL) < 0) {
        err_sys(e, errno, "HTTP server");
        http_peers_free(s->peers);
        fd_close(&s->reserve);
        free(s);
        return NULL;
    }
    /* These two only set up memory and cannot fail. */
    uv_idle_init(loop, &s->idle);
    uv_timer_init(loop, &s->tick);
    s->idle.data = s;
    s->tick.data = s;
    s->handles = 2;
    return s;
}

void http_server_forget(struct http_server *s)
{
    if (s->phase != SERVER_FREED || s->handles > 0 || s->memories > 0) {
        return;
    }
    while (s->blocks != NULL) {
        struct block *b = s->blocks;
        s->blocks = b->next;
        free(b);
    }
    http_pool_release(&s->pool);
    http_peers_free(s->peers);
    free(s);
}

void http_server_free(struct http_server *s)
{
    if (s == NULL) {
        return;
    }
    http_listeners_close(s);
    while (s->conns != NULL) {
        http_conn_kill(s->conns, true);
    }
    /* The list will not be run again: take the dead connections off it. */
    while (s->awake != NULL) {
        struct http_conn *c = s->awake;
        s->awake = c->next_awake;
        c->turn = TURN_NONE;
    }
    s->phase = SERVER_FREED;
    fd_close(&s->reserve);
    uv_close((uv_handle_t *)&s->idle, on_handle_closed);
    uv_close((uv_handle_t *)&s->tick, on_handle_closed);
}

void http_server_drain(struct http_server *s, unsigned ms, void (*on_drained)(void *user),
                       void *user)
{
    s->phase = SERVER_DRAINING;
    s->drain_deadline = uv_now(s->loop) + ms;
    s->on_drained = on_drained;
    s->drained_user = user;
    http_listeners_close(s);
    for (struct http_conn *c = s->conns; c != NULL; c = c->next) {
        if (c->phase == CONN_REQUEST && c->req.websocket != NULL) {
            http_websocket_goodbye(&c->req);
        } else if (c->phase == CONN_REQUEST && c->req.is_sse) {
            http_sse_goodbye(&c->req);
        }
        http_conn_wake(c);
    }
    http_server_wake(s);
}

void http_server_reconfigure(struct http_server *s, const struct http_config *config)
{
    s->config.limits = config->limits;
    s->config.hosts = config->hosts;
    s->config.nhosts = config->nhosts;
    s->config.origins = config->origins;
    s->config.norigins = config->norigins;
}

struct http_stats http_server_stats(const struct http_server *s)
{
    return s->stats;
}
