/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of wire/zygote_msg.h: what a zygote may say to the launcher, and what it is told.
 * The first byte says which and with how many descriptors; the rest is the frame.
 */
#include "wire/zygote_msg.h"

#include <string.h>

#include "fuzz.h"
#include "wire/launcher_msg.h"

static void check_request(const struct zygote_req *req, size_t n, size_t nfds)
{
    struct err e;

    if (zygote_req_check(req, n, nfds)) {
        FUZZ_CHECK(n == sizeof(*req));
        FUZZ_CHECK(nfds >= ZYGOTE_SPAWN_FDS && nfds <= ZYGOTE_SPAWN_FDS + ZYGOTE_CGROUP_FDS_MAX);
        FUZZ_CHECK(limits_check(&req->limits, &e) == 0);
        FUZZ_CHECK(req->mode <= LAUNCHER_SESSION && req->warmth <= LAUNCHER_COOL);
    }
}

static void check_report(const struct zygote_rep *rep, size_t n, size_t nfds)
{
    if (zygote_rep_check(rep, n, nfds)) {
        FUZZ_CHECK(n == sizeof(*rep));
        FUZZ_CHECK(rep->event >= ZYGOTE_READY && rep->event <= ZYGOTE_EXITED);
        FUZZ_CHECK(nfds == (rep->event == ZYGOTE_SPAWNED ? 1 : 0));
        FUZZ_CHECK(memchr(rep->err.msg, '\0', sizeof(rep->err.msg)) != NULL);
        FUZZ_CHECK(err_type(rep->err.code) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zygote_req req;
    struct zygote_rep rep;

    if (size == 0) {
        return 0;
    }
    memset(&req, 0xff, sizeof(req));
    memset(&rep, 0xff, sizeof(rep));
    size_t n = size - 1;
    if ((data[0] & 0x80) != 0) {
        memcpy(&rep, data + 1, MIN(n, sizeof(rep)));
        check_report(&rep, n, data[0] & 0x7f);
    } else {
        memcpy(&req, data + 1, MIN(n, sizeof(req)));
        check_request(&req, n, data[0]);
    }
    return 0;
}
