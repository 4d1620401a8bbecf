/* SPDX-License-Identifier: Apache-2.0 */
/* See supervisor_link.h. */
#include "daemon/supervisor_link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "daemon/agent_link.h"
#include "wire/supervisor_msg.h"

static union {
    struct supervisor_worker worker;
    struct {
        struct supervisor_settings head;
        char text[SUPERVISOR_SETTINGS_MAX];
    } settings;
} message; /* the last one that came */

static bool is_settings(ssize_t n)
{
    return n >= (ssize_t)sizeof(message.settings.head) &&
           message.settings.head.kind == SUPERVISOR_SETTINGS;
}

static int unpack(ssize_t n, struct config *ret, struct err *e)
{
    return config_unpack(message.settings.text, (size_t)n - sizeof(message.settings.head), ret, e);
}

int supervisor_link_start(struct config *ret_settings, int *ret_launcher,
                          struct fd_set_msg *ret_listeners, struct err *e)
{
    ssize_t n = fd_recv(SUPERVISOR_FD, &message, sizeof(message), ret_listeners, 0);

    if (!is_settings(n) || ret_listeners->n == 0 ||
        ret_listeners->n != message.settings.head.n_listeners + 1) {
        fd_set_release(ret_listeners);
        return err_set(e, ERR_INVALID, "started by `husk up`, not by hand");
    }
    if (unpack(n, ret_settings, e) < 0) {
        fd_set_release(ret_listeners);
        return -1;
    }
    *ret_launcher = take_fd(&ret_listeners->fds[0]);
    return 0;
}

void supervisor_link_tell_ready(void)
{
    struct supervisor_ready ready = {.pid = (uint32_t)getpid()};

    FAULT_POINT("start.ready.before");
    (void)send(SUPERVISOR_FD, &ready, sizeof(ready), MSG_NOSIGNAL);
    FAULT_POINT("start.ready.after");
}

void supervisor_link_tell_verdict(bool can_run)
{
    struct supervisor_verdict verdict = {.pid = (uint32_t)getpid(), .can_run = can_run};

    (void)send(SUPERVISOR_FD, &verdict, sizeof(verdict), MSG_NOSIGNAL);
}

void supervisor_link_tell_progress(void)
{
    struct supervisor_progress progress = {.pid = (uint32_t)getpid()};

    (void)send(SUPERVISOR_FD, &progress, sizeof(progress), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void supervisor_link_ask_settings(void)
{
    struct supervisor_reread reread = {0};

    if (send(SUPERVISOR_FD, &reread, sizeof(reread), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        log_error("settings_not_asked", "%s", strerror(errno));
    }
}

static void take_settings(ssize_t n, void (*on_settings)(struct config *fresh))
{
    AUTO(config_release) struct config fresh = {0};
    struct err e = {0};

    if (unpack(n, &fresh, &e) < 0) {
        log_error("settings_not_taken", "%s", e.msg);
        return;
    }
    on_settings(&fresh);
}

bool supervisor_link_hear(void (*on_settings)(struct config *fresh))
{
    for (;;) {
        struct fd_set_msg fds = {.n = 0};
        ssize_t n = fd_recv(SUPERVISOR_FD, &message, sizeof(message), &fds, MSG_DONTWAIT);

        if (n == -EAGAIN || n == -EINTR) {
            return true;
        }
        if (n <= 0 && n != -EMSGSIZE) {
            return false;
        }
        if (is_settings(n)) {
            take_settings(n, on_settings);
        } else if (n == (ssize_t)sizeof(message.worker)) {
            agent_link_take(&message.worker, &fds);
        }
        fd_set_release(&fds);
    }
}
