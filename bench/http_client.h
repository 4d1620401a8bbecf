/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One keep-alive connection to an HTTP server on loopback: a request is one write, an answer is
 * read until it is whole. Understands what the servers under measurement send (a length, no
 * chunks) and nothing else.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define HTTP_ANSWER_MAX 65536
#define HTTP_REQUEST_MAX 4096

struct http_client {
    int fd;
    uint16_t port;
    size_t len;
    char data[HTTP_ANSWER_MAX + 1];
};

struct http_answer {
    int status;
    const char *body; /* in the client's buffer, NUL-terminated; until the next request */
    size_t len;       /* of the body */
    size_t whole;     /* head and body */
};

int http_open(struct http_client *c, uint16_t port, struct err *e);
void http_close(struct http_client *c); /* fine if it was never opened and fd is -1 */

/*
 * Writes a request's text; with a JSON body if there is one (NULL: none). Its length, or 0: it does
 * not fit.
 */
size_t http_request(char *ret, size_t size, uint16_t port, const char *target, const char *body);

/* DELETE; any status but 2xx is an error. */
int http_delete(struct http_client *c, const char *target, struct err *e);

/* POST with a body, GET without. */
int http_send(struct http_client *c, const char *target, const char *body, struct err *e);
int http_receive(struct http_client *c, struct http_answer *ret, struct err *e);

/* Both; any other status than `expected` is an error that quotes the answer. */
int http_call(struct http_client *c, const char *target, const char *body, int expected,
              struct http_answer *ret, struct err *e);

/* Looks at what has arrived: 1 and *ret, when an answer is whole; 0 when more must come; -1. */
int http_parse(char *data, size_t len, struct http_answer *ret, struct err *e);
