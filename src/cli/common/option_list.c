/* SPDX-License-Identifier: Apache-2.0 */
/* Values of an option that can be repeated; see options.h. */
#include <errno.h>

#include "cli/common/options.h"

int option_list_add(struct option_list *list, char *value, size_t max, struct err *e)
{
    if (list->items == NULL) {
        list->items = calloc(max, sizeof(*list->items));
        if (list->items == NULL) {
            return err_sys(e, ENOMEM, "cannot keep the options");
        }
    }
    if (list->n == max) {
        return err_set(e, ERR_INVALID, "an option is given more than %zu times", max);
    }
    list->items[list->n++] = value;
    return 0;
}

void option_list_release(struct option_list *list)
{
    free(list->items);
    *list = (struct option_list){0};
}
