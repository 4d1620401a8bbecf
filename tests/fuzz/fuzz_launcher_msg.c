/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of wire/launcher_msg.h: requests as a client could send them, answers as a launcher
 * could. The first byte says which and with how many descriptors; the rest is the frame.
 */
#include "wire/launcher_msg.h"

#include <string.h>

#include "base/str.h"
#include "fuzz.h"

#define TERMINATED(array) (memchr((array), '\0', sizeof(array)) != NULL)

static void check_request(const struct launcher_req *req, size_t n, size_t nfds)
{
    struct err e;

    if (!launcher_req_check(req, n, nfds)) {
        return;
    }
    FUZZ_CHECK(n == sizeof(*req));
    switch (req->op) {
    case LAUNCHER_TEMPLATE:
        FUZZ_CHECK(TERMINATED(req->template.name) && str_is_name(req->template.name));
        FUZZ_CHECK(req->template.boxes >= 1 && req->template.boxes <= LAUNCHER_BOXES_MAX);
        break;
    case LAUNCHER_MOUNT:
    case LAUNCHER_LINK:
        FUZZ_CHECK(TERMINATED(req->place.path) && TERMINATED(req->place.link));
        FUZZ_CHECK(req->place.path[0] == '/' && req->place.path[1] != '\0');
        FUZZ_CHECK(strstr(req->place.path, "//") == NULL);
        FUZZ_CHECK(strstr(req->place.path, "/../") == NULL);
        FUZZ_CHECK(strstr(req->place.path, "/./") == NULL);
        FUZZ_CHECK(nfds == (req->op == LAUNCHER_MOUNT ? 1 : 0));
        break;
    case LAUNCHER_ARG:
    case LAUNCHER_ENV:
        FUZZ_CHECK(TERMINATED(req->text) && req->text[0] != '\0' && nfds == 0);
        break;
    case LAUNCHER_BOX:
        FUZZ_CHECK(limits_check(&req->box.limits, &e) == 0 && nfds == LAUNCHER_BOX_FDS);
        FUZZ_CHECK(req->box.mode <= LAUNCHER_SESSION && req->box.warmth <= LAUNCHER_COOL);
        break;
    case LAUNCHER_FREEZE:
        FUZZ_CHECK(req->freeze.how <= LAUNCHER_THAWED && nfds == 0);
        break;
    case LAUNCHER_KEEP:
        FUZZ_CHECK(nfds >= 1 && nfds <= LAUNCHER_KEEP_FDS);
        /* fallthrough */
    case LAUNCHER_DROP:
        FUZZ_CHECK(req->keep.slot < LAUNCHER_KEEP_SLOTS);
        break;
    default:
        FUZZ_CHECK(req->op >= LAUNCHER_HELLO && req->op < LAUNCHER_OPS && nfds == 0);
        break;
    }
}

static void check_answer(const struct launcher_rep *rep, size_t n)
{
    if (!launcher_rep_check(rep, n)) {
        return;
    }
    FUZZ_CHECK(n == sizeof(*rep));
    switch (rep->event) {
    case LAUNCHER_EV_ERROR:
        FUZZ_CHECK(TERMINATED(rep->err.msg) && err_type(rep->err.code) != NULL);
        break;
    case LAUNCHER_EV_BOX:
        FUZZ_CHECK(rep->view.n <= USAGE_VIEW_FDS);
        /* fallthrough */
    case LAUNCHER_EV_HELLO:
        FUZZ_CHECK(TERMINATED(rep->facts.cgroup) && TERMINATED(rep->facts.missing) &&
                   TERMINATED(rep->facts.seccomp));
        break;
    case LAUNCHER_EV_TEMPLATE:
        FUZZ_CHECK(TERMINATED(rep->template.name));
        break;
    case LAUNCHER_EV_KEPT:
        FUZZ_CHECK(rep->kept.slot < LAUNCHER_KEEP_SLOTS);
        break;
    default:
        FUZZ_CHECK(rep->event >= LAUNCHER_EV_OK && rep->event <= LAUNCHER_EV_KEPT);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct launcher_req req;
    struct launcher_rep rep;

    if (size == 0) {
        return 0;
    }
    /*
     * The receiver's buffer is as large as the frame; what was not sent is what was there before.
     */
    memset(&req, 0xff, sizeof(req));
    memset(&rep, 0xff, sizeof(rep));
    size_t n = size - 1;
    if ((data[0] & 0x80) != 0) {
        memcpy(&rep, data + 1, MIN(n, sizeof(rep)));
        check_answer(&rep, n);
    } else {
        memcpy(&req, data + 1, MIN(n, sizeof(req)));
        check_request(&req, n, data[0]);
    }
    return 0;
}
