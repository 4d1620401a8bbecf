/* SPDX-License-Identifier: Apache-2.0 */
/* All settings as one text: "key=value" with a NUL after each, so that values need no quotes. */
#include <string.h>

#include "base/str.h"
#include "config/config_impl.h"

#define VALUE_MAX ((size_t)64 << 10)

int config_pack(const struct config *c, struct buf *text, struct err *e)
{
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        AUTO_BUF struct buf value = BUF_INIT(VALUE_MAX);

        if (key == CONFIG_user) {
            continue;
        }
        if (config_value_text(c, key, &value, e) < 0) {
            return -1;
        }
        int r = buf_printf(text, "%s=%s", config_rows[key].key, value.data);
        if (r < 0 || (r = buf_add(text, "", 1)) < 0) {
            return err_sys(e, -r, "cannot pack the settings");
        }
    }
    return 0;
}

static int find_flags(const char *text, size_t n, struct config_flag flags[CONFIG_KEYS],
                      size_t *ret_n, struct err *e)
{
    size_t found = 0;

    if (n == 0 || text[n - 1] != '\0') {
        return err_set(e, ERR_INVALID, "the packed settings do not end with a NUL");
    }
    for (const char *at = text; at < text + n; at += strlen(at) + 1) {
        char name[CONFIG_NAME_MAX];
        size_t len = strcspn(at, "=");
        int key = at[len] == '=' && str_format(name, sizeof(name), "%.*s", (int)len, at) == 0
                      ? config_find_key(name)
                      : -1;

        if (key < 0 || found == CONFIG_KEYS) {
            return err_set(e, ERR_INVALID, "the packed settings have an unknown key");
        }
        flags[found++] = (struct config_flag){(enum config_key)key, at + len + 1};
    }
    *ret_n = found;
    return 0;
}

int config_unpack(const char *text, size_t n, struct config *c, struct err *e)
{
    AUTO(config_report_release) struct config_report report = {0};
    struct config_flag flags[CONFIG_KEYS];
    struct config_input in = {.flags = flags};

    if (find_flags(text, n, flags, &in.n_flags, e) < 0) {
        return -1;
    }
    if (config_load(&in, c, &report, e) < 0) {
        return report.errors.data != NULL
                   ? err_set(e, ERR_INVALID, "settings: %s", report.errors.data)
                   : -1;
    }
    return 0;
}
