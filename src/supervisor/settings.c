/* SPDX-License-Identifier: Apache-2.0 */
/* See settings.h. */
#include "supervisor/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"
#include "supervisor/place.h"
#include "wire/supervisor_msg.h"

void settings_save(const struct settings *s)
{
    AUTO_BUF struct buf text = BUF_INIT(PLACE_SETTINGS_MAX);
    struct err e = {0};

    if (config_pack(s->o->config, &text, &e) < 0 ||
        place_save_settings(s->folder, s->o->config, &text, &e) < 0) {
        log_warn("settings_not_saved", "%s, ignoring", e.msg);
    }
}

void settings_read(struct settings *s)
{
    AUTO(config_report_release) struct config_report report = {0};
    AUTO(config_release) struct config fresh = {0};
    struct config *c = s->o->config;
    struct err e = {0};

    if (s->o->load(s->o->user, &fresh, &report, &e) < 0) {
        (void)snprintf(s->refused, sizeof(s->refused), "%s",
                       report.errors.data != NULL ? report.errors.data : e.msg);
        log_error("settings_refused", "%s", s->refused);
        return;
    }
    s->refused[0] = '\0';
    config_reload(c, &fresh, &report);
    log_set_level((enum log_level)c->log_level);
    log_set_json(c->log_format == CONFIG_LOG_JSON);
    if (report.n_warnings > 0) {
        log_warn("settings_partly", "%s", report.warnings.data);
    }
    s->owed = true;
    settings_save(s);
}

static int send_message(const struct settings *s, int daemon, const int *fds, size_t n_fds,
                        int flags)
{
    struct supervisor_settings head = {.kind = SUPERVISOR_SETTINGS,
                                       .n_listeners = n_fds > 0 ? (uint32_t)n_fds - 1 : 0};
    AUTO_BUF struct buf message = BUF_INIT(sizeof(head) + SUPERVISOR_SETTINGS_MAX);
    struct err e = {0};

    int r = buf_add(&message, &head, sizeof(head));
    if (r < 0 || config_pack(s->o->config, &message, &e) < 0) {
        return r < 0 ? r : -e.sys_errno;
    }
    ssize_t n = fd_send(daemon, message.data, message.len, fds, n_fds, flags | MSG_NOSIGNAL);
    return n < 0 ? (int)n : 0;
}

int settings_give(struct settings *s, int daemon, const int *fds, size_t n_fds)
{
    s->owed = false;
    if (s->refused[0] != '\0') {
        log_warn(
            "settings_kept",
            "the daemon starts with the settings accepted before; correct what was refused and "
            "send SIGHUP: %s",
            s->refused);
    }
    return send_message(s, daemon, fds, n_fds, 0);
}

void settings_tell(struct settings *s, int daemon)
{
    int r = s->owed ? send_message(s, daemon, NULL, 0, MSG_DONTWAIT) : 0;

    s->owed = r == -EAGAIN;
    if (r < 0 && !s->owed) { /* if the daemon is ending, the next one gets them */
        log_error("settings_untold", "%s", strerror(-r));
    }
}
