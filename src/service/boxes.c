/* SPDX-License-Identifier: Apache-2.0 */
/* Every live box, as operators see it. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "service/impl.h"

size_t service_boxes(struct service *svc, struct service_box *ret, size_t max)
{
    const struct session **owners = calloc(ENGINE_BOXES_MAX, sizeof(*owners));
    size_t n = 0;

    if (owners == NULL) {
        return 0;
    }
    for (const struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        if (s->box != NULL) {
            owners[s->box->guest->box_id % ENGINE_BOXES_MAX] = s;
        }
    }
    for (size_t i = 0; i < ENGINE_BOXES_MAX && n < max; i++) {
        const struct guest *g = svc->engine->guests[i];
        if (g == NULL) {
            continue;
        }
        ret[n] = (struct service_box){
            .id = g->box_id,
            .state = g->state == GUEST_STARTING ? "starting"
                     : g->in_pool               ? "parked"
                                                : "running",
            .created_ms = g->created_ms,
            .limits = engine_limits_export(&g->limits),
        };
        (void)str_copy(ret[n].template_name, sizeof(ret[n].template_name), g->live->name);
        if (owners[i] != NULL) {
            (void)str_copy(ret[n].session_id, sizeof(ret[n].session_id), owners[i]->id);
        }
        n++;
    }
    free(owners);
    return n;
}

uint32_t session_box_id(const struct session *s)
{
    return s->box != NULL ? s->box->guest->box_id : 0;
}
