/* SPDX-License-Identifier: Apache-2.0 */
/* /workspace/se: paths in the original's loose form, and refusals of them; see se.h. */
#include <string.h>

#include "api/se/se.h"
#include "base/log.h"

int se_path(const char *text, char dst[static FILES_PATH_MAX + 1])
{
    size_t used = 0;

    for (const char *p = text; *p != '\0';) {
        size_t n = strcspn(p, "/");
        bool is_nothing = n == 0 || (n == 1 && p[0] == '.');
        size_t slash = used > 0 ? 1 : 0;
        if (!is_nothing && used + slash + n > FILES_PATH_MAX) {
            return -1;
        }
        if (!is_nothing) {
            memcpy(dst + used, "/", slash);
            memcpy(dst + used + slash, p, n);
            used += slash + n;
        }
        p += n + (p[n] == '/' ? 1 : 0);
    }
    dst[used] = '\0';
    return 0;
}

void se_reply_bad_path(struct api_call *call, const char *detail)
{
    log_warn("file_denied", "request_id=%s operation=%s: %s", call_request_id(call),
             call_info(call)->id, detail);
    call_reply_error(call, 400, "Sandbox.InvalidParameter", "The path is not valid.", detail,
                     "Name a file in the workspace.");
}

void se_reply_field(struct api_call *call, const char *name, const char *type, const char *message)
{
    struct api_violations v = {0};

    (void)api_violation_add(&v, "body", name, type, message);
    call_reply_invalid(call, &v);
}
