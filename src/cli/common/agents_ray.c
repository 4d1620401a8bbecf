/* SPDX-License-Identifier: Apache-2.0 */
/* Serves a project on Ray Serve; see agents_ray.h. */
#include "cli/common/agents_ray.h"

#include <errno.h>
#include <stdlib.h>

#include "base/str.h"

#define ARGS_MAX 18

bool agents_ray_is_asked(void)
{
    const char *engine = getenv("HUSK_ENGINE");

    return engine != NULL && str_eq(engine, "ray");
}

int agents_ray_check(const struct config_options *settings, bool detach, struct err *e)
{
    if (detach) {
        return err_set(e, ERR_INVALID, "--detach is not available with HUSK_ENGINE=ray");
    }
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        if (settings->values[i].n > 0 && i != CONFIG_insecure_listen) {
            return err_set(e, ERR_INVALID,
                           "--%s is a setting of huskd, and with HUSK_ENGINE=ray the agents are "
                           "served by Ray Serve",
                           config_rows[i].flag);
        }
    }
    if (settings->values[CONFIG_insecure_listen].n > 0 &&
        setenv("HUSK_INSECURE_LISTEN", settings->values[CONFIG_insecure_listen].items[0], 1) < 0) {
        return err_sys(e, errno, "cannot set HUSK_INSECURE_LISTEN");
    }
    return 0;
}

static void add(char **argv, size_t *n, const char *option, const char *value)
{
    if (value != NULL) {
        argv[(*n)++] = drop_const(option);
        argv[(*n)++] = drop_const(value);
    }
}

int agents_ray_serve(const struct agents_query *q, const char *host, const char *port,
                     struct err *e)
{
    char *argv[ARGS_MAX] = {NULL, "-m", "husk.serving.ray_up"};
    size_t n = 3;

    add(argv, &n, "--folder", q->folder);
    add(argv, &n, "--file", q->file);
    add(argv, &n, "--agents", q->agents);
    add(argv, &n, "--servers", q->servers);
    add(argv, &n, "--only", q->only_servers ? "servers" : NULL);
    add(argv, &n, "--host", host);
    add(argv, &n, "--port", port);
    return python_become(q->python, argv, q->folder, e);
}
