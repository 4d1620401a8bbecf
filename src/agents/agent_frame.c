/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of workers; see agent_frame.h. */
#include "agents/agent_frame.h"

#include <string.h>

#include "base/attr.h"
#include "base/str.h"

static uint32_t get_u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;

    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void put_u32(char *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (char)(value >> (8 * i) & 0xff);
    }
}

void agent_frame_write(const struct agent_frame *frame, char dst[static AGENT_HEAD_SIZE])
{
    put_u32(dst, frame->len);
    put_u32(dst + 4, frame->type);
    put_u32(dst + 8, frame->id);
}

int agent_frame_read(const char *p, size_t n, struct agent_frame *ret)
{
    if (n < AGENT_HEAD_SIZE) {
        return 0;
    }
    struct agent_frame f = {.len = get_u32(p), .type = get_u32(p + 4), .id = get_u32(p + 8)};
    bool is_about_worker = f.type == AGENT_READY || f.type == AGENT_FAILED || f.type == AGENT_PONG;
    bool is_empty = f.type == AGENT_HTTP_END || f.type == AGENT_PONG || f.type == AGENT_BEGUN;

    if (f.type < AGENT_READY || f.type > AGENT_BEGUN || f.len > AGENT_PAYLOAD_MAX ||
        (is_empty && f.len > 0) || is_about_worker != (f.id == 0)) {
        return -1;
    }
    *ret = f;
    return 1;
}

bool agent_frame_is_last(uint32_t type)
{
    return type == AGENT_DONE || type == AGENT_ERROR || type == AGENT_HTTP_END;
}

/* ---- payloads ---- */

static bool is_text(const json_t *object, const char *key)
{
    return json_is_string(json_object_get(object, key));
}

static bool is_strings(const json_t *list, size_t most)
{
    bool ok = json_is_array(list) && json_array_size(list) <= most;

    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        ok = json_is_string(json_array_get(list, i));
    }
    return ok;
}

static bool is_error(const json_t *object)
{
    static const json_int_t known[] = {400, 422, 500, 501};
    const json_t *status = json_object_get(object, "status");
    bool ok = false;

    for (size_t i = 0; i < ARRAY_LEN(known) && json_is_integer(status); i++) {
        ok = ok || json_integer_value(status) == known[i];
    }
    return ok && is_text(object, "type") && is_text(object, "message");
}

static bool is_http_head(const json_t *object)
{
    const json_t *status = json_object_get(object, "status");
    const json_t *headers = json_object_get(object, "headers");
    bool ok = json_is_integer(status) && json_integer_value(status) >= 200 &&
              json_integer_value(status) <= 599 && json_is_array(headers) &&
              json_array_size(headers) <= AGENT_HEADERS_MAX;

    for (size_t i = 0; ok && i < json_array_size(headers); i++) {
        const json_t *pair = json_array_get(headers, i);
        ok = is_strings(pair, 2) && json_array_size(pair) == 2;
    }
    return ok;
}

static bool is_as_said(uint32_t type, const json_t *object)
{
    switch (type) {
    case AGENT_READY:
        return json_is_integer(json_object_get(object, "pid")) &&
               is_strings(json_object_get(object, "streams"), 8);
    case AGENT_FAILED:
        return is_text(object, "error") && is_text(object, "traceback");
    case AGENT_TEXT:
        return is_text(object, "content");
    case AGENT_EVENT:
        return true;
    case AGENT_DONE: /* one member: the answer is made of the text as it came */
        return json_object_size(object) == 1 &&
               (is_text(object, "response") || json_object_get(object, "result") != NULL);
    case AGENT_ERROR:
        return is_error(object);
    case AGENT_HTTP_HEAD:
        return is_http_head(object);
    default:
        return false;
    }
}

int agent_payload_read(uint32_t type, const char *p, size_t n, json_t **ret)
{
    *ret = NULL;
    if (type == AGENT_HTTP_BODY || type == AGENT_HTTP_END || type == AGENT_PONG ||
        type == AGENT_BEGUN) {
        return 0;
    }
    /* Also the first byte: an answer made from this text must not begin with a blank. */
    if (n < 2 || p[0] != '{' || p[n - 1] != '}' || memchr(p, '\0', n) != NULL ||
        str_json_extent(p, n).levels > AGENT_JSON_DEPTH_MAX) {
        return -1;
    }
    /* Integers of any length: those that do not fit are passed on as they were written. */
    size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    flags |= type == AGENT_EVENT || type == AGENT_DONE ? JSON_DECODE_INT_AS_REAL : 0;
    json_t *value = json_loadb(p, n, flags, NULL);
    if (!json_is_object(value) || !is_as_said(type, value)) {
        json_decref(value);
        return -1;
    }
    *ret = value;
    return 0;
}
