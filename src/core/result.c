/* SPDX-License-Identifier: Apache-2.0 */
/* Results: names, JSON, freeing; see include/husk/husk.h. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "core/result_parts.h"
#include "core/run_frames.h"
#include "husk/husk.h"

const char *husk_status_name(enum husk_status status)
{
    static const char *const names[] = {"completed",       "failed",    "timeout",
                                        "memory_exceeded", "cancelled", "crashed"};

    return names[status];
}

const char *husk_cause_name(enum husk_cause cause)
{
    static const char *const names[] = {"exit",    "timeout", "oom",          "signal",
                                        "seccomp", "disk",    "output_limit", "internal"};

    return names[cause];
}

void husk_result_free(struct husk_result *r)
{
    if (r == NULL) {
        return;
    }
    for (size_t i = 0; i < r->n_files; i++) {
        free(r->files[i].name);
        free(r->files[i].data);
        free(r->files[i].error);
    }
    free(r->files);
    for (size_t i = 0; i < r->n_displays; i++) {
        run_display_release(&r->displays[i]);
    }
    free(r->displays);
    free(r->variables_json);
    free(r->artifacts_json);
    free(r->out);
    free(r->err);
    free(r->value);
    free(r->value_json);
    free(r->error.type);
    free(r->error.message);
    free(r->error.traceback);
    free(r);
}

/* Bytes from a box as a JSON string: what is not UTF-8 becomes U+FFFD. */
json_t *result_text(const char *s, size_t n)
{
    json_t *whole = s != NULL ? json_stringn(s, n) : NULL; /* NULL unless UTF-8, as nearly all is */

    if (whole != NULL) {
        return whole;
    }
    AUTO_BUF struct buf b = BUF_INIT(n * 3 + 1);
    return buf_add_utf8(&b, s, n) < 0 ? NULL : json_stringn(b.data != NULL ? b.data : "", b.len);
}

static json_t *text_or_null(const char *s)
{
    return s != NULL ? result_text(s, strlen(s)) : json_null();
}

json_t *result_error(const struct husk_result *r)
{
    if (r->error.type == NULL) {
        return json_null();
    }
    /* An error always has a message; whether the box sends one is up to the box. */
    const char *message = r->error.message != NULL ? r->error.message : "";
    return json_pack("{s:o, s:o, s:o}", "type", text_or_null(r->error.type), "message",
                     text_or_null(message), "traceback", text_or_null(r->error.traceback));
}

json_t *result_metrics(const struct husk_metrics *m)
{
    json_t *peak = m->peak_memory_mb > 0 ? json_real(m->peak_memory_mb) : json_null();

    return json_pack("{s:f, s:f, s:f, s:o, s:I, s:I, s:i}", "duration_ms", m->duration_ms,
                     "queue_ms", m->queue_ms, "cpu_time_ms", m->cpu_time_ms, "peak_memory_mb", peak,
                     "io_read_bytes", (json_int_t)m->io_read_bytes, "io_write_bytes",
                     (json_int_t)m->io_write_bytes, "processes", (int)m->processes);
}

static json_t *limits_json(const struct husk_limits *l)
{
    json_t *process = l->process_bytes != 0 ? json_integer((json_int_t)l->process_bytes) : NULL;

    return json_pack("{s:I, s:o*, s:I, s:I, s:I, s:f, s:i, s:i, s:i}", "memory_bytes",
                     (json_int_t)l->memory_bytes, "process_bytes", process, "disk_bytes",
                     (json_int_t)l->disk_bytes, "timeout_ms", (json_int_t)l->timeout_ms,
                     "output_bytes", (json_int_t)l->output_bytes, "cpus",
                     (double)l->cpu_milli / 1000.0, "pids", (int)l->pids, "inodes", (int)l->inodes,
                     "open_files", (int)l->open_files);
}

json_t *result_receipt(const struct husk_receipt *c)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:s, s:b, s:s, s:b, s:i, s:I, s:o}",
        "backend", c->backend, "isolation", c->isolation, "missing", c->missing, "namespaces",
        c->namespaces, "seccomp", c->seccomp, "cgroup", c->cgroup, "landlock_abi", c->landlock_abi,
        "id_block_start", (json_int_t)c->id_block_start, "id_block_size",
        (json_int_t)c->id_block_size, "network", c->network, "warm", (int)c->warm, "template",
        c->template_name, "imports", (int)c->imports, "boxes_checked", (int)c->boxes_checked,
        "zygote_age_ms", (json_int_t)c->zygote_age_ms, "limits", limits_json(&c->limits));
}

static json_t *files_json(const struct husk_result *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < r->n_files; i++) {
        const struct husk_output_file *f = &r->files[i];
        json_array_append_new(list,
                              json_pack("{s:o, s:I, s:o}", "name", text_or_null(f->name), "size",
                                        (json_int_t)f->len, "error", text_or_null(f->error)));
    }
    return list;
}

/* Bytes as base64 (RFC 4648) with padding. */
json_t *result_base64(const char *data, size_t n)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    enum { PADDING = 64 };
    AUTO_BUF struct buf b = BUF_INIT(n / 3 * 4 + 4);

    if (buf_reserve(&b, n / 3 * 4 + 4) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < n; i += 3) {
        size_t have = MIN(n - i, (size_t)3);
        uint32_t bits = 0;
        for (size_t j = 0; j < 3; j++) {
            bits = bits << 8 | (j < have ? (uint8_t)data[i + j] : 0);
        }
        for (size_t j = 0; j < 4; j++) {
            b.data[b.len++] = digits[j <= have ? bits >> (18 - 6 * j) & 63 : PADDING];
        }
    }
    return json_stringn(b.data, b.len);
}

/* Each display as an object of its types. Text as it is; other bytes as base64, as notebooks do. */
static json_t *displays_json(const struct husk_result *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < r->n_displays; i++) {
        json_t *forms = json_object();
        for (size_t j = 0; j < r->displays[i].n_forms; j++) {
            const struct husk_mime *m = &r->displays[i].forms[j];
            bool is_text = result_mime_is_text(m->type, strlen(m->type));
            json_object_set_new(forms, m->type,
                                is_text ? result_text(m->data, m->len)
                                        : result_base64(m->data, m->len));
        }
        json_array_append_new(list, forms);
    }
    return list;
}

/*
 * JSON from a box is a claim like any other: only what parses is passed on, and then as it was
 * written, for parsing and printing it again would change numbers.
 */
static bool is_json(const char *s)
{
    json_t *value =
        s != NULL ? json_loads(
                        s, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL)
                  : NULL;

    json_decref(value);
    return value != NULL;
}

int result_add_member(struct buf *text, const char *name, const char *json)
{
    text->len--; /* the bracket that closes it */
    return buf_printf(text, ",\"%s\":%s}", name, json);
}

static char *append(const char *object, const struct husk_result *r)
{
    const char *value = is_json(r->value_json) ? r->value_json : "null";
    const char *variables = r->variables_json != NULL ? r->variables_json : "null";
    AUTO_BUF struct buf b = BUF_INIT(strlen(object) + strlen(value) + strlen(variables) + 64);

    if (buf_add_str(&b, object) < 0 || result_add_member(&b, "value_json", value) < 0 ||
        result_add_member(&b, "variables", variables) < 0) {
        return NULL;
    }
    return TAKE_PTR(b.data);
}

char *husk_result_json(const struct husk_result *r)
{
    json_t *all = json_pack(
        "{s:s, s:i, s:o, s:o, s:b, s:b, s:o, s:o, s:{s:s, s:s, s:s}, s:o, s:o, s:o, s:o, s:b, s:b}",
        "status", husk_status_name(r->status), "exit_code", r->exit_code, "stdout",
        result_text(r->out, r->out_len), "stderr", result_text(r->err, r->err_len),
        "stdout_truncated", (int)r->out_truncated, "stderr_truncated", (int)r->err_truncated,
        "value", text_or_null(r->value), "error", result_error(r), "termination", "cause",
        husk_cause_name(r->termination.cause), "detail", r->termination.detail, "limit",
        r->termination.limit, "metrics", result_metrics(&r->metrics), "receipt",
        result_receipt(&r->receipt), "files", files_json(r), "displays", displays_json(r),
        "displays_dropped", (int)r->displays_dropped, "variables_dropped",
        (int)r->variables_dropped);
    AUTO_FREE char *object = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(12));

    json_decref(all);
    return object != NULL ? append(object, r) : NULL;
}
