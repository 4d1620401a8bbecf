/* SPDX-License-Identifier: Apache-2.0 */
/* Samples; see stats.h. */
#include "stats.h"

#include <errno.h>
#include <stdlib.h>

void samples_release(struct samples *s)
{
    free(s->v);
    *s = (struct samples){0};
}

int samples_add(struct samples *s, double value)
{
    if (s->n == s->cap) {
        size_t cap = s->cap == 0 ? 64 : s->cap * 2;
        double *v = reallocarray(s->v, cap, sizeof(*v));
        if (v == NULL) {
            return -ENOMEM;
        }
        s->v = v;
        s->cap = cap;
    }
    s->v[s->n++] = value;
    return 0;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/*
 * The value below which that share of a sorted list lies; between two neighbours it is their mix.
 */
static double quantile(const struct samples *s, double share)
{
    double at = share * (double)(s->n - 1);
    size_t low = (size_t)at;
    size_t high = low + 1 < s->n ? low + 1 : low;

    return s->v[low] + (s->v[high] - s->v[low]) * (at - (double)low);
}

struct summary samples_summary(struct samples *s)
{
    if (s->n == 0) {
        return (struct summary){0};
    }
    qsort(s->v, s->n, sizeof(*s->v), ascending);
    return (struct summary){
        .n = s->n, .min = s->v[0], .p50 = quantile(s, 0.5), .p99 = quantile(s, 0.99)};
}
