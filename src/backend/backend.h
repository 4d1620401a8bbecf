/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Back ends: what puts walls around guests.
 *
 * A guest is anything that speaks our frames (wire/frame.h) over a control channel and has three
 * pipes; pools, notebooks and runs above do not know which walls it stands behind. A back end is a
 * table of functions; callers use the plain functions below. What a back end reports about a guest
 * (facts, usage, how it ended) comes from outside the guest, in the launcher's words: those that it
 * cannot know stay zero, or UINT64_MAX where the field says so.
 *
 * Calls that wait let other fibers run. In a fiber the answers are read by the caller of
 * backend_next(), which must be called whenever backend_fd() is readable.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fd.h"
#include "wire/launcher_msg.h"

enum { BACKEND_CONTROL, BACKEND_STDIN, BACKEND_STDOUT, BACKEND_STDERR, BACKEND_ENDS };

/* Takes one part of a template's description: a mount, link, argument or variable, or the start. */
typedef int backend_put(void *to, struct launcher_req *part, const int *fd, struct err *e);

struct backend_template {
    const char *name;
    const char *base;    /* the operator's definition that it is made from */
    uint64_t modules;    /* of those that the definition offers: also imported */
    uint64_t definition; /* its fingerprint, for a successor of this process */
    uint32_t boxes;      /* most guests at a time */
    bool preload;        /* the definition's own modules are imported */
    /* Describes it, part by part. NULL: the operator does, on the back end's side. */
    int (*describe)(void *user, backend_put *put, void *to, struct err *e);
    void *user;
};

struct backend_opened {
    uint32_t id;
    char note[400]; /* which preloads its guests do without, and why; "": none */
};

struct backend_guest {
    uint32_t template_id;
    struct limits limits;
    enum launcher_mode mode;
    enum launcher_warmth warmth;
    uint64_t deadline_ms; /* from now; 0: parked, backend_arm() will say */
};

/* A new guest, or one that an earlier process left. The taker moves the descriptors it wants. */
struct backend_birth {
    uint32_t id;
    const struct launcher_facts *facts;
    const struct usage_view *view; /* what the counters are; view->n == 0: usage is asked for */
    struct fd_set_msg *counters;
    int ends[BACKEND_ENDS]; /* ours; -1 for a guest that was left: they come as what was kept */
};

enum backend_event_kind {
    BACKEND_ENDED,          /* a guest did */
    BACKEND_REFUSED,        /* why a guest was not born; its end follows */
    BACKEND_TEMPLATE_ENDED, /* and its guests with it; err: why it may not be opened again */
};

struct backend_event {
    enum backend_event_kind kind;
    uint32_t id;
    struct err err;
    /* BACKEND_ENDED */
    int wait_status;
    enum launcher_end end;
    struct launcher_usage usage;
};

/* Descriptors of a guest, held for the next process, with a note that comes back as it is. */
struct backend_kept {
    uint32_t slot; /* below LAUNCHER_KEEP_SLOTS; what is there is replaced */
    uint8_t note[LAUNCHER_NOTE_MAX];
    const int *fds; /* borrowed */
    size_t n;       /* 0: lets go of what is there */
};

/* A template that an earlier process opened and that still runs. */
struct backend_left {
    uint32_t id;
    const char *name;
    uint32_t boxes;
    uint64_t definition;
    uint64_t age_ms;
    uint64_t made; /* guests */
    const char *note;
};

/* Takes what an earlier process left, templates before guests before what is kept of them. */
struct backend_heir {
    void (*on_template)(void *user, const struct backend_left *left);
    void (*on_guest)(void *user, uint32_t template_id, struct backend_birth *birth);
    /* Also of guests that are gone with their template: on_guest was not called for them. */
    void (*on_kept)(void *user, uint32_t guest, uint32_t slot, const uint8_t *note,
                    struct fd_set_msg *fds);
    void (*on_event)(void *user, const struct backend_event *event);
    void *user;
    uint64_t epoch; /* the caller's count of its starts */
    /*
     * Set: that of the first heir. What processes of that epoch or a later one kept and did not let
     * go of comes back here.
     */
    uint64_t first_epoch;
};

struct backend;

struct backend_ops {
    const char *name; /* in receipts */
    void (*hang_up)(struct backend *b);
    void (*close)(struct backend *b);
    int (*fd)(const struct backend *b);
    bool (*has_event)(const struct backend *b);
    int (*next)(struct backend *b, struct backend_event *ret, struct err *e);
    const struct launcher_facts *(*facts)(const struct backend *b);
    int (*open_template)(struct backend *b, const struct backend_template *t,
                         struct backend_opened *ret, struct err *e);
    int (*close_template)(struct backend *b, uint32_t id, struct err *e);
    int (*make_guest)(struct backend *b, const struct backend_guest *spec,
                      void (*born)(void *user, struct backend_birth *birth), void *user,
                      struct err *e);
    int (*adopt)(struct backend *b, struct backend_heir *heir, struct err *e);
    int (*arm)(struct backend *b, uint32_t guest, uint64_t deadline_ms, struct err *e);
    int (*usage)(struct backend *b, uint32_t guest, bool want_disk, struct launcher_usage *ret,
                 struct err *e);
    int (*finish)(struct backend *b, uint32_t guest, bool want_disk, struct launcher_usage *ret,
                  struct err *e);
    int (*kill)(struct backend *b, uint32_t guest, struct err *e);
    int (*release)(struct backend *b, uint32_t guest, struct err *e);
    int (*freeze)(struct backend *b, uint32_t guest, enum launcher_freeze how, struct err *e);
    int (*keep)(struct backend *b, uint32_t guest, const struct backend_kept *what, struct err *e);
};

/* The first member of every back end's own struct. */
struct backend {
    const struct backend_ops *ops;
};

const char *backend_name(const struct backend *b);
void backend_hang_up(struct backend *b); /* says nothing more: every later call fails */
void backend_close(struct backend *b);   /* ends every guest that is not kept; NULL is fine */

int backend_fd(const struct backend *b); /* readable when backend_next() may have something */
bool backend_has_event(const struct backend *b); /* something was set aside: no need to poll */
/* The next event: 1; nothing there: 0; -1 when the back end is gone. Does not wait. */
int backend_next(struct backend *b, struct backend_event *ret, struct err *e);

/* What is enforced here, the same for every guest but for what belongs to one guest. */
const struct launcher_facts *backend_facts(const struct backend *b);

/* Makes a template ready to have guests. Waits. */
int backend_open_template(struct backend *b, const struct backend_template *t,
                          struct backend_opened *ret, struct err *e);
int backend_close_template(struct backend *b, uint32_t id,
                           struct err *e); /* ends its guests; waits */

/*
 * `born` is called before any event of the guest can be seen. ERR_NOT_FOUND: the template has
 * ended, and the news of it is on its way. Waits.
 */
int backend_make_guest(struct backend *b, const struct backend_guest *spec,
                       void (*born)(void *user, struct backend_birth *birth), void *user,
                       struct err *e);

/* Blocks, so only before there are fibers. */
int backend_adopt(struct backend *b, struct backend_heir *heir, struct err *e);

/* A parked guest begins its run. Does not wait. */
int backend_arm(struct backend *b, uint32_t guest, uint64_t deadline_ms, struct err *e);
/* ERR_NOT_FOUND: it has ended, and the news of it is on its way. Waits. */
int backend_usage(struct backend *b, uint32_t guest, bool want_disk, struct launcher_usage *ret,
                  struct err *e);
/* The same, and tears it down: no event follows. */
int backend_finish(struct backend *b, uint32_t guest, bool want_disk, struct launcher_usage *ret,
                   struct err *e);
void backend_kill(struct backend *b, uint32_t guest); /* its end follows. Does not wait */
/* Tears it down, and forgets one that was kept: no event follows. Does not wait. */
int backend_release(struct backend *b, uint32_t guest, struct err *e);
/* Stops all of a guest that was prepared, or lets it go on. Waits. */
int backend_freeze(struct backend *b, uint32_t guest, enum launcher_freeze how, struct err *e);
/*
 * Holds descriptors of a guest for the next process. Does not wait: without a back end there is
 * nothing to outlive.
 */
void backend_keep(struct backend *b, uint32_t guest, const struct backend_kept *what);
