/* SPDX-License-Identifier: Apache-2.0 */
/* Event, context and time limit of sandbox-run; see sandbox_run.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "cli/common/hostfile.h"
#include "cli/common/json_text.h"
#include "cli/sandbox_run/sandbox_run.h"

#define INPUT_MAX ((size_t)16 << 20)
#define TIMEOUT_KEY "__timeout"
#define MEMORY_KEY "memory_limit_in_mb"

/*
 * Fills *ret from the option's text, its file, or "{}". Returns the tree, which the caller drops;
 * NULL and *e on failure.
 */
static json_t *read_json(const char *text, const char *path, const char *what, struct buf *ret,
                         struct err *e)
{
    int r = 0;

    *ret = BUF_INIT(INPUT_MAX);
    if (path != NULL) {
        if (hostfile_read(path, ret, e) < 0) {
            err_wrap(e, "%s file", what);
            return NULL;
        }
    } else {
        r = buf_add_str(ret, text != NULL ? text : "{}");
    }
    if (r < 0) {
        err_sys(e, -r, "cannot keep the %s", what);
        return NULL;
    }
    return json_text_load(ret->data, ret->len, path != NULL ? path : what, e);
}

/* Returns 0 ("not given") if it is absent or not positive. */
static int event_timeout(const json_t *event, double *ret, struct err *e)
{
    const json_t *v = json_object_get(event, TIMEOUT_KEY); /* NULL also if it is no object */

    *ret = 0;
    if (v == NULL) {
        return 0;
    }
    if (!json_is_number(v)) {
        return err_set(e, ERR_INVALID, "the event's " TIMEOUT_KEY " must be a number of seconds");
    }
    if (json_number_value(v) > 0) {
        *ret = MIN(json_number_value(v), (double)HANDLER_TIMEOUT_MAX_MS / 1000);
    }
    return 0;
}

/*
 * Adds the box's memory to a context that has no such field. Edits the text, since numbers of the
 * tree have lost their digits.
 */
static int add_memory(struct buf *text, const json_t *context, const struct sandbox_config *c,
                      struct err *e)
{
    struct buf full = BUF_INIT(INPUT_MAX + 64);

    if (json_object_get(context, MEMORY_KEY) != NULL) {
        return 0;
    }
    buf_consume(text, strcspn(text->data, "{") + 1);
    int r = buf_printf(&full, "{\"" MEMORY_KEY "\":%" PRIu64 "%s", c->memory_bytes >> 20,
                       json_object_size(context) > 0 ? "," : "");
    r = r < 0 ? r : buf_add(&full, text->data, text->len);
    buf_release(text);
    *text = full;
    return r < 0 ? err_sys(e, -r, "cannot keep the context") : 0;
}

int sandbox_input_read(struct sandbox_input *in, const struct sandbox_options *o,
                       const struct sandbox_config *c, struct err *e)
{
    json_t *event = read_json(o->event, o->event_file, "event", &in->event, e);
    if (event == NULL) {
        return -1;
    }
    int r = event_timeout(event, &in->event_timeout, e);
    json_decref(event);
    if (r < 0) {
        return -1;
    }

    json_t *context = read_json(o->context, o->context_file, "context", &in->context, e);
    if (context == NULL) {
        return -1;
    }
    r = json_is_object(context) ? add_memory(&in->context, context, c, e)
                                : err_set(e, ERR_INVALID, "the context must be a JSON object");
    json_decref(context);
    return r;
}

void sandbox_input_release(struct sandbox_input *in)
{
    buf_release(&in->event);
    buf_release(&in->context);
}

uint64_t sandbox_timeout_ms(const struct sandbox_options *o, const struct sandbox_config *c,
                            const struct sandbox_input *in)
{
    uint64_t flag_ms = (uint64_t)o->timeout * 1000;
    uint64_t event_ms = (uint64_t)(in->event_timeout * 1000);

    if (in->event_timeout > 0) {
        event_ms = MAX(event_ms, 1);
        return flag_ms != 0 ? MIN(flag_ms, event_ms) : event_ms;
    }
    return flag_ms != 0 ? flag_ms : c->timeout_ms;
}
