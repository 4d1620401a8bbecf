/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of zygote frames; see zygote_msg.h. */
#include "wire/zygote_msg.h"

#include "base/str.h"
#include "wire/launcher_msg.h"

bool zygote_req_check(const struct zygote_req *req, size_t n, size_t nfds)
{
    struct err ignored;

    return n == sizeof(*req) && nfds >= ZYGOTE_SPAWN_FDS &&
           nfds <= ZYGOTE_SPAWN_FDS + ZYGOTE_CGROUP_FDS_MAX && req->mode <= LAUNCHER_SESSION &&
           req->warmth <= LAUNCHER_COOL && limits_check(&req->limits, &ignored) == 0;
}

bool zygote_rep_check(const struct zygote_rep *rep, size_t n, size_t nfds)
{
    if (n != sizeof(*rep) || rep->event < ZYGOTE_READY || rep->event > ZYGOTE_EXITED) {
        return false;
    }
    if (nfds != (rep->event == ZYGOTE_SPAWNED ? 1 : 0)) {
        return false;
    }
    return str_is_terminated(rep->err.msg, sizeof(rep->err.msg)) &&
           (unsigned)rep->err.code < ERR_CODES;
}
