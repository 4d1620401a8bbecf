/* SPDX-License-Identifier: Apache-2.0 */
/* Live boxes as operators and owners see them: whose they are, what they cost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/units.h"
#include "service/service_impl.h"

static int by_id(const void *a, const void *b)
{
    uint32_t x = ((const struct service_box *)a)->id;
    uint32_t y = ((const struct service_box *)b)->id;

    return (x > y) - (x < y);
}

int service_boxes(struct service *svc, struct service_box **ret, size_t *ret_n, struct err *e)
{
    AUTO_FREE const struct session **owners = /* NOLINTNEXTLINE(bugprone-sizeof-expression) */
        calloc(ENGINE_BOXES_MAX, sizeof(*owners));
    struct service_box *boxes = calloc(ENGINE_BOXES_MAX, sizeof(*boxes));
    size_t n = 0;

    if (owners == NULL || boxes == NULL) {
        free(boxes);
        return err_sys(e, ENOMEM, "list the boxes");
    }
    for (const struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        if (s->box != NULL) {
            owners[s->box->guest->box_id % ENGINE_BOXES_MAX] = s;
        }
    }
    for (size_t i = 0; i < ENGINE_BOXES_MAX; i++) {
        const struct guest *g = svc->engine->guests[i];
        if (g == NULL) {
            continue;
        }
        boxes[n] = (struct service_box){
            .id = g->box_id,
            .state = g->state == GUEST_STARTING ? "starting"
                     : g->in_pool               ? "parked"
                                                : "running",
            .created_ms = g->created_ms,
            .limits = engine_limits_export(&g->limits),
        };
        (void)str_copy(boxes[n].template_name, sizeof(boxes[n].template_name), g->live->name);
        if (owners[i] != NULL) {
            (void)str_copy(boxes[n].session_id, sizeof(boxes[n].session_id), owners[i]->id);
        }
        n++;
    }
    qsort(boxes, n, sizeof(*boxes), by_id);
    *ret = boxes;
    *ret_n = n;
    return 0;
}

uint32_t session_box_id(const struct session *s)
{
    return s->box != NULL ? s->box->guest->box_id : 0;
}

int session_usage(struct session *s, struct session_usage *ret, struct err *e)
{
    struct launcher_usage now = {.disk_free = UINT64_MAX};

    *ret = (struct session_usage){.disk_used_bytes = UINT64_MAX};
    if (s->box == NULL || s->box->guest->exited) {
        return 0;
    }
    const struct guest *g = s->box->guest;
    uint64_t disk = s->box->limits.disk_bytes;
    ret->box_id = g->box_id;
    if (guest_usage(s->svc->engine, g, true, &now, e) < 0) {
        return -1;
    }
    ret->cpu_time_ms = (double)now.cpu_ns / NS_PER_MS;
    ret->memory_mb = (double)now.memory_now / MIB;
    ret->peak_memory_mb = (double)now.memory_peak / MIB;
    ret->io_read_bytes = now.io_read;
    ret->io_write_bytes = now.io_write;
    ret->processes = (uint32_t)now.pids_peak;
    if (now.disk_free != UINT64_MAX) {
        ret->disk_used_bytes = disk - MIN(disk, now.disk_free);
    }
    return 0;
}

int session_receipt(struct session *s, struct husk_receipt *ret, struct err *e)
{
    if (s->box == NULL) {
        return err_set(e, ERR_CONFLICT, "session %s has no box now", s->id);
    }
    run_receipt(s->box->guest, &s->box->limits, true, ret);
    return 0;
}
