/* SPDX-License-Identifier: Apache-2.0 */
/* Every live box, as operators see it. */
#include <string.h>

#include "base/str.h"
#include "service/impl.h"

static struct session *session_of(struct service *svc, const struct guest *g)
{
    struct session *s;
    struct session *next;

    HASH_ITER(hh, svc->sessions, s, next)
    {
        if (s->box != NULL && s->box->guest == g) {
            return s;
        }
    }
    return NULL;
}

size_t service_boxes(struct service *svc, struct service_box *ret, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < ENGINE_BOXES_MAX && n < max; i++) {
        const struct guest *g = svc->engine->guests[i];
        if (g == NULL) {
            continue;
        }
        const struct session *s = session_of(svc, g);
        ret[n] = (struct service_box){
            .id = g->box_id,
            .state = g->state == GUEST_STARTING ? "starting" : g->in_pool ? "parked" : "running",
            .created_ms = g->created_ms,
            .limits = {.memory_bytes = g->limits.memory_bytes,
                       .disk_bytes = g->limits.disk_bytes,
                       .timeout_ms = g->limits.timeout_ms,
                       .output_bytes = g->limits.output_bytes,
                       .cpu_milli = g->limits.cpu_milli,
                       .pids = g->limits.pids,
                       .inodes = g->limits.inodes,
                       .open_files = g->limits.open_files},
        };
        (void)str_copy(ret[n].template_name, sizeof(ret[n].template_name), g->live->name);
        if (s != NULL) {
            (void)str_copy(ret[n].session_id, sizeof(ret[n].session_id), s->id);
        }
        n++;
    }
    return n;
}
