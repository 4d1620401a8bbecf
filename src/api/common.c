/* SPDX-License-Identifier: Apache-2.0 */
/* The contract as a document for machines and as a page for people. Both were made at build time. */
#include <string.h>

#include "api/call_impl.h"
#include "base/str.h"
#include "config/config.h"

/* True if a list of ETags or codings ("a", "b;q=0.5") has that word. Weak ETags compare as strong ones do here. */
static bool list_has(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; *p != '\0';) {
        p += strspn(p, " \t,");
        p += str_starts(p, "W/") ? 2 : 0;
        size_t len = strcspn(p, ",;");
        while (len > 0 && (p[len - 1] == ' ' || p[len - 1] == '\t')) {
            len--;
        }
        if (len == n && memcmp(p, word, n) == 0) {
            return true;
        }
        p += strcspn(p, ",");
    }
    return false;
}

/* "gzip;q=0" says that it is not wanted. */
static bool accepts_gzip(const struct api_call *call)
{
    const char *accept = call_header(call, "accept-encoding");

    return accept != NULL && list_has(accept, "gzip") && strstr(accept, "gzip;q=0") == NULL &&
           strstr(accept, "gzip; q=0") == NULL;
}

static void reply_asset(struct api_call *call, enum api_asset_name name)
{
    const struct api_asset *asset = api_asset_get(name);
    const char *seen = call_text(call, "if-none-match");

    if (!call->api->config->docs) {
        call_reply_error(call, 404, NULL, NULL, "this server does not show its documents", NULL);
        return;
    }
    call_add_header(call, "ETag", asset->etag);
    call_add_header(call, "Cache-Control", "no-cache"); /* that is: ask each time, by ETag */
    call_add_header(call, "Vary", "Accept-Encoding");
    if (name == API_ASSET_DOCS_HTML) {
        call_add_header(call, "Content-Security-Policy",
                        "default-src 'none'; style-src 'unsafe-inline'; script-src 'none'; "
                        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    }
    if (seen != NULL && (list_has(seen, asset->etag) || str_eq(seen, "*"))) {
        call_reply_empty(call, 304);
        return;
    }
    if (accepts_gzip(call)) {
        call_add_header(call, "Content-Encoding", "gzip");
        call_reply_static(call, 200, asset->content_type, asset->gzip, asset->gzip_len);
        return;
    }
    call_reply_static(call, 200, asset->content_type, asset->data, asset->len);
}

void api_openapi_json(struct api_call *call)
{
    reply_asset(call, API_ASSET_OPENAPI);
}

void api_docs(struct api_call *call)
{
    reply_asset(call, API_ASSET_DOCS_HTML);
}
