/* SPDX-License-Identifier: Apache-2.0 */
/* The box of a session: which one it is, what it costs, what is enforced around it. */
#include "service/service_impl.h"

uint64_t session_box_id(const struct session *s)
{
    return s->box != NULL ? notebook_box_id(s->box) : s->once;
}

int session_usage(struct session *s, struct box_usage *ret, struct err *e)
{
    *ret = (struct box_usage){.disk_used_bytes = UINT64_MAX};
    return s->box == NULL || notebook_has_ended(s->box) ? 0 : notebook_usage(s->box, ret, e);
}

int session_receipt(struct session *s, struct husk_receipt *ret, struct err *e)
{
    if (s->box != NULL) {
        notebook_receipt(s->box, ret);
    } else if (s->once == 0 || !engine_box_receipt(s->svc->engine, s->once, ret)) {
        return err_set(e, ERR_CONFLICT, "session %s has no box now", s->id);
    }
    return 0;
}
