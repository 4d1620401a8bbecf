/* SPDX-License-Identifier: Apache-2.0 */
/* /workspace/se: its contract, and the vendor's store that is not there; see api/workspace_se.yaml. */
#include "api/call.h"
#include "http/field.h"

static void reply_asset(struct api_call *call, enum api_asset_name name)
{
    const struct api_asset *asset = api_asset_get(name);
    const char *accepted = call_header(call, "Accept-Encoding");
    const char *known = call_text(call, "if-none-match");

    if (!service_config(call_service(call))->docs) {
        call_reply_error(call, 404, "Sandbox.InvalidParameter", "The documents are switched off.",
                         "the server's configuration says docs = false", "Ask its operator.");
        return;
    }
    call_add_header(call, "ETag", asset->etag);
    call_add_header(call, "Vary", "Accept-Encoding");
    if (known != NULL && (http_list_has(known, asset->etag) || http_list_has(known, "*"))) {
        call_reply_empty(call, 304);
    } else if (accepted != NULL && http_list_has(accepted, "gzip")) {
        call_add_header(call, "Content-Encoding", "gzip");
        call_reply_static(call, 200, asset->content_type, asset->gzip, asset->gzip_len);
    } else {
        call_reply_static(call, 200, asset->content_type, asset->data, asset->len);
    }
}

void api_se_api_json(struct api_call *call)
{
    reply_asset(call, API_ASSET_SE);
}

void api_se_docs(struct api_call *call)
{
    reply_asset(call, API_ASSET_DOCS_HTML);
}

void api_se_download_from_efast(struct api_call *call)
{
    call_reply_error(
        call, 501, "Sandbox.InternalError", "The vendor's document store is not part of husk.",
        "nothing was fetched: sandboxes have no network, and the server calls no other server",
        "Fetch the files yourself and send them to /workspace/se/upload/{session_id}.");
}
