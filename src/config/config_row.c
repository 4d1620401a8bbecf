/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings, and names derived from it; see config.h. */
#include <string.h>

#include "base/str.h"
#include "base/units.h"
#include "config/config_impl.h"

#define SECONDS(n) ((uint64_t)(n)*1000)
#define HOURS(n) ((uint64_t)(n)*3600 * 1000)

/* The field's name, with its unit as in config.h. */
#define OFFSET_ADDRESSES(key) offsetof(struct config, key)
#define OFFSET_HOSTS(key) offsetof(struct config, key)
#define OFFSET_ORIGINS(key) offsetof(struct config, key)
#define OFFSET_NAMES(key) offsetof(struct config, key)
#define OFFSET_PATH(key) offsetof(struct config, key)
#define OFFSET_ACCOUNT(key) offsetof(struct config, key)
#define OFFSET_MODE(key) offsetof(struct config, key)
#define OFFSET_COUNT(key) offsetof(struct config, key)
#define OFFSET_SIZE(key) offsetof(struct config, key##_bytes)
#define OFFSET_DURATION(key) offsetof(struct config, key##_ms)
#define OFFSET_CPU(key) offsetof(struct config, key##_milli)
#define OFFSET_BOOL(key) offsetof(struct config, key)
#define OFFSET_CHOICE(key) offsetof(struct config, key)

const struct config_row config_rows[CONFIG_KEYS] = {
#define SETTING(in_group, of_type, named, with_flag, by_default, min, max, text, ...)              \
    {.key = #named,                                                                                \
     .flag = (with_flag),                                                                          \
     .arg = CONFIG_ARG_##of_type,                                                                  \
     .group = CONFIG_GROUP_##in_group,                                                             \
     .type = CONFIG_TYPE_##of_type,                                                                \
     .offset = OFFSET_##of_type(named),                                                            \
     .fallback = (by_default),                                                                     \
     .least = (min),                                                                               \
     .most = (max),                                                                                \
     .help = (text),                                                                               \
     __VA_ARGS__},
#include "config/config.def"
};

static const struct {
    const char *name;
    const char *title;
    const char *prefix;
} groups[CONFIG_GROUPS] = {
#define GROUP(name, title, prefix) {#name, (title), (prefix)},
#include "config/config.def"
};

const char *config_group_name(enum config_group group)
{
    return groups[group].name;
}

const char *config_group_title(enum config_group group)
{
    return groups[group].title;
}

const char *config_group_prefix(enum config_group group)
{
    return groups[group].prefix;
}

bool config_type_is_list(enum config_type type)
{
    return type == CONFIG_TYPE_ADDRESSES || type == CONFIG_TYPE_HOSTS ||
           type == CONFIG_TYPE_ORIGINS || type == CONFIG_TYPE_NAMES;
}

void config_env_name(const struct config_row *row, char dst[CONFIG_NAME_MAX])
{
    (void)str_format(dst, CONFIG_NAME_MAX, "HUSK_%s", row->key);
    for (char *p = dst; *p != '\0'; p++) {
        if (*p >= 'a' && *p <= 'z') {
            *p = (char)((unsigned char)*p & ~0x20u);
        }
    }
}

int config_find_key(const char *name)
{
    for (int key = 0; key < CONFIG_KEYS; key++) {
        if (str_eq(config_rows[key].key, name)) {
            return key;
        }
    }
    return -1;
}
