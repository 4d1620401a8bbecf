/* SPDX-License-Identifier: Apache-2.0 */
/* /workspace/se: the vendor's store that is not there; see api/workspace_se.yaml. */
#include <string.h>

#include "api/call/call.h"
#include "api/contract/format.h"

static bool is_path_or_null(const json_t *value)
{
    const char *path = json_string_value(value);

    return path == NULL || api_format_check(API_FORMAT_SE_PATH, path, strlen(path));
}

/* What the original refuses with 400, where other bad fields are 422. NULL: nothing. */
static const char *efast_fault(const json_t *body)
{
    const json_t *files = json_object_get(body, "file_params");
    const json_t *file;
    size_t i;

    if (json_array_size(files) == 0) {
        return "file_params must name at least one file";
    }
    json_array_foreach(files, i, file)
    {
        if (json_string_length(json_object_get(file, "docid")) == 0) {
            return "each of file_params must have a docid";
        }
        if (!is_path_or_null(json_object_get(file, "savename"))) {
            return "savename leads out of the workspace or has a name that is too long";
        }
    }
    return is_path_or_null(json_object_get(body, "save_path"))
               ? NULL
               : "save_path leads out of the workspace or has a name that is too long";
}

void api_se_download_from_efast(struct api_call *call)
{
    const char *fault = efast_fault(call_body(call));

    if (fault != NULL) {
        call_reply_error(call, 400, "Sandbox.InvalidParameter", NULL, fault, NULL);
        return;
    }
    call_reply_error(
        call, 501, "Sandbox.InternalError", "The vendor's document store is not part of husk.",
        "nothing was fetched: sandboxes have no network, and the server calls no other server",
        "Fetch the files yourself and send them to /workspace/se/upload/{session_id}.");
}
