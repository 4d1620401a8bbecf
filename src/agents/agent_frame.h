/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames between huskd and a worker of a served agent: docs/protocol.md, chapter 6.
 *
 * A head of 12 bytes, little-endian (length of the payload, type, id of the request), then the
 * payload. Workers run the user's code, so what they send is untrusted. Pure functions.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_HEAD_SIZE 12
#define AGENT_PAYLOAD_MAX ((size_t)16 << 20)
#define AGENT_JSON_DEPTH_MAX 64
#define AGENT_HEADERS_MAX 256

enum agent_frame_type {
    /* to the worker */
    AGENT_CALL = 1,
    AGENT_CHAT,
    AGENT_HTTP,
    AGENT_BODY, /* raw bytes */
    AGENT_END,
    AGENT_CANCEL,
    AGENT_PING,  /* id 0 */
    AGENT_DRAIN, /* id 0 */
    /* from it */
    AGENT_READY = 64, /* id 0 */
    AGENT_FAILED,     /* id 0 */
    AGENT_TEXT,
    AGENT_EVENT,
    AGENT_DONE,
    AGENT_ERROR,
    AGENT_HTTP_HEAD,
    AGENT_HTTP_BODY, /* raw bytes */
    AGENT_HTTP_END,
    AGENT_PONG,  /* id 0 */
    AGENT_BEGUN, /* the agent's code is called next */
};

struct agent_frame {
    uint32_t len; /* of the payload */
    uint32_t type;
    uint32_t id;
};

void agent_frame_write(const struct agent_frame *frame, char dst[static AGENT_HEAD_SIZE]);

/*
 * The head of a frame from a worker. 1: *ret; 0: more bytes are needed; -1: no valid head, and the
 * frames behind it cannot be found.
 */
int agent_frame_read(const char *p, size_t n, struct agent_frame *ret);

/* True for the last frame of an answer. */
bool agent_frame_is_last(uint32_t type);

/*
 * Checks the payload of a frame from a worker. 0, with *ret the checked object (owned; NULL for raw
 * and empty payloads); -1: it does not match its type. Every member that the protocol names is
 * there and of its type; strings may hold NUL.
 */
int agent_payload_read(uint32_t type, const char *p, size_t n, json_t **ret);
