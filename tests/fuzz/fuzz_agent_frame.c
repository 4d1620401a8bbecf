/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of agents/agent_frame.h: all that a worker can send, frame by frame. */
#include "agents/agent_frame.h"

#include <string.h>

#include "base/attr.h"
#include "fuzz.h"

/* What readers of a payload rely on without checking it. */
static void check_payload(uint32_t type, const char *p, size_t n, const json_t *value)
{
    FUZZ_CHECK(value == NULL || (json_is_object(value) && p[0] == '{' && p[n - 1] == '}'));
    switch (type) {
    case AGENT_TEXT:
        FUZZ_CHECK(json_is_string(json_object_get(value, "content")));
        break;
    case AGENT_DONE:
        FUZZ_CHECK(json_object_size(value) == 1);
        break;
    case AGENT_ERROR:
        FUZZ_CHECK(json_is_string(json_object_get(value, "message")));
        FUZZ_CHECK(json_integer_value(json_object_get(value, "status")) >= 400);
        break;
    case AGENT_HTTP_HEAD:
        FUZZ_CHECK(json_integer_value(json_object_get(value, "status")) >= 200);
        FUZZ_CHECK(json_array_size(json_object_get(value, "headers")) <= AGENT_HEADERS_MAX);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    struct agent_frame frame;

    while (agent_frame_read(p, size, &frame) == 1 && size - AGENT_HEAD_SIZE >= frame.len) {
        json_t *value = NULL;
        char head[AGENT_HEAD_SIZE];
        FUZZ_CHECK(frame.len <= AGENT_PAYLOAD_MAX);
        agent_frame_write(&frame, head);
        FUZZ_CHECK(memcmp(head, p, sizeof(head)) == 0);
        p += AGENT_HEAD_SIZE;
        if (agent_payload_read(frame.type, p, frame.len, &value) == 0) {
            check_payload(frame.type, p, frame.len, value);
            AUTO_FREE char *text = value != NULL ? json_dumps(value, 0) : NULL;
            FUZZ_CHECK(value == NULL || text != NULL);
        } else {
            FUZZ_CHECK(value == NULL);
        }
        json_decref(value);
        p += frame.len;
        size -= AGENT_HEAD_SIZE + frame.len;
    }
    return 0;
}
