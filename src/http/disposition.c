/* SPDX-License-Identifier: Apache-2.0 */
/* See disposition.h. */
#include "http/disposition.h"

#include "base/str.h"

#define NAME_MAX_SHOWN 255

void http_disposition(char ret[static HTTP_DISPOSITION_MAX], const char *name, bool is_shown)
{
    static const char hex[] = "0123456789ABCDEF";
    char plain[NAME_MAX_SHOWN + 1];
    char encoded[3 * NAME_MAX_SHOWN + 1];
    size_t n = 0;
    size_t m = 0;

    for (const char *p = name; *p != '\0' && n < NAME_MAX_SHOWN; p++) {
        unsigned char byte = (unsigned char)*p;
        bool is_plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                        (byte >= 'A' && byte <= 'Z') || byte == '.' || byte == '-' || byte == '_';
        plain[n++] = '_';
        if (is_plain || byte == ' ') {
            plain[n - 1] = *p;
        }
        if (is_plain) {
            encoded[m++] = *p;
        } else {
            encoded[m++] = '%';
            encoded[m++] = hex[byte >> 4];
            encoded[m++] = hex[byte & 15];
        }
    }
    plain[n] = '\0';
    encoded[m] = '\0';
    (void)str_format(ret, HTTP_DISPOSITION_MAX, "%s; filename=\"%s\"; filename*=UTF-8''%s",
                     is_shown ? "inline" : "attachment", plain, encoded);
}
