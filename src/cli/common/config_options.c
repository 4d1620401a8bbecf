/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of huskd from a command line; see config_options.h. */
#include "cli/common/config_options.h"

#include <errno.h>
#include <string.h>

#include "cli/common/commands.h"
#include "cli/common/term.h"

int config_options_load(const struct config_options *o, struct config *c,
                        struct config_report *report, struct err *e)
{
    AUTO_FREE struct config_flag *flags = NULL;
    struct config_input in = config_input_here();
    size_t n = 0;

    for (size_t key = 0; key < CONFIG_KEYS; key++) {
        n += o->values[key].n;
    }
    flags = calloc(n + 1, sizeof(*flags));
    if (flags == NULL) {
        return err_sys(e, ENOMEM, "cannot read the options");
    }
    in.file = o->file;
    in.again = o->again;
    in.only_data = o->only_data;
    in.flags = flags;
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        for (size_t i = 0; i < o->values[key].n; i++) {
            flags[in.n_flags++] = (struct config_flag){key, o->values[key].items[i]};
        }
    }
    return config_load(&in, c, report, e);
}

void config_options_release(struct config_options *o)
{
    for (size_t key = 0; key < CONFIG_KEYS; key++) {
        option_list_release(&o->values[key]);
    }
}

static void say_lines(const char *prefix, const struct buf *lines)
{
    const char *at = lines->len > 0 ? lines->data : "";

    while (*at != '\0') {
        int n = (int)strcspn(at, "\n");

        term_say(PROGRAM, "%s%.*s", prefix, n, at);
        at += n;
        at += *at == '\n';
    }
}

void config_options_say(const struct config_report *report)
{
    say_lines("warning: ", &report->warnings);
    say_lines("", &report->errors);
}
