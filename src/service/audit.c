/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run did that an operator has to hear of, one log line each; and what runs cost in all.
 *
 * Which event it is follows from the cause, a fact of the kernel, but for policy_refused: that is
 * the box's word. Text of the box comes last in a line and cannot pass for a field.
 */
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "base/units.h"
#include "service/service_impl.h"

#define TEXT_SHOWN 200 /* bytes of a text that the box has chosen */

static const char *event_of(const struct husk_result *r)
{
    if (r->error.type != NULL && str_eq(r->error.type, "PolicyViolation")) {
        return "policy_refused";
    }
    switch (r->termination.cause) {
    case HUSK_CAUSE_SECCOMP:
        return "forbidden_call";
    case HUSK_CAUSE_OOM:
        return "out_of_memory";
    case HUSK_CAUSE_SIGNAL:
        return r->status == HUSK_CANCELLED ? NULL : "crashed";
    case HUSK_CAUSE_TIMEOUT:
    case HUSK_CAUSE_DISK:
    case HUSK_CAUSE_OUTPUT_LIMIT:
        return "limit_reached";
    case HUSK_CAUSE_INTERNAL:
        return "box_failed";
    case HUSK_CAUSE_EXIT:
        break;
    }
    return NULL;
}

/* "key=value ", or nothing without a value. */
static void add(char *dst, size_t size, const char *key, const char *value)
{
    size_t used = strlen(dst);

    if (value != NULL && value[0] != '\0') {
        (void)str_format(dst + used, size - used, "%s=%s ", key, value);
    }
}

void service_audit(const struct audit_subject *who, const struct husk_result *r)
{
    const char *event = event_of(r);
    char ids[400] = "";
    char limit[96] = "";
    char text[TEXT_SHOWN] = "";

    if (event == NULL) {
        return;
    }
    add(ids, sizeof(ids), "request_id", who->request_id);
    add(ids, sizeof(ids), "session", who->session);
    add(ids, sizeof(ids), "execution", who->execution);
    add(ids, sizeof(ids), "template", who->template_name);
    if (r->termination.limit[0] != '\0') {
        (void)str_format(limit, sizeof(limit), "limit=\"%.80s\" ", r->termination.limit);
    }
    if (str_eq(event, "policy_refused") && r->error.message != NULL) {
        str_printable(text, sizeof(text), r->error.message, strlen(r->error.message));
    }
    log_warn(event, "%scause=%s status=%s exit_code=%d %sduration_ms=%.1f: %s", ids,
             husk_cause_name(r->termination.cause), husk_status_name(r->status), r->exit_code,
             limit, r->metrics.duration_ms, text[0] != '\0' ? text : r->termination.detail);
}

void service_note_run(struct service *svc, const struct husk_result *r)
{
    struct service_figures *f = &svc->figures;

    histogram_add(&f->run_seconds, histogram_seconds, r->metrics.duration_ms / 1000);
    histogram_add(&f->queue_seconds, histogram_seconds, r->metrics.queue_ms / 1000);
    if (r->metrics.peak_memory_mb > 0) {
        histogram_add(&f->run_memory, histogram_bytes, r->metrics.peak_memory_mb * (double)MIB);
    }
    f->causes[r->termination.cause]++;
}
