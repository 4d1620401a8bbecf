/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of launcher frames; see launcher_msg.h. Reads untrusted bytes, keeps no state. */
#include "wire/launcher_msg.h"

#include <string.h>

#include "base/str.h"

#define FIELD_TERMINATED(array) str_is_terminated((array), sizeof(array))

bool launcher_path_check(const char *path)
{
    if (path[0] != '/' || path[1] == '\0') {
        return false;
    }
    for (const char *p = path; *p != '\0';) {
        p++; /* the slash */
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
            return false;
        }
        p += n;
    }
    return true;
}

static bool check_place(const struct launcher_req *req)
{
    return FIELD_TERMINATED(req->place.path) && FIELD_TERMINATED(req->place.link) &&
           launcher_path_check(req->place.path) && req->place.kind <= LAUNCHER_COPY;
}

static bool check_hello(const struct launcher_req *req)
{
    return req->hello.isolation <= LAUNCHER_USERNS;
}

static bool check_template(const struct launcher_req *req)
{
    return FIELD_TERMINATED(req->template.name) && str_is_name(req->template.name) &&
           FIELD_TERMINATED(req->template.base) && str_is_name(req->template.base) &&
           req->template.preload <= 1 && req->template.boxes >= 1 &&
           req->template.boxes <= LAUNCHER_BOXES_MAX;
}

static bool check_start(const struct launcher_req *req)
{
    return req->start.imports <= 1 && req->start.patience_ms <= LAUNCHER_DEADLINE_MAX;
}

static bool check_fail(const struct launcher_req *req)
{
    return FIELD_TERMINATED(req->fail.msg) && req->fail.code != ERR_NONE &&
           (unsigned)req->fail.code < ERR_CODES;
}

static bool check_text(const struct launcher_req *req)
{
    return FIELD_TERMINATED(req->text) && req->text[0] != '\0';
}

static bool check_box(const struct launcher_req *req)
{
    struct err ignored;

    return req->box.mode <= LAUNCHER_SESSION && req->box.warmth <= LAUNCHER_COOL &&
           req->box.deadline_ms <= LAUNCHER_DEADLINE_MAX &&
           limits_check(&req->box.limits, &ignored) == 0;
}

static bool check_deadline(const struct launcher_req *req)
{
    return req->deadline.ms <= LAUNCHER_DEADLINE_MAX;
}

static bool check_usage(const struct launcher_req *req)
{
    return req->usage.disk <= 1;
}

static bool check_keep(const struct launcher_req *req)
{
    return req->keep.slot < LAUNCHER_KEEP_SLOTS;
}

static bool check_freeze(const struct launcher_req *req)
{
    return req->freeze.how <= LAUNCHER_THAWED;
}

static bool check_nothing(const struct launcher_req *req)
{
    return req != NULL;
}

bool launcher_req_check(const struct launcher_req *req, size_t n, size_t nfds)
{
    static const struct {
        size_t nfds;
        bool (*check)(const struct launcher_req *req);
        size_t more; /* descriptors that may come beyond nfds */
    } shapes[LAUNCHER_OPS] = {
        [LAUNCHER_HELLO] = {0, check_hello, 0},
        [LAUNCHER_TEMPLATE] = {0, check_template, 0},
        [LAUNCHER_MOUNT] = {1, check_place, 0},
        [LAUNCHER_LINK] = {0, check_place, 0},
        [LAUNCHER_ARG] = {0, check_text, 0},
        [LAUNCHER_ENV] = {0, check_text, 0},
        [LAUNCHER_START] = {0, check_start, 0},
        [LAUNCHER_ASK] = {0, check_nothing, 0},
        [LAUNCHER_FAIL] = {0, check_fail, 0},
        [LAUNCHER_STOP] = {0, check_nothing, 0},
        [LAUNCHER_BOX] = {LAUNCHER_BOX_FDS, check_box, 0},
        [LAUNCHER_DEADLINE] = {0, check_deadline, 0},
        [LAUNCHER_FINISH] = {0, check_usage, 0},
        [LAUNCHER_USAGE] = {0, check_usage, 0},
        [LAUNCHER_RELEASE] = {0, check_nothing, 0},
        [LAUNCHER_KILL] = {0, check_nothing, 0},
        [LAUNCHER_FREEZE] = {0, check_freeze, 0},
        [LAUNCHER_KEEP] = {1, check_keep, LAUNCHER_KEEP_FDS - 1},
        [LAUNCHER_DROP] = {0, check_keep, 0},
        [LAUNCHER_ADOPT] = {0, check_nothing, 0},
    };

    if (n != sizeof(*req) || req->op >= LAUNCHER_OPS || shapes[req->op].check == NULL) {
        return false;
    }
    return nfds >= shapes[req->op].nfds && nfds <= shapes[req->op].nfds + shapes[req->op].more &&
           shapes[req->op].check(req);
}

bool launcher_want_check(const struct launcher_want *want, size_t n)
{
    return n == sizeof(*want) && FIELD_TERMINATED(want->base) && str_is_name(want->base) &&
           want->preload <= 1;
}

bool launcher_rep_check(const struct launcher_rep *rep, size_t n)
{
    if (n != sizeof(*rep) || rep->event < LAUNCHER_EV_OK || rep->event > LAUNCHER_EV_KEPT) {
        return false;
    }
    switch (rep->event) {
    case LAUNCHER_EV_ERROR:
    case LAUNCHER_EV_GONE:
        return FIELD_TERMINATED(rep->err.msg) && (unsigned)rep->err.code < ERR_CODES;
    case LAUNCHER_EV_BOX:
        if (rep->view.n > USAGE_VIEW_FDS) {
            return false;
        }
        /* fallthrough */
    case LAUNCHER_EV_HELLO:
        return FIELD_TERMINATED(rep->facts.cgroup) && FIELD_TERMINATED(rep->facts.missing) &&
               FIELD_TERMINATED(rep->facts.seccomp) && FIELD_TERMINATED(rep->facts.base);
    case LAUNCHER_EV_OK:
        return FIELD_TERMINATED(rep->template.note);
    case LAUNCHER_EV_TEMPLATE:
        return FIELD_TERMINATED(rep->template.name) && FIELD_TERMINATED(rep->template.note);
    case LAUNCHER_EV_KEPT:
        return rep->kept.slot < LAUNCHER_KEEP_SLOTS;
    case LAUNCHER_EV_EXIT:
        return rep->box.end <= LAUNCHER_END_ZYGOTE;
    default:
        return true;
    }
}
