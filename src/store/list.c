/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of rows; see list.h and store.h. */
#include "store/list.h"

#include <errno.h>

#include "base/attr.h"

/* One row more than a page has tells that there is another page. */
static int add_row(void *user, void *row, int64_t position, struct err *e)
{
    struct row_list *l = user;

    if (l->n == l->limit) {
        l->next = l->last;
        free(row);
        return 0;
    }
    if (l->n == l->cap) {
        size_t cap = l->cap > 0 ? 2 * l->cap : 16;
        void **more = reallocarray(l->rows, cap, sizeof(*more));

        if (more == NULL) {
            free(row);
            return err_sys(e, ENOMEM, "list");
        }
        l->rows = more;
        l->cap = cap;
    }
    row = l->shrink != NULL ? l->shrink(row) : row;
    if (row == NULL) {
        return err_sys(e, ENOMEM, "list");
    }
    l->rows[l->n++] = row;
    l->last = position;
    return 0;
}

void list_free(void *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(((void **)rows)[i]);
    }
    free(rows);
}

int list_read(struct conn *c, enum record_type type, const struct store_filter *f, bool with_total,
              struct row_list *l, struct err *e)
{
    struct store_filter page = *f;

    l->limit = f->limit > 0 ? MIN(f->limit, STORE_PAGE_MAX) : STORE_PAGE_MAX;
    page.limit = l->limit + 1;
    if ((with_total && query_count(c, type, f, &l->total, e) != 0) ||
        query_walk(c, type, &page, add_row, l, e) != 0) {
        list_free(l->rows, l->n);
        *l = (struct row_list){.rows = NULL};
        return -1;
    }
    return 0;
}

#define LIST_FUNCTIONS(kind, type)                                                                 \
    int store_list_##kind##s(struct store *st, const struct store_filter *f,                       \
                             struct store_##kind##_list *ret, struct err *e)                       \
    {                                                                                              \
        struct row_list l = {.rows = NULL};                                                        \
                                                                                                   \
        if (list_read(&st->reader, type, f, true, &l, e) != 0) {                                   \
            return -1;                                                                             \
        }                                                                                          \
        *ret = (struct store_##kind##_list){                                                       \
            .rows = (struct store_##kind **)l.rows, .n = l.n, .total = l.total, .next = l.next};   \
        return 0;                                                                                  \
    }                                                                                              \
    void store_##kind##_list_release(struct store_##kind##_list *l)                                \
    {                                                                                              \
        list_free(l->rows, l->n);                                                                  \
        *l = (struct store_##kind##_list){.rows = NULL};                                           \
    }

LIST_FUNCTIONS(session, RECORD_SESSION)
LIST_FUNCTIONS(execution, RECORD_EXECUTION)

#define EACH_FUNCTION(kind, type)                                                                  \
    struct kind##_visit {                                                                          \
        int (*fn)(void *user, const struct store_##kind *row, struct err *e);                      \
        void *user;                                                                                \
    };                                                                                             \
    static int visit_##kind(void *user, void *row, int64_t position, struct err *e)                \
    {                                                                                              \
        AUTO_FREE void *owned = row;                                                               \
        const struct kind##_visit *visit = user;                                                   \
                                                                                                   \
        (void)position;                                                                            \
        return visit->fn(visit->user, owned, e);                                                   \
    }                                                                                              \
    int store_each_##kind(struct store *st, const struct store_filter *f,                          \
                          int (*fn)(void *user, const struct store_##kind *row, struct err *e),    \
                          void *user, struct err *e)                                               \
    {                                                                                              \
        struct kind##_visit visit = {fn, user};                                                    \
                                                                                                   \
        return query_walk(&st->reader, type, f, visit_##kind, &visit, e);                          \
    }

EACH_FUNCTION(session, RECORD_SESSION)
EACH_FUNCTION(execution, RECORD_EXECUTION)
