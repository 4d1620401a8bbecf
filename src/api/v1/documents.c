/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract as a document for machines and as a page for people. Both were made at build time.
 */
#include "api/call/call.h"
#include "config/config.h"
#include "http/field.h"
#include "http/range.h"

static void reply_asset(struct api_call *call, enum api_asset_name name)
{
    const struct api_asset *asset = api_asset_get(name);
    const struct http_conditions seen = {.if_none_match = call_text(call, "if-none-match")};
    const char *accepted = call_header(call, "Accept-Encoding");

    if (!service_config(call_service(call))->docs) {
        call_reply_error(call, 404, NULL, "The documents are switched off.",
                         "the server's configuration says docs = false", "Ask its operator.");
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
    if (http_select(&seen, asset->len, asset->etag, 0).status == 304) {
        call_reply_empty(call, 304);
    } else if (accepted != NULL && http_list_has(accepted, "gzip")) {
        call_add_header(call, "Content-Encoding", "gzip");
        call_reply_static(call, 200, asset->content_type, asset->gzip, asset->gzip_len);
    } else {
        call_reply_static(call, 200, asset->content_type, asset->data, asset->len);
    }
}

void api_openapi_json(struct api_call *call)
{
    reply_asset(call, API_ASSET_OPENAPI);
}

void api_se_api_json(struct api_call *call)
{
    reply_asset(call, API_ASSET_SE);
}

void api_docs(struct api_call *call)
{
    reply_asset(call, API_ASSET_DOCS_HTML);
}

void api_se_docs(struct api_call *call)
{
    reply_asset(call, API_ASSET_DOCS_HTML);
}
