/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live session of an agent that a request can share; see service.h.
 *
 * A request must not get less than it asks for: the session has the same template and mode, at
 * least the isolation, and every limit, variable and timeout that the request names. What the
 * request leaves out accepts any.
 */
#include <stdlib.h>

#include "base/str.h"
#include "service/service_impl.h"

const char *session_template_of(const struct session_ask *ask)
{
    if (ask->template_name != NULL || ask->language == NULL) {
        return ask->template_name != NULL ? ask->template_name : "python";
    }
    return str_eq(ask->language, "javascript") ? "node" : ask->language;
}

const char *session_mode_of(const struct session_ask *ask)
{
    return ask->persistent ? "persistent" : "ephemeral";
}

static size_t list_length(const char *const *list)
{
    size_t n = 0;

    while (list != NULL && list[n] != NULL) {
        n++;
    }
    return n;
}

const char **session_join_env(struct service *svc, const struct session_ask *ask)
{
    struct err ignored;
    const struct template_def *def =
        engine_template(svc->engine, session_template_of(ask), &ignored);
    size_t n_template = def != NULL ? def->n_run_env : 0;
    size_t n_own = list_length(ask->env);

    const char **all = calloc(n_template + n_own + 1, sizeof(*all));
    for (size_t i = 0; all != NULL && i < n_template + n_own; i++) {
        all[i] = i < n_template ? def->run_env[i] : ask->env[i - n_template];
    }
    return all;
}

/* In any order: equal lengths and one inclusion are enough, since no variable is named twice. */
static bool has_same_env(const struct session *s, const char *const *env)
{
    const char *const *own = (const char *const *)s->env;
    size_t n = list_length(env);

    if (n != list_length(own)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        size_t j = 0;
        while (j < n && !str_eq(env[i], own[j])) {
            j++;
        }
        if (j == n) {
            return false;
        }
    }
    return true;
}

static bool has_limits(const struct session *s, const struct husk_limits *asked)
{
    const struct husk_limits *l = &s->limits;

    return (asked->memory_bytes == 0 || asked->memory_bytes == l->memory_bytes) &&
           (asked->disk_bytes == 0 || asked->disk_bytes == l->disk_bytes) &&
           (asked->cpu_milli == 0 || asked->cpu_milli == l->cpu_milli) &&
           (asked->pids == 0 || asked->pids == l->pids);
}

static bool has_language(const struct session *s, const char *asked)
{
    const char *own = session_language(s);

    return asked == NULL || (own != NULL && str_eq(own, asked));
}

static bool satisfies(const struct session *s, const struct session_ask *ask,
                      const char *const *env)
{
    bool is_isolated =
        ask->isolation != HUSK_ISOLATION_FULL || str_eq(s->record.min_isolation, "full");

    return is_isolated && str_eq(s->record.mode, session_mode_of(ask)) &&
           str_eq(s->record.template, session_template_of(ask)) &&
           (ask->timeout_ms == 0 || ask->timeout_ms == s->timeout_ms) &&
           (ask->on_idle == ON_IDLE_UNSET || (int)ask->on_idle == s->record.on_idle) &&
           has_language(s, ask->language) && has_limits(s, &ask->limits) &&
           (list_length(ask->env) == 0 || has_same_env(s, env));
}

struct session *agent_find_session(struct service *svc, const struct session_ask *ask)
{
    if (ask->agent_id == NULL || ask->agent_id[0] == '\0') {
        return NULL;
    }
    AUTO_FREE const char **env = session_join_env(svc, ask);
    for (struct session *s = svc->sessions; s != NULL && env != NULL; s = session_next(s)) {
        if (!session_is_ending(s) && str_eq(s->record.agent_id, ask->agent_id) &&
            satisfies(s, ask, env) && !session_is_spent(s)) {
            return s;
        }
    }
    return NULL;
}
