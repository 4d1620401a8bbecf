/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of programs that take settings and nothing else; see config.h. */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "base/suggest.h"
#include "config/config_impl.h"

static int unknown(const char *word, size_t n, struct err *e)
{
    const char *candidates[CONFIG_KEYS + 1];
    char name[CONFIG_NAME_MAX] = "";
    char shown[CONFIG_QUOTED_MAX];

    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        candidates[key] = config_rows[key].flag;
    }
    candidates[CONFIG_KEYS] = "config";
    (void)str_format(name, sizeof(name), "%.*s", (int)n, word);
    const char *near = suggest(name, candidates, CONFIG_KEYS + 1);
    return err_set(e, ERR_INVALID, "unknown option --%s%s%s%s", config_quote(name, shown),
                   near != NULL ? "; did you mean --" : "", near != NULL ? near : "",
                   near != NULL ? "?" : "");
}

/* The key whose flag is the first n bytes of word; CONFIG_KEYS stands for --config. */
static int find_flag(const char *word, size_t n)
{
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        const char *name = config_rows[key].flag;

        if (strlen(name) == n && strncmp(name, word, n) == 0) {
            return (int)key;
        }
    }
    return n == strlen("config") && strncmp(word, "config", n) == 0 ? (int)CONFIG_KEYS : -1;
}

int config_args(int argc, char **argv, struct config_input *in, struct config_flag **ret_flags,
                struct err *e)
{
    AUTO_FREE struct config_flag *flags = NULL;
    const char *file = in->file;
    size_t n_flags = 0;

    flags = calloc((size_t)argc + 1, sizeof(*flags));
    if (flags == NULL) {
        return err_sys(e, ENOMEM, "cannot read the arguments");
    }
    for (int i = 1; i < argc; i++) {
        char shown[CONFIG_QUOTED_MAX];

        if (!str_starts(argv[i], "--") || argv[i][2] == '\0') {
            return err_set(e, ERR_INVALID, "unexpected argument '%s'",
                           config_quote(argv[i], shown));
        }
        const char *word = argv[i] + 2;
        size_t n = strcspn(word, "=");
        int key = find_flag(word, n);
        if (key < 0) {
            return unknown(word, n, e);
        }
        const char *value = word[n] == '=' ? word + n + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (value == NULL) {
            return err_set(e, ERR_INVALID, "--%s needs a value", word);
        }
        if (key == (int)CONFIG_KEYS) {
            file = value;
        } else {
            flags[n_flags++] = (struct config_flag){(enum config_key)key, value};
        }
    }
    in->file = file;
    in->flags = flags;
    in->n_flags = n_flags;
    *ret_flags = TAKE_PTR(flags);
    return 0;
}
