/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket handshake; see handshake.h. */
#include "http/handshake.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <string.h>

#include "base/str.h"

#define KEY_LENGTH 24 /* base64 of 16 bytes */
#define WEBSOCKET_VERSION "13"

/* 16 bytes in base64 are 22 digits and "=="; the last digit has four bits that must be zero. */
static bool is_key(const char *key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    return strlen(key) == KEY_LENGTH && strspn(key, digits) == 22 && str_eq(key + 22, "==") &&
           strchr("AQgw", key[21]) != NULL;
}

int http_handshake_check(const struct http_head *h)
{
    const char *version = http_head_known(h, HTTP_WEBSOCKET_VERSION);
    const char *key = http_head_known(h, HTTP_WEBSOCKET_KEY);

    if (h->method != HTTP_GET || h->minor != 1 || h->is_chunked || h->content_length > 0) {
        return 400;
    }
    if (!http_head_lists(h, "upgrade", "websocket") ||
        !http_head_lists(h, "connection", "upgrade")) {
        return 426;
    }
    if (version == NULL || key == NULL || !is_key(key)) {
        return 400;
    }
    return str_eq(version, WEBSOCKET_VERSION) ? 0 : 426;
}

void http_handshake_accept(const char *key, char dst[HTTP_WEBSOCKET_ACCEPT_SIZE])
{
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char digest[SHA_DIGEST_LENGTH];
    char text[KEY_LENGTH + sizeof(magic)];

    /* The key was checked, so both fit exactly. */
    str_format(text, sizeof(text), "%s%s", key, magic);
    SHA1((const unsigned char *)text, strlen(text), digest);
    EVP_EncodeBlock((unsigned char *)dst, digest, sizeof(digest));
}
