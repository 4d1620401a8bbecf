/* SPDX-License-Identifier: Apache-2.0 */
/* What a back end does, as requests to husk-launcher; see backend.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "backend/native_impl.h"
#include "base/fault.h"
#include "base/str.h"

static struct native *native_of(struct backend *b)
{
    return (struct native *)b;
}

static const struct native *const_native_of(const struct backend *b)
{
    return (const struct native *)b;
}

/* ---- events ---- */

static int get_fd(const struct backend *b)
{
    return const_native_of(b)->socket;
}

static bool has_event(const struct backend *b)
{
    return const_native_of(b)->count > 0;
}

static const struct launcher_facts *get_facts(const struct backend *b)
{
    return &const_native_of(b)->facts;
}

bool native_translate(const struct launcher_rep *rep, struct backend_event *ret)
{
    switch (rep->event) {
    case LAUNCHER_EV_EXIT:
        *ret = (struct backend_event){.kind = BACKEND_ENDED,
                                      .id = rep->box_id,
                                      .wait_status = rep->box.wait_status,
                                      .end = (enum launcher_end)rep->box.end,
                                      .usage = rep->box.usage};
        return true;
    case LAUNCHER_EV_ERROR: /* one that is no answer tells why a box was not born */
        *ret = (struct backend_event){.kind = BACKEND_REFUSED, .id = rep->box_id, .err = rep->err};
        return true;
    case LAUNCHER_EV_GONE:
        *ret = (struct backend_event){
            .kind = BACKEND_TEMPLATE_ENDED, .id = rep->template_id, .err = rep->err};
        return true;
    default:
        return false;
    }
}

static int next_event(struct backend *b, struct backend_event *ret, struct err *e)
{
    struct launcher_rep rep;
    int r;

    while ((r = native_next(native_of(b), &rep, e)) > 0 && !native_translate(&rep, ret)) {
    }
    return r;
}

/* ---- templates ---- */

static int call_template(struct native *n, enum launcher_op op, uint32_t id, struct err *e)
{
    struct launcher_req req = {.op = op, .template_id = id};
    struct launcher_rep rep;

    return native_call(n, &req, NULL, 0, &rep, e);
}

static void take_note(const struct launcher_rep *rep, struct backend_opened *ret)
{
    if (rep->event == LAUNCHER_EV_OK) {
        (void)str_copy(ret->note, sizeof(ret->note), rep->template.note);
    }
}

static int ask_operator(struct native *n, struct backend_opened *ret, struct err *e)
{
    struct launcher_req req = {.op = LAUNCHER_ASK, .template_id = ret->id};
    struct launcher_rep rep;

    if (native_call(n, &req, NULL, 0, &rep, e) < 0) {
        return -1;
    }
    take_note(&rep, ret);
    return 0;
}

static int begin_template(struct native *n, const struct backend_template *t, uint32_t *ret,
                          struct err *e)
{
    struct launcher_req req = {.op = LAUNCHER_TEMPLATE,
                               .template = {.modules = t->modules,
                                            .preload = t->preload,
                                            .boxes = t->boxes,
                                            .definition = t->definition}};
    struct launcher_rep rep;

    (void)str_copy(req.template.name, sizeof(req.template.name), t->name);
    (void)str_copy(req.template.base, sizeof(req.template.base), t->base);
    if (native_call(n, &req, NULL, 0, &rep, e) < 0) {
        return -1;
    }
    *ret = rep.template_id;
    return 0;
}

struct description {
    struct native *native;
    struct backend_opened *opened;
};

static int put_part(void *to, struct launcher_req *part, const int *fd, struct err *e)
{
    const struct description *d = to;
    struct launcher_rep rep;

    part->template_id = d->opened->id;
    if (native_call(d->native, part, fd, fd != NULL ? 1 : 0, &rep, e) < 0) {
        return -1;
    }
    take_note(&rep, d->opened);
    return 0;
}

static int open_template(struct backend *b, const struct backend_template *t,
                         struct backend_opened *ret, struct err *e)
{
    struct native *n = native_of(b);
    struct backend_opened opened = {0};
    struct description d = {.native = n, .opened = &opened};
    struct err ignored;

    if (begin_template(n, t, &opened.id, e) < 0) {
        return -1;
    }
    FAULT_POINT("zygote.begun");
    FAULT_POINT("zygote.start.before");
    int r =
        t->describe != NULL ? t->describe(t->user, put_part, &d, e) : ask_operator(n, &opened, e);
    FAULT_POINT("zygote.started");
    if (r < 0) { /* the launcher has taken it apart, or does so now */
        (void)call_template(n, LAUNCHER_STOP, opened.id, &ignored);
        return -1;
    }
    *ret = opened;
    return 0;
}

static int close_template(struct backend *b, uint32_t id, struct err *e)
{
    return call_template(native_of(b), LAUNCHER_STOP, id, e);
}

/* ---- guests ---- */

static void close_ends(int ends[BACKEND_ENDS])
{
    for (int i = 0; i < BACKEND_ENDS; i++) {
        fd_close(&ends[i]);
    }
}

static int make_ends(int ours[BACKEND_ENDS], int theirs[BACKEND_ENDS], struct err *e)
{
    int pair[2];

    int r = fd_pair_for_box(pair);
    if (r < 0) {
        return err_sys(e, -r, "control socket");
    }
    ours[BACKEND_CONTROL] = pair[0];
    theirs[BACKEND_CONTROL] = pair[1];
    for (int i = BACKEND_STDIN; i < BACKEND_ENDS; i++) {
        if (pipe2(pair, O_CLOEXEC) < 0) {
            return err_sys(e, errno, "pipe");
        }
        ours[i] = i == BACKEND_STDIN ? pair[1] : pair[0];
        theirs[i] = i == BACKEND_STDIN ? pair[0] : pair[1];
        /* Only our side: the flag sits on the pipe end, and programs expect theirs to block. */
        if (fcntl(ours[i], F_SETFL, O_NONBLOCK) < 0) {
            return err_sys(e, errno, "pipe");
        }
    }
    return 0;
}

struct delivery {
    int ours[BACKEND_ENDS];
    void (*born)(void *user, struct backend_birth *birth);
    void *user;
};

static void on_box(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds)
{
    struct delivery *d = user;
    struct backend_birth birth = {
        .id = rep->box_id, .facts = &rep->facts, .view = &rep->view, .counters = fds};

    memcpy(birth.ends, d->ours, sizeof(birth.ends));
    d->born(d->user, &birth);
    memcpy(d->ours, birth.ends, sizeof(birth.ends));
}

static int make_guest(struct backend *b, const struct backend_guest *spec,
                      void (*born)(void *user, struct backend_birth *birth), void *user,
                      struct err *e)
{
    struct launcher_req req = {
        .op = LAUNCHER_BOX,
        .template_id = spec->template_id,
        .box = {.limits = spec->limits,
                .deadline_ms = spec->deadline_ms,
                .mode = spec->mode,
                .warmth = spec->warmth},
    };
    struct delivery d = {.ours = {-1, -1, -1, -1}, .born = born, .user = user};
    int theirs[BACKEND_ENDS] = {-1, -1, -1, -1};

    int r = make_ends(d.ours, theirs, e);
    FAULT_POINT("box.asked.before");
    if (r == 0) {
        r = native_box(native_of(b), &req, theirs, on_box, &d, e);
    }
    FAULT_POINT("box.born");
    close_ends(theirs);
    close_ends(d.ours);
    return r;
}

static int arm(struct backend *b, uint32_t guest, uint64_t deadline_ms, struct err *e)
{
    struct launcher_req req = {
        .op = LAUNCHER_DEADLINE, .box_id = guest, .deadline.ms = deadline_ms};

    return native_send(native_of(b), &req, NULL, 0, e);
}

static int call_usage(struct backend *b, enum launcher_op op, uint32_t guest, bool want_disk,
                      struct launcher_usage *ret, struct err *e)
{
    struct launcher_req req = {.op = op, .box_id = guest, .usage.disk = want_disk};
    struct launcher_rep rep;

    if (native_call(native_of(b), &req, NULL, 0, &rep, e) < 0) {
        return -1;
    }
    *ret = rep.box.usage;
    return 0;
}

static int get_usage(struct backend *b, uint32_t guest, bool want_disk, struct launcher_usage *ret,
                     struct err *e)
{
    return call_usage(b, LAUNCHER_USAGE, guest, want_disk, ret, e);
}

static int finish(struct backend *b, uint32_t guest, bool want_disk, struct launcher_usage *ret,
                  struct err *e)
{
    return call_usage(b, LAUNCHER_FINISH, guest, want_disk, ret, e);
}

static int send_about(struct backend *b, enum launcher_op op, uint32_t guest, struct err *e)
{
    struct launcher_req req = {.op = op, .box_id = guest};

    return native_send(native_of(b), &req, NULL, 0, e);
}

static int kill_guest(struct backend *b, uint32_t guest, struct err *e)
{
    return send_about(b, LAUNCHER_KILL, guest, e);
}

static int release(struct backend *b, uint32_t guest, struct err *e)
{
    return send_about(b, LAUNCHER_RELEASE, guest, e);
}

static int freeze(struct backend *b, uint32_t guest, enum launcher_freeze how, struct err *e)
{
    struct launcher_req req = {.op = LAUNCHER_FREEZE, .box_id = guest, .freeze.how = how};
    struct launcher_rep rep;

    return native_call(native_of(b), &req, NULL, 0, &rep, e);
}

static int keep(struct backend *b, uint32_t guest, const struct backend_kept *what, struct err *e)
{
    struct launcher_req req = {.op = what->n > 0 ? LAUNCHER_KEEP : LAUNCHER_DROP,
                               .box_id = guest,
                               .keep.slot = what->slot};

    memcpy(req.keep.note, what->note, sizeof(req.keep.note));
    return native_send(native_of(b), &req, what->fds, what->n, e);
}

const struct backend_ops native_ops = {
    .name = "native",
    .hang_up = native_hang_up,
    .close = native_close,
    .fd = get_fd,
    .has_event = has_event,
    .next = next_event,
    .facts = get_facts,
    .open_template = open_template,
    .close_template = close_template,
    .make_guest = make_guest,
    .adopt = native_adopt,
    .arm = arm,
    .usage = get_usage,
    .finish = finish,
    .kill = kill_guest,
    .release = release,
    .freeze = freeze,
    .keep = keep,
};
