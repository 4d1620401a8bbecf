/* SPDX-License-Identifier: Apache-2.0 */
/* Results as JSON; see result.h. */
#include "service/result.h"

#include <string.h>

#include "base/str.h"
#include "core/result_parts.h"

bool result_is_too_much(const char *json)
{
    return str_json_extent(json, strlen(json)).values > RESULT_VALUES_MAX;
}

/*
 * Only JSON that parses is passed on: it is a claim of the box. NULL also for whole numbers beyond
 * 64 bits, which could be kept only as others than they are, and for too much of it.
 */
static json_t *parse(const char *text)
{
    const size_t flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;

    return text != NULL && !result_is_too_much(text) ? json_loads(text, flags, NULL) : NULL;
}

static json_t *parse_or_null(const char *text)
{
    json_t *v = parse(text);

    return v != NULL ? v : json_null();
}

static json_t *form_json(const struct husk_mime *m)
{
    if (strcmp(m->type, "application/json") == 0 || strstr(m->type, "+json") != NULL) {
        json_t *data = parse(m->data);
        if (data != NULL) {
            return json_pack("{s:s, s:s, s:o}", "mime_type", m->type, "encoding", "json", "data",
                             data);
        }
    }
    bool is_text = result_mime_is_text(m->type, strlen(m->type));
    return json_pack("{s:s, s:s, s:o}", "mime_type", m->type, "encoding",
                     is_text ? "text" : "base64", "data",
                     is_text ? result_text(m->data, m->len) : result_base64(m->data, m->len));
}

json_t *result_display_json(const struct husk_display *d)
{
    json_t *forms = json_array();

    for (size_t i = 0; i < d->n_forms; i++) {
        json_array_append_new(forms, form_json(&d->forms[i]));
    }
    return json_pack("{s:o}", "forms", forms);
}

static json_t *outputs_json(const struct husk_result *r)
{
    json_t *list = json_array();

    for (size_t i = 0; r != NULL && i < r->n_displays; i++) {
        json_array_append_new(list, result_display_json(&r->displays[i]));
    }
    return list;
}

/* Output that is no text: shown with U+FFFD, but events that are read later need the bytes. */
static void add_bytes(json_t *to, const char *name, const char *data, size_t n)
{
    if (!str_is_utf8(data, n)) {
        json_object_set_new(to, name, result_base64(data, n));
    }
}

json_t *result_json(const struct husk_result *r)
{
    json_t *value = r->value != NULL ? result_text(r->value, strlen(r->value)) : json_null();
    json_t *all =
        json_pack("{s:i, s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:{s:s, s:s, s:s}, s:o, s:b, s:o, s:o,"
                  " s:b, s:s?}",
                  "exit_code", r->exit_code, "stdout", result_text(r->out, r->out_len), "stderr",
                  result_text(r->err, r->err_len), "stdout_truncated", (int)r->out_truncated,
                  "stderr_truncated", (int)r->err_truncated, "value", value, "return_value",
                  parse_or_null(r->value_json), "error", result_error(r), "termination", "cause",
                  husk_cause_name(r->termination.cause), "detail", r->termination.detail, "limit",
                  r->termination.limit, "outputs", outputs_json(r), "outputs_dropped",
                  (int)r->displays_dropped, "metrics", result_metrics(&r->metrics), "receipt",
                  result_receipt(&r->receipt), "context_restarted", (int)(r->restart != NULL),
                  "restart_reason", r->restart);

    add_bytes(all, "stdout_base64", r->out, r->out_len);
    add_bytes(all, "stderr_base64", r->err, r->err_len);
    if (all != NULL && r->variables_json != NULL) {
        json_object_set_new(all, "variables", parse_or_null(r->variables_json));
    }
    if (all != NULL && r->artifacts_json != NULL) {
        json_object_set_new(all, "artifacts", parse_or_null(r->artifacts_json));
    }
    return all;
}

json_t *result_fault_json(const struct husk_result *so_far, const struct err *e)
{
    json_t *all = result_json(so_far);

    if (all != NULL) {
        json_object_set_new(all, "error",
                            json_pack("{s:s, s:o, s:n}", "type", err_type(e->code), "message",
                                      result_text(e->msg, strlen(e->msg)), "traceback"));
        json_object_set_new(all, "termination",
                            json_pack("{s:s, s:s, s:s}", "cause", RESULT_CAUSE_SERVER, "detail",
                                      err_type(e->code), "limit", ""));
    }
    return all;
}

json_t *result_so_far_json(const struct buf *out, const struct buf *err,
                           const struct husk_result *r)
{
    return json_pack("{s:o, s:o, s:o}", "stdout", result_text(out->data, out->len), "stderr",
                     result_text(err->data, err->len), "outputs", outputs_json(r));
}

json_t *result_lost_json(const struct buf *out, const struct buf *err)
{
    struct husk_result r = {
        .exit_code = EXIT_NO_RESULT,
        .out = out->data,
        .out_len = out->len,
        .err = err->data,
        .err_len = err->len,
    };
    struct err e;

    (void)err_set(&e, ERR_LOST, "the server was restarted while it was under way");
    return result_fault_json(&r, &e);
}
