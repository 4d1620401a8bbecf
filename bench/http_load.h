/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load for a server on loopback: many keep-alive connections from one thread, each with one
 * request under way at any time. Every answer is checked for its status and counted by its length.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct http_load {
    uint16_t port;
    const char *target;
    const char *body; /* JSON to POST; NULL: GET */
    int connections;
    double seconds;
};

/* Answers per second. The signature is that of a contender; user is a struct http_load. */
int http_load_once(void *load, double *ret, struct err *e);
