/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables: HUSK_* and those of the original Sandbox Runtime; see config_impl.h. */
#include <string.h>

#include "base/str.h"
#include "base/suggest.h"
#include "config/config_impl.h"

/* Variables with our prefix that are not settings. */
static const char *const known[] = {
    "HUSK_BIN",          /* Python SDK: folder of the programs */
    "HUSK_BIN_DIR",      /* tests: folder of the programs */
    "HUSK_BUILD",        /* tests and benchmarks: the build folder */
    "HUSK_CACHE_DIR",    /* folder of compiled modules of templates */
    "HUSK_CONFIG",       /* the configuration file */
    "HUSK_ENGINE",       /* Python SDK: where tools run */
    "HUSK_LAUNCHER",     /* path of husk-launcher */
    "HUSK_LIB_DIR",      /* folder of the files that programs load */
    "HUSK_TEMPLATE_DIR", /* folder of additional templates */
    "HUSK_URL",          /* clients: address of the server */
};

const char *config_env_get(const struct config_input *in, const char *name)
{
    size_t n = strlen(name);

    for (char *const *p = in->env; p != NULL && *p != NULL; p++) {
        if (strncmp(*p, name, n) == 0 && (*p)[n] == '=') {
            return *p + n + 1;
        }
    }
    return NULL;
}

void config_read_seed(struct config_loader *l)
{
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        const char *name = config_rows[key].seed;
        const char *value = name != NULL ? config_env_get(l->in, name) : NULL;

        if (value != NULL) {
            config_apply(l, key, value, (struct config_origin){.source = CONFIG_FROM_SEED});
        }
    }
}

static bool is_known(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (str_eq(known[i], name)) {
            return true;
        }
    }
    /* Of tests and of the Python SDK (agents and tools). */
    return str_starts(name, "HUSK_TEST_") || str_starts(name, "HUSK_AGENT_") ||
           str_starts(name, "HUSK_TOOL_");
}

static void warn_of(struct config_loader *l, const char *name)
{
    char names[CONFIG_KEYS][CONFIG_NAME_MAX];
    const char *candidates[CONFIG_KEYS];
    char shown[CONFIG_QUOTED_MAX];

    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        config_env_name(&config_rows[key], names[key]);
        candidates[key] = names[key];
        if (str_eq(name, names[key])) {
            return;
        }
    }
    const char *near = suggest(name, candidates, CONFIG_KEYS);
    config_warning(l->report, "%s: no setting has this variable%s%s%s, ignoring",
                   config_quote(name, shown), near != NULL ? " (did you mean " : "",
                   near != NULL ? near : "", near != NULL ? "?)" : "");
}

void config_read_env(struct config_loader *l)
{
    char name[CONFIG_NAME_MAX];

    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        config_env_name(&config_rows[key], name);
        const char *value = config_env_get(l->in, name);
        if (value != NULL) {
            config_apply(l, key, value, (struct config_origin){.source = CONFIG_FROM_ENV});
        }
    }
    for (char *const *p = l->in->env; p != NULL && *p != NULL; p++) {
        char longer[CONFIG_QUOTED_MAX];
        int n = (int)strcspn(*p, "=");

        /* A name that is cut here is longer than any known one. */
        (void)snprintf(longer, sizeof(longer), "%.*s", n, *p);
        if (str_starts(longer, "HUSK_") && !is_known(longer)) {
            warn_of(l, longer);
        }
    }
}
