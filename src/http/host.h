/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of hosts and web origins: grammar, and which of them may be used.
 *
 * The list of hosts stops DNS rebinding (a foreign name that resolves to us), the list of origins
 * stops other web sites from posting to us through their visitors' browsers. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct http_host {
    const char *name; /* borrowed from the text; with brackets for IPv6 */
    size_t len;
    int port; /* -1: none given */
};

/* "name", "name:port", "[address]:port". False if the text is anything else. */
bool http_host_parse(const char *s, size_t n, struct http_host *ret);

/*
 * host is the value of a Host field: a name of the list, or any address. Only a name can be made to
 * resolve to us; a browser that sends an address was given that address, and a page from there has
 * it as its origin. An entry without a port matches every port.
 */
bool http_host_served(const char *const *list, size_t n, const char *host);

/*
 * True if the Origin is listed ("name", "name:port", "scheme://name:port") or is this server itself
 * as the client calls it, i.e. equal to the Host field.
 */
bool http_origin_listed(const char *const *list, size_t n, const char *origin, const char *host);
