/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The permit table: every request that exists, which side may send it, what must be true for it,
 * its handler, and why it has to exist.
 *
 * What is not in the table does not exist. A request at the wrong time, from the wrong side or with
 * the wrong shape closes the connection; a request that merely cannot be done gets an error.
 *
 * The operator decides what runs: it is the supervisor of a supervised launcher, else the client,
 * which then runs as the user that started the launcher.
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

enum side { CLIENT = 1 << 0, OPERATOR = 1 << 1 };

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

/* Answers for a part of a template. A supervisor does not wait for each: START is answered. */
static void acknowledge(struct launcher *l, const struct launcher_req *req)
{
    if (!l->supervised) {
        reply_ok(l, req);
    }
}

static int handle_mount(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                        struct err *e)
{
    if (template_mount(l, req, fds->fds[0], e) < 0) {
        return -1;
    }
    acknowledge(l, req);
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
    acknowledge(l, req);
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
    acknowledge(l, req);
    return 0;
}

static int handle_start(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                        struct err *e)
{
    (void)fds;
    uint32_t seq = l->supervised ? template_at(l, req->template_id)->start_seq : req->seq;

    if (template_start(l, req->template_id, seq, &req->start, e) < 0) {
        if (!l->supervised) { /* else permit_operator() does it */
            template_stop(l, req->template_id);
        }
        return -1;
    }
    return 0; /* answered when the zygote is ready */
}

static int handle_ask(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                      struct err *e)
{
    (void)fds;
    if (!l->supervised) {
        return err_set(e, ERR_INVALID,
                       "this launcher has no supervisor to ask: fill the template and START");
    }
    if (operator_ask(l, req->template_id, req->seq, e) < 0) {
        template_stop(l, req->template_id);
        return -1;
    }
    return 0; /* answered when the zygote is ready */
}

static int handle_fail(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                       struct err *e)
{
    (void)l;
    (void)fds;
    *e = req->fail;
    return -1;
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

    if (r == 0) {
        fd_set_release(fds); /* the client's pipes and socketpair: the box has them now */
    }
    if (r < 0 && e->code == ERR_NOT_FOUND) {
        template_died(l, req->template_id); /* its GONE event precedes this answer */
    }
    return r;
}

/* The box may have ended while the request was on its way: then its EXIT event is enough. */
static int handle_deadline(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                           struct err *e)
{
    struct box_entry *box = box_at(l, req->box_id);

    (void)fds;
    (void)e;
    if (box != NULL && box->silent) {
        return 0; /* dismissed */
    }
    if (box != NULL && box->is_session) {
        (void)inspect_sample(l, box); /* stops PID 1 only, which is husk's, not a program */
    }
    if (box != NULL && req->deadline.ms != 0) {
        box_arm(l, box, req->deadline.ms);
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
    if (req->box_id == LAUNCHER_ALL_BOXES) {
        usage_report_all(l, req);
        return 0;
    }
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
        keep_drop_all(l, box);
        box_dismiss(l, box);
        return 0;
    }
    box = &l->boxes[req->box_id % BOXES_MAX];
    if (box->id != req->box_id) {
        return 0;
    }
    if (box->state == BOX_DEAD) {
        box_forget(l, box);
    } else if (box->state == BOX_ENDING || box->state == BOX_LINGERING) {
        keep_drop_all(l, box); /* no client waits for its end any more */
        box->silent = true;
    }
    return 0;
}

static int handle_keep(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                       struct err *e)
{
    struct box_entry *box = box_at(l, req->box_id);

    if (req->op == LAUNCHER_KEEP && ends_check_kept(fds, e) < 0) {
        return -1;
    }
    if (box != NULL && req->op == LAUNCHER_DROP) {
        keep_drop(l, box, req->keep.slot);
    } else if (box != NULL) {
        /* No answer: what cannot be kept comes back to the successor without descriptors. */
        struct err lost;
        (void)keep_put(l, box, req, fds, &lost);
    }
    return 0;
}

static int handle_freeze(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                         struct err *e)
{
    struct box_entry *box = box_at(l, req->box_id);

    (void)fds;
    if (box == NULL) {
        return err_set(e, ERR_NOT_FOUND, "box %u has ended", req->box_id);
    }
    if (box_freeze(box, (enum launcher_freeze)req->freeze.how, e) < 0) {
        return -1;
    }
    reply_ok(l, req);
    return 0;
}

static int handle_adopt(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                        struct err *e)
{
    struct launcher_rep rep = {.event = LAUNCHER_EV_OK, .seq = req->seq};

    (void)fds;
    (void)e;
    if (!l->was_adopted) {
        l->first_epoch = req->adopt.epoch;
        l->was_adopted = true;
    }
    keep_adopt(l);
    rep.adopted.epoch = l->first_epoch;
    reply(l, &rep);
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

static const struct permit {
    int (*handle)(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds,
                  struct err *e);
    unsigned from;
    unsigned needs;
} permits[LAUNCHER_OPS] = {
    /* Both sides must speak the same protocol, and a client states the isolation it needs. */
    [LAUNCHER_HELLO] = {handle_hello, CLIENT, NEED_NO_GREETING},
    /* Names a definition; ids and a slot are reserved, nothing runs yet. */
    [LAUNCHER_TEMPLATE] = {handle_template, CLIENT, NEED_GREETING},
    /* What boxes see is lent by descriptor: only a process that can open it can lend it. */
    [LAUNCHER_MOUNT] = {handle_mount, OPERATOR, NEED_GREETING | NEED_BUILDING},
    /* A root is unusable without the links that its distribution has (/lib, /bin). */
    [LAUNCHER_LINK] = {handle_link, OPERATOR, NEED_GREETING | NEED_BUILDING},
    /* The program that runs as zygote, and the modules that it imports. */
    [LAUNCHER_ARG] = {handle_text, OPERATOR, NEED_GREETING | NEED_BUILDING},
    /* Variables can make an interpreter run code, so they need the same rights as the program. */
    [LAUNCHER_ENV] = {handle_text, OPERATOR, NEED_GREETING | NEED_BUILDING},
    /* Chooses the filter, the zygote's limits and the bounds of its boxes. */
    [LAUNCHER_START] = {handle_start, OPERATOR, NEED_GREETING | NEED_BUILDING},
    /* The client of a supervised launcher cannot START: it asks the operator to. */
    [LAUNCHER_ASK] = {handle_ask, CLIENT, NEED_GREETING | NEED_BUILDING},
    /* An operator that has no such definition reports it. */
    [LAUNCHER_FAIL] = {handle_fail, OPERATOR, NEED_GREETING | NEED_BUILDING},
    /* Frees the memory of a template that changed or is not used any more. */
    [LAUNCHER_STOP] = {handle_stop, CLIENT, NEED_GREETING | NEED_TEMPLATE},
    /* Starts a box. Limits are within the operator's bounds. */
    [LAUNCHER_BOX] = {handle_box, CLIENT, NEED_GREETING | NEED_RUNNING},
    /* A parked box has no deadline until its run begins. */
    [LAUNCHER_DEADLINE] = {handle_deadline, CLIENT, NEED_GREETING},
    /* Counters of a running box: only the launcher can read some of them. */
    [LAUNCHER_USAGE] = {handle_usage, CLIENT, NEED_GREETING},
    /* The last counters and the end in one step, or a box could run on in between. */
    [LAUNCHER_FINISH] = {handle_finish, CLIENT, NEED_GREETING},
    /* The same for clients that have read the counters themselves. */
    [LAUNCHER_RELEASE] = {handle_release, CLIENT, NEED_GREETING},
    /* Cancellation: a client may end its own boxes at any time. */
    [LAUNCHER_KILL] = {handle_kill, CLIENT, NEED_GREETING},
    /* An idle session costs memory only; its cgroup is the launcher's. */
    [LAUNCHER_FREEZE] = {handle_freeze, CLIENT, NEED_GREETING},
    /* Sessions outlive a killed daemon: their descriptors are kept here. */
    [LAUNCHER_KEEP] = {handle_keep, CLIENT, NEED_GREETING},
    /* Closes kept descriptors, which would run out otherwise. */
    [LAUNCHER_DROP] = {handle_keep, CLIENT, NEED_GREETING},
    /* A client takes over what was kept for its predecessor. */
    [LAUNCHER_ADOPT] = {handle_adopt, CLIENT, NEED_GREETING},
};

/* A template may have died a moment ago: the client could not know, so it gets an error. */
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

bool permit_client(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds)
{
    const struct permit *permit = &permits[req->op];
    unsigned side = l->supervised ? CLIENT : CLIENT | OPERATOR;
    struct err e = {0};

    if ((permit->from & side) == 0 || ((permit->needs & NEED_GREETING) != 0 && !l->greeted) ||
        ((permit->needs & NEED_NO_GREETING) != 0 && l->greeted)) {
        return false;
    }
    if (!template_fits(l, req, permit->needs)) {
        err_set(&e, ERR_NOT_FOUND, "template %u does not exist or is not ready", req->template_id);
        reply_error(l, req->seq, req->template_id, &e);
        return true;
    }
    if (permit->handle(l, req, fds, &e) < 0) {
        reply_error(l, req->seq, req->template_id, &e);
    }
    return true;
}

/*
 * The client may have disconnected or stopped the template since the supervisor was asked, and the
 * slot may hold another template: the ticket tells them apart.
 */
void permit_operator(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds)
{
    const struct permit *permit = &permits[req->op];
    const struct template *t = template_at(l, req->template_id);
    struct err e = {0};

    if ((permit->from & OPERATOR) == 0 || t == NULL || t->ticket == 0 || t->ticket != req->seq ||
        !template_fits(l, req, permit->needs)) {
        return;
    }
    if (permit->handle(l, req, fds, &e) < 0) {
        template_refuse(l, req->template_id, &e);
    }
}
