/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all boxes and zygotes use together. The launcher is asked every few seconds, in a fiber of
 * its own: a launcher that hangs keeps no reader of metrics waiting.
 */
#include "base/clock.h"
#include "service/service_impl.h"

#define ROUND_MS 5000

static void sample(void *user)
{
    struct service *svc = user;
    struct box_totals totals;
    struct err ignored;

    svc->sampler = fiber_self();
    while (!svc->closing && !engine_is_lost(svc->engine)) {
        if (engine_totals(svc->engine, &totals, &ignored) == 0) {
            svc->totals = totals;
        }
        if (!svc->closing) {
            (void)fiber_poll(NULL, 0, ROUND_MS);
        }
    }
    svc->sampler = NULL;
}

int totals_start(struct service *svc, struct err *e)
{
    int r = fiber_start(sample, svc);

    return r < 0 ? err_sys(e, -r, "start a fiber") : 0;
}

void service_totals(const struct service *svc, struct box_totals *ret)
{
    *ret = svc->totals;
    engine_count_boxes(svc->engine, ret);
}

size_t service_unsaved(const struct service *svc)
{
    size_t n = 0;

    for (const struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        n += s->dirty;
    }
    return n;
}
