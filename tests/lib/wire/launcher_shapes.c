/* SPDX-License-Identifier: Apache-2.0 */
/* See launcher_shapes.h. */
#include "launcher_shapes.h"

#include "base/str.h"

struct launcher_req shape_of(uint32_t op)
{
    struct launcher_req req = {.op = op, .seq = 1};

    switch (op) {
    case LAUNCHER_HELLO:
        req.hello.protocol = LAUNCHER_PROTOCOL;
        break;
    case LAUNCHER_TEMPLATE:
        (void)str_copy(req.template.name, sizeof(req.template.name), "test");
        (void)str_copy(req.template.base, sizeof(req.template.base), "test");
        req.template.boxes = 1;
        break;
    case LAUNCHER_MOUNT:
    case LAUNCHER_LINK:
        (void)str_copy(req.place.path, sizeof(req.place.path), "/data");
        (void)str_copy(req.place.link, sizeof(req.place.link), "/usr");
        break;
    case LAUNCHER_ARG:
    case LAUNCHER_ENV:
        (void)str_copy(req.text, sizeof(req.text), "A=b");
        break;
    case LAUNCHER_FAIL:
        req.fail.code = ERR_TEMPLATE;
        break;
    case LAUNCHER_BOX:
        req.box.limits = limits_default();
        break;
    default:
        break;
    }
    return req;
}

size_t shape_fds(uint32_t op)
{
    return op == LAUNCHER_MOUNT || op == LAUNCHER_KEEP ? 1
           : op == LAUNCHER_BOX                        ? LAUNCHER_BOX_FDS
                                                       : 0;
}

size_t shape_most_fds(uint32_t op)
{
    return op == LAUNCHER_KEEP ? LAUNCHER_KEEP_FDS : shape_fds(op);
}
