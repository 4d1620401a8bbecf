/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that are lists, and checks of their entries; see config_impl.h. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "config/config_impl.h"

#define ENTRY_MAX 300 /* "https://" and the longest host name with a port */
#define BETWEEN ", \t"

static int bad_address(const char *text, struct err *e)
{
    char shown[CONFIG_QUOTED_MAX];

    return err_set(e, ERR_INVALID,
                   "'%s' is not an address such as 127.0.0.1:8000 or [::1]:8000 (or none)",
                   config_quote(text, shown));
}

int config_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len,
                   struct err *e)
{
    const char *colon = strrchr(text, ':');
    struct sockaddr_storage sa = {0};
    char host[INET6_ADDRSTRLEN + 2];
    uint64_t port = 0;
    socklen_t len;

    if (colon == NULL || (size_t)(colon - text) >= sizeof(host) ||
        parse_u64(colon + 1, &port) < 0 || port > UINT16_MAX) {
        return bad_address(text, e);
    }
    size_t n = (size_t)(colon - text);
    memcpy(host, text, n);
    host[n] = '\0';
    if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&sa;

        host[n - 1] = '\0';
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        len = sizeof(*in6);
        if (inet_pton(AF_INET6, host + 1, &in6->sin6_addr) != 1) {
            return bad_address(text, e);
        }
    } else {
        struct sockaddr_in *in4 = (struct sockaddr_in *)&sa;
        const char *digits = str_eq(host, "localhost") ? "127.0.0.1" : host;

        in4->sin_family = AF_INET;
        in4->sin_port = htons((uint16_t)port);
        len = sizeof(*in4);
        if (inet_pton(AF_INET, digits, &in4->sin_addr) != 1) {
            return bad_address(text, e);
        }
    }
    *ret = sa;
    *ret_len = len;
    return 0;
}

/* Letters, digits, - and _ between dots, which includes IPv4 addresses. Lower case already. */
static bool is_host(const char *s)
{
    char last = '.';

    for (const char *p = s; *p != '\0'; p++) {
        if (*p == '.' ? last == '.'
                      : !islower((unsigned char)*p) && !isdigit((unsigned char)*p) && *p != '-' &&
                            *p != '_') {
            return false;
        }
        last = *p;
    }
    return last != '.' && strlen(s) <= 253;
}

static bool is_bracketed_ip6(const char *s)
{
    char digits[INET6_ADDRSTRLEN];
    struct in6_addr address;
    size_t n = strlen(s);

    if (n < 4 || n - 2 >= sizeof(digits) || s[0] != '[' || s[n - 1] != ']') {
        return false;
    }
    memcpy(digits, s + 1, n - 2);
    digits[n - 2] = '\0';
    return inet_pton(AF_INET6, digits, &address) == 1;
}

/* "http://host" or "https://host:port" without a path, as browsers send it. */
static bool is_origin(const char *s)
{
    char host[ENTRY_MAX];

    if (!str_starts(s, "http://") && !str_starts(s, "https://")) {
        return false;
    }
    (void)str_copy(host, sizeof(host), strstr(s, "//") + 2);
    char *colon = strrchr(host, ':');
    if (colon != NULL && strchr(colon, ']') == NULL) {
        uint64_t port = 0;

        if (parse_u64(colon + 1, &port) < 0 || port == 0 || port > UINT16_MAX) {
            return false;
        }
        *colon = '\0';
    }
    return is_host(host) || is_bracketed_ip6(host);
}

static int check_entry(enum config_type type, const char *entry, struct err *e)
{
    char shown[CONFIG_QUOTED_MAX];
    struct sockaddr_storage sa;
    socklen_t len;

    if (type == CONFIG_TYPE_ADDRESSES) {
        return config_address(entry, &sa, &len, e);
    }
    if (type == CONFIG_TYPE_HOSTS && !is_host(entry) && !is_bracketed_ip6(entry)) {
        return err_set(e, ERR_INVALID, "'%s' is not a host name without a port, such as box.local",
                       config_quote(entry, shown));
    }
    if (type == CONFIG_TYPE_ORIGINS && !is_origin(entry)) {
        return err_set(e, ERR_INVALID, "'%s' is not an origin such as https://example.org:8443",
                       config_quote(entry, shown));
    }
    if (type == CONFIG_TYPE_NAMES && !str_is_name(entry)) {
        return err_set(e, ERR_INVALID, "'%s' is not a name: lower-case letters, digits, . _ -",
                       config_quote(entry, shown));
    }
    return 0;
}

static int append(struct config_list *list, const char *entry, struct err *e)
{
    char **items = reallocarray(list->items, list->n + 2, sizeof(*items));

    if (items == NULL) {
        return err_sys(e, ENOMEM, "cannot keep the list");
    }
    list->items = items;
    items[list->n] = NULL;
    items[list->n + 1] = NULL;
    if (config_text_set(&items[list->n], entry, e) < 0) {
        return -1;
    }
    list->n++;
    return 0;
}

/* Takes the next entry from *at and lowers its case, except for names, which must be lower case. */
static int next_entry(const char **at, enum config_type type, char entry[ENTRY_MAX], struct err *e)
{
    size_t n = strcspn(*at, BETWEEN);

    if (n >= ENTRY_MAX) {
        return err_set(e, ERR_INVALID, "an entry is longer than %d characters", ENTRY_MAX - 1);
    }
    for (size_t i = 0; i < n; i++) {
        char c = (*at)[i];
        bool is_upper = c >= 'A' && c <= 'Z' && type != CONFIG_TYPE_NAMES;
        entry[i] = c;
        if (is_upper) {
            entry[i] = (char)((unsigned char)c | 0x20u);
        }
    }
    entry[n] = '\0';
    *at += n;
    *at += strspn(*at, BETWEEN);
    return check_entry(type, entry, e);
}

static int add_entries(struct config_list *list, const struct config_row *row, const char *value,
                       struct err *e)
{
    const char *at = value + strspn(value, BETWEEN);
    char entry[ENTRY_MAX];

    if (row->type == CONFIG_TYPE_ADDRESSES && list->n == 0 && strcasecmp(at, "none") == 0) {
        return 0;
    }
    if (row->type == CONFIG_TYPE_ADDRESSES && *at == '\0') {
        return bad_address(value, e);
    }
    while (*at != '\0') {
        if (next_entry(&at, row->type, entry, e) < 0) {
            return -1;
        }
        if (list->n >= row->most) {
            return err_set(e, ERR_INVALID, "has more than %u entries, which is the maximum",
                           (unsigned)row->most);
        }
        if (append(list, entry, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int config_list_add(struct config_list *list, const struct config_row *row, const char *value,
                    struct err *e)
{
    size_t before = list->n;

    if (add_entries(list, row, value, e) == 0) {
        return 0;
    }
    while (list->n > before) {
        free(list->items[--list->n]);
        list->items[list->n] = NULL;
    }
    return -1;
}

void config_list_release(struct config_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->items[i]);
    }
    free(list->items);
    *list = (struct config_list){0};
}
