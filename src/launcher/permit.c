/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The permit table: every request that exists, what must be true for it, and who handles it.
 *
 * What is not in the table does not exist. A request at the wrong time or with the wrong shape
 * closes the connection; a request that merely cannot be done gets an error.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/str.h"
#include "launcher/launcher.h"

enum need {
    NEED_GREETING = 1 << 0, /* HELLO came before */
    NEED_NO_GREETING = 1 << 1,
    NEED_BUILDING = 1 << 2, /* template_id names one under construction */
    NEED_RUNNING = 1 << 3,  /* ... one whose zygote is ready */
    NEED_TEMPLATE = 1 << 4, /* ... any */
};

static int handle_hello(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                        struct err *e)
{
    struct launcher_rep rep = {.event = LAUNCHER_EV_HELLO, .seq = req->seq};

    (void)fds;
    if (req->hello.protocol != LAUNCHER_PROTOCOL) {
        return err_set(e, ERR_PROTOCOL, "launcher speaks protocol %d, not %u: reinstall husk",
                       LAUNCHER_PROTOCOL, req->hello.protocol);
    }
    if (req->hello.isolation == LAUNCHER_FULL && l->facts.missing[0] != '\0') {
        return err_set(e, ERR_ISOLATION,
                       "this host cannot enforce: %s. `husk doctor` says why; sudo usually helps, "
                       "and --min-isolation userns accepts less",
                       l->facts.missing);
    }
    l->greeted = true;
    rep.facts = l->facts;
    reply(l, &rep);
    return 0;
}

static int handle_template(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                           struct err *e)
{
    (void)fds;
    int id = template_begin(l, req, e);
    if (id < 0) {
        return -1;
    }
    req->template_id = (uint32_t)id;
    reply_ok(l, req);
    return 0;
}

static int handle_mount(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                        struct err *e)
{
    if (template_mount(l, req, fds->fds[0], e) < 0) {
        return -1;
    }
    reply_ok(l, req);
    return 0;
}

static int handle_link(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                       struct err *e)
{
    struct root_plan *plan = &template_at(l, req->template_id)->plan;

    (void)fds;
    if (root_plan_link(plan, req->place.path, req->place.link, e) < 0) {
        return -1;
    }
    reply_ok(l, req);
    return 0;
}

static int handle_text(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                       struct err *e)
{
    struct root_plan *plan = &template_at(l, req->template_id)->plan;

    (void)fds;
    int r = req->op == LAUNCHER_ARG ? root_plan_arg(plan, req->text, e)
                                    : root_plan_env(plan, req->text, e);
    if (r < 0) {
        return -1;
    }
    reply_ok(l, req);
    return 0;
}

static int handle_start(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                        struct err *e)
{
    (void)fds;
    if (template_start(l, req->template_id, req->seq, e) < 0) {
        template_stop(l, req->template_id);
        return -1;
    }
    return 0; /* answered when the zygote is ready */
}

static int handle_stop(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                       struct err *e)
{
    (void)fds;
    (void)e;
    template_stop(l, req->template_id);
    reply_ok(l, req);
    return 0;
}

static int handle_box(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                      struct err *e)
{
    int r = box_new(l, req, fds, e);

    if (r < 0 && e->code == ERR_NOT_FOUND) {
        template_died(l, req->template_id); /* so that its owner hears of it before this answer */
    }
    return r;
}

/* A box may have ended while the request was on its way: its EXIT event has told, or will tell. */
static int handle_run(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                      struct err *e)
{
    struct box_entry *box = box_at(l, req->box_id);

    (void)fds;
    (void)e;
    if (box != NULL && req->run.deadline_ms != 0) {
        box_arm(l, box, req->run.deadline_ms);
    } else if (box != NULL) {
        box->deadline = 0; /* a session between two cells */
    }
    return 0;
}

static int handle_finish(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                         struct err *e)
{
    struct box_entry *box = box_at(l, req->box_id);

    (void)fds;
    if (box == NULL) {
        return err_set(e, ERR_NOT_FOUND, "box %u has ended", req->box_id);
    }
    box_finish(l, box, req);
    return 0;
}

static int handle_usage(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                        struct err *e)
{
    struct box_entry *box = box_at(l, req->box_id);

    (void)fds;
    if (box == NULL) {
        return err_set(e, ERR_NOT_FOUND, "box %u has ended", req->box_id);
    }
    box_report_usage(l, box, req);
    return 0;
}

static int handle_release(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                          struct err *e)
{
    struct box_entry *box = box_at(l, req->box_id);

    (void)fds;
    (void)e;
    if (box != NULL) {
        keep_drop_all(box);
        box->silent = true;
        box_end(l, box, LAUNCHER_END_FINISHED);
        return 0;
    }
    box = &l->boxes[req->box_id % BOXES_MAX];
    if (box->id != req->box_id) {
        return 0;
    }
    if (box->state == BOX_DEAD) {
        box_forget(l, box);
    } else if (box->state == BOX_ENDING || box->state == BOX_LINGERING) {
        keep_drop_all(box); /* nobody will take note of its end */
        box->silent = true;
    }
    return 0;
}

static int handle_keep(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                       struct err *e)
{
    struct box_entry *box = box_at(l, req->box_id);

    (void)e;
    if (box != NULL && req->op == LAUNCHER_DROP) {
        keep_drop(box, req->keep.slot);
    } else if (box != NULL) {
        /* no answer: without room for it the successor will miss this box, and says so */
        struct err lost;
        (void)keep_put(l, box, req, fds, &lost);
    }
    return 0;
}

static int handle_adopt(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                        struct err *e)
{
    (void)fds;
    (void)e;
    keep_adopt(l);
    reply_ok(l, req);
    return 0;
}

static int handle_kill(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                       struct err *e)
{
    struct box_entry *box = box_at(l, req->box_id);

    (void)fds;
    (void)e;
    if (box != NULL) {
        box_end(l, box, LAUNCHER_END_KILLED);
    }
    return 0;
}

static const struct {
    int (*handle)(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                  struct err *e);
    unsigned needs;
} permits[LAUNCHER_OPS] = {
    [LAUNCHER_HELLO] = {handle_hello, NEED_NO_GREETING},
    [LAUNCHER_TEMPLATE] = {handle_template, NEED_GREETING},
    [LAUNCHER_MOUNT] = {handle_mount, NEED_GREETING | NEED_BUILDING},
    [LAUNCHER_LINK] = {handle_link, NEED_GREETING | NEED_BUILDING},
    [LAUNCHER_ARG] = {handle_text, NEED_GREETING | NEED_BUILDING},
    [LAUNCHER_ENV] = {handle_text, NEED_GREETING | NEED_BUILDING},
    [LAUNCHER_START] = {handle_start, NEED_GREETING | NEED_BUILDING},
    [LAUNCHER_STOP] = {handle_stop, NEED_GREETING | NEED_TEMPLATE},
    [LAUNCHER_BOX] = {handle_box, NEED_GREETING | NEED_RUNNING},
    [LAUNCHER_RUN] = {handle_run, NEED_GREETING},
    [LAUNCHER_USAGE] = {handle_usage, NEED_GREETING},
    [LAUNCHER_FINISH] = {handle_finish, NEED_GREETING},
    [LAUNCHER_RELEASE] = {handle_release, NEED_GREETING},
    [LAUNCHER_KILL] = {handle_kill, NEED_GREETING},
    [LAUNCHER_KEEP] = {handle_keep, NEED_GREETING},
    [LAUNCHER_DROP] = {handle_keep, NEED_GREETING},
    [LAUNCHER_ADOPT] = {handle_adopt, NEED_GREETING},
};

/* A template may have died a moment ago: then the client could not know, and gets an error. */
static bool template_fits(struct launcher *l, const struct launcher_req *req, unsigned needs)
{
    const struct template *t = template_at(l, req->template_id);

    if ((needs & NEED_BUILDING) != 0) {
        return t != NULL && t->state == TEMPLATE_BUILDING;
    }
    if ((needs & NEED_RUNNING) != 0) {
        return t != NULL && t->state == TEMPLATE_RUNNING;
    }
    return (needs & NEED_TEMPLATE) == 0 || t != NULL;
}

bool permit_handle(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds)
{
    unsigned needs = permits[req->op].needs;
    struct err e = {0};

    if (((needs & NEED_GREETING) != 0 && !l->greeted) ||
        ((needs & NEED_NO_GREETING) != 0 && l->greeted)) {
        return false;
    }
    if (!template_fits(l, req, needs)) {
        err_set(&e, ERR_NOT_FOUND, "template %u is not there or not ready", req->template_id);
        reply_error(l, req->seq, req->template_id, &e);
        return true;
    }
    if (permits[req->op].handle(l, req, fds, &e) < 0) {
        reply_error(l, req->seq, req->template_id, &e);
    }
    return true;
}
