/* SPDX-License-Identifier: Apache-2.0 */
/* Results: names, JSON, freeing; see include/husk/husk.h. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
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
static json_t *text(const char *s, size_t n)
{
    AUTO_BUF struct buf b = BUF_INIT(n * 3 + 1);

    for (size_t i = 0; i < n;) {
        size_t len = str_utf8_len(s + i, n - i);
        int r = len > 0 ? buf_add(&b, s + i, len) : buf_add(&b, "\xef\xbf\xbd", 3);
        if (r < 0) {
            return NULL;
        }
        i += len > 0 ? len : 1;
    }
    return json_stringn(b.data != NULL ? b.data : "", b.len);
}

static json_t *text_or_null(const char *s)
{
    return s != NULL ? text(s, strlen(s)) : json_null();
}

static json_t *error_json(const struct husk_result *r)
{
    if (r->error.type == NULL) {
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o}", "type", text_or_null(r->error.type), "message",
                     text_or_null(r->error.message), "traceback", text_or_null(r->error.traceback));
}

static json_t *metrics_json(const struct husk_metrics *m)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:i}", "duration_ms", m->duration_ms,
                     "queue_ms", m->queue_ms, "cpu_time_ms", m->cpu_time_ms, "peak_memory_mb",
                     m->peak_memory_mb, "io_read_bytes", (json_int_t)m->io_read_bytes,
                     "io_write_bytes", (json_int_t)m->io_write_bytes, "processes",
                     (int)m->processes);
}

static json_t *limits_json(const struct husk_limits *l)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:f, s:i, s:i, s:i}", "memory_bytes",
                     (json_int_t)l->memory_bytes, "disk_bytes", (json_int_t)l->disk_bytes,
                     "timeout_ms", (json_int_t)l->timeout_ms, "output_bytes",
                     (json_int_t)l->output_bytes, "cpus", (double)l->cpu_milli / 1000.0, "pids",
                     (int)l->pids, "inodes", (int)l->inodes, "open_files", (int)l->open_files);
}

static json_t *receipt_json(const struct husk_receipt *c)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:s, s:b, s:o}", "backend",
                     c->backend, "isolation", c->isolation, "missing", c->missing, "namespaces",
                     c->namespaces, "seccomp", c->seccomp, "cgroup", c->cgroup, "landlock_abi",
                     c->landlock_abi, "id_block_start", (json_int_t)c->id_block_start,
                     "id_block_size", (json_int_t)c->id_block_size, "network", c->network, "warm",
                     (int)c->warm, "limits", limits_json(&c->limits));
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

/*
 * The value as JSON is a claim like any other: only what parses is passed on, and then as it was written, for
 * parsing and printing it again would change numbers.
 */
static bool is_json(const char *s)
{
    json_t *value =
        json_loads(s, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);

    json_decref(value);
    return value != NULL;
}

/* Puts the value behind the other members: "{...}" becomes "{..., "value_json": value}". */
static char *append_value(const char *object, const char *value)
{
    AUTO_BUF struct buf b = BUF_INIT(strlen(object) + strlen(value) + 32);

    if (buf_add(&b, object, strlen(object) - 1) < 0 ||
        buf_printf(&b, ",\"value_json\":%s}", value) < 0) {
        return NULL;
    }
    return TAKE_PTR(b.data);
}

char *husk_result_json(const struct husk_result *r)
{
    json_t *all = json_pack(
        "{s:s, s:i, s:o, s:o, s:b, s:b, s:o, s:o, s:{s:s, s:s, s:s}, s:o, s:o, s:o}", "status",
        husk_status_name(r->status), "exit_code", r->exit_code, "stdout", text(r->out, r->out_len),
        "stderr", text(r->err, r->err_len), "stdout_truncated", (int)r->out_truncated,
        "stderr_truncated", (int)r->err_truncated, "value", text_or_null(r->value), "error",
        error_json(r), "termination", "cause", husk_cause_name(r->termination.cause), "detail",
        r->termination.detail, "limit", r->termination.limit, "metrics", metrics_json(&r->metrics),
        "receipt", receipt_json(&r->receipt), "files", files_json(r));
    AUTO_FREE char *object = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(12));

    json_decref(all);
    if (object == NULL) {
        return NULL;
    }
    bool has_value = r->value_json != NULL && is_json(r->value_json);
    return append_value(object, has_value ? r->value_json : "null");
}
