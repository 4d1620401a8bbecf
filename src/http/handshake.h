/* SPDX-License-Identifier: Apache-2.0 */
/* The opening handshake of a WebSocket, server side (RFC 6455, 4.2). Pure. */
#pragma once

#include "http/head.h"

#define HTTP_WEBSOCKET_ACCEPT_SIZE 29 /* base64 of 20 bytes, with the NUL */

/* 0 if the head is a valid WebSocket handshake; else the status to refuse with, 400 or 426. */
int http_handshake_check(const struct http_head *h);

/* The value of Sec-WebSocket-Accept for a key. */
void http_handshake_accept(const char *key, char dst[HTTP_WEBSOCKET_ACCEPT_SIZE]);
