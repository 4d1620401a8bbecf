/* SPDX-License-Identifier: Apache-2.0 */
/* All templates of an engine, sorted; see template.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "core/engine_impl.h"

struct listing {
    struct husk_template_info *rows;
    size_t n;
};

/* Of one name the last counts. */
static int add_row(void *user, const struct template_def *def)
{
    struct listing *l = user;

    for (size_t i = 0; i < l->n; i++) {
        if (str_eq(l->rows[i].name, def->info.name)) {
            l->rows[i] = def->info;
            return 0;
        }
    }
    struct husk_template_info *rows = reallocarray(l->rows, l->n + 1, sizeof(*rows));
    if (rows == NULL) {
        return -1;
    }
    l->rows = rows;
    l->rows[l->n++] = def->info;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct husk_template_info *)a)->name,
                  ((const struct husk_template_info *)b)->name);
}

int template_list(const struct template_dirs *dirs, struct husk_template_info **ret, size_t *n,
                  struct err *e)
{
    struct listing l = {0};

    if (template_each(dirs, add_row, &l, e) < 0) {
        free(l.rows);
        return e->code == ERR_NONE ? err_sys(e, ENOMEM, "list templates") : -1;
    }
    if (l.n > 0) {
        qsort(l.rows, l.n, sizeof(*l.rows), by_name);
    }
    *ret = l.rows;
    *n = l.n;
    return 0;
}
