/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts and origins; see host.h. */
#include "http/host.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "http/field.h"

static bool is_name_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_';
}

/* How many bytes at s are a name or an address in brackets; 0 if none. */
static size_t name_length(const char *s, size_t n)
{
    size_t i = 0;

    if (n == 0 || s[0] != '[') {
        while (i < n && is_name_char(s[i])) {
            i++;
        }
        return i;
    }
    for (i = 1; i < n && (http_hex_digit(s[i]) >= 0 || s[i] == ':' || s[i] == '.'); i++) {
    }
    return i > 2 && i < n && s[i] == ']' ? i + 1 : 0;
}

bool http_host_parse(const char *s, size_t n, struct http_host *ret)
{
    size_t len = name_length(s, n);
    int port = -1;

    if (len == 0) {
        return false;
    }
    if (len < n) {
        if (s[len] != ':' || n - len < 2 || n - len > 6) {
            return false;
        }
        port = 0;
        for (size_t i = len + 1; i < n; i++) {
            if (s[i] < '0' || s[i] > '9') {
                return false;
            }
            port = port * 10 + (s[i] - '0');
        }
        if (port > 65535) {
            return false;
        }
    }
    *ret = (struct http_host){s, len, port};
    return true;
}

static bool same_name(const struct http_host *a, const struct http_host *b)
{
    return a->len == b->len && strncasecmp(a->name, b->name, a->len) == 0;
}

static bool entry_matches(const char *entry, const struct http_host *host)
{
    struct http_host want;

    return http_host_parse(entry, strlen(entry), &want) && same_name(&want, host) &&
           (want.port == -1 || want.port == host->port);
}

/* Only as inet_pton() reads it: what else a resolver takes for an address (127.1) is a name. */
static bool is_address(const struct http_host *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    char text[INET6_ADDRSTRLEN];
    bool is_v6 = host->name[0] == '[';
    size_t len = is_v6 ? host->len - 2 : host->len;

    if (len >= sizeof(text)) {
        return false;
    }
    memcpy(text, host->name + (is_v6 ? 1 : 0), len);
    text[len] = '\0';
    return inet_pton(is_v6 ? AF_INET6 : AF_INET, text, address) == 1;
}

bool http_host_served(const char *const *list, size_t n, const char *host)
{
    struct http_host got;

    if (!http_host_parse(host, strlen(host), &got)) {
        return false;
    }
    if (is_address(&got)) {
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        if (entry_matches(list[i], &got)) {
            return true;
        }
    }
    return false;
}

/*
 * The part behind "http://" or "https://", or NULL. Other schemes (and "null") are no web origin.
 */
static const char *behind_scheme(const char *origin)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < 2; i++) {
        if (strncasecmp(origin, schemes[i], strlen(schemes[i])) == 0) {
            return origin + strlen(schemes[i]);
        }
    }
    return NULL;
}

bool http_origin_listed(const char *const *list, size_t n, const char *origin, const char *host)
{
    const char *authority = behind_scheme(origin);
    struct http_host got;

    if (authority == NULL || !http_host_parse(authority, strlen(authority), &got)) {
        return false;
    }
    if (strcasecmp(authority, host) == 0) {
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        if (strstr(list[i], "://") != NULL ? strcasecmp(list[i], origin) == 0
                                           : entry_matches(list[i], &got)) {
            return true;
        }
    }
    return false;
}
