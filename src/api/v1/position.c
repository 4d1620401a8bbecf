/* SPDX-License-Identifier: Apache-2.0 */
/* Positions in events; see position.h. */
#include "api/v1/position.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/attr.h"
#include "base/parse.h"
#include "base/str.h"

int v1_position_parse(const char *text, struct v1_position *ret)
{
    struct v1_position p = {0};
    uint64_t *const parts[] = {&p.out, &p.err, &p.outputs, &p.stage};
    size_t n = 0;

    for (const char *at = text;; n++) {
        char part[24];
        size_t len = strcspn(at, ".");
        if (n == ARRAY_LEN(parts) || len >= sizeof(part)) {
            return -EINVAL;
        }
        memcpy(part, at, len);
        part[len] = '\0';
        if (parse_u64(part, parts[n]) < 0 || *parts[n] > INT64_MAX) {
            return -EINVAL;
        }
        at += len;
        if (*at == '\0') {
            break;
        }
        at++;
    }
    if (p.outputs > UINT32_MAX || p.stage > V1_STAGE_RESULT) {
        return -EINVAL;
    }
    *ret = p;
    return 0;
}

void v1_position_format(const struct v1_position *p, char dst[static V1_POSITION_MAX])
{
    (void)str_format(dst, V1_POSITION_MAX, "%" PRIu64 ".%" PRIu64 ".%" PRIu64 ".%" PRIu64, p->out,
                     p->err, p->outputs, p->stage);
}
