/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's inside, private to core/: the launcher connection, templates whose zygotes run, and
 * every box that we hold an end of. The other layers see core.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fiber.h"
#include "core/budget.h"
#include "core/channel.h"
#include "core/core.h"
#include "wire/frame.h"

#define FATES_KEPT 16

struct guest;

/*
 * Boxes of a template that wait for their one use, in a one-shot run or as a notebook, all with the
 * same limits. A pool whose size follows demand (`adaptive`) comes and goes by itself.
 */
struct pool {
    struct pool *next;
    enum launcher_mode mode;
    bool adaptive;
    bool kept;      /* stays without demand, */
    uint32_t floor; /* and does not get smaller than this */
    struct limits limits;
    uint32_t min; /* refilled up to here */
    uint32_t max;
    struct guest *parked; /* ready and warm, most recently parked first */
    struct guest *cool;   /* ready as well, taken when no warm one is left */
    struct guest *starting;
    uint32_t warm; /* in these lists and not cool */
    bool was_full; /* since it was last made larger */
    struct husk_pool_stats stats;
    struct err refusal; /* why the last one was not born */
    uint64_t retry_ms;  /* not refilled before */
    bool busy;          /* being refilled */
    uint64_t seen;      /* pool_demand.c: takes that it knows of, */
    uint64_t quiet;     /* and rounds without any */
};

/* A template whose zygote runs (or will when the first box is asked for). */
struct live_template {
    struct live_template *next;
    char name[64];
    bool preload;                   /* with its preloads; one-shot programs do without */
    bool one_off;                   /* has mounts of one run: closed after it */
    bool open;                      /* the zygote runs */
    bool retired;                   /* it was replaced: goes with its last box */
    bool apart;                     /* is to replace another one, and not ready for that yet */
    bool being_replaced;            /* by one that is apart */
    uint64_t opened_ms;             /* when its zygote became ready */
    uint64_t made;                  /* boxes, of that zygote */
    char note[400];                 /* preloads that its boxes do without, and why */
    struct err failed;              /* why its zygote did not start the last time, */
    uint64_t failed_ms;             /* and when */
    uint64_t refused;               /* a changed definition that did not start */
    bool file_broken;               /* that was reported */
    struct err condemned;           /* why the launcher will not have it any more; ERR_NONE */
    bool starting_up;               /* a fiber is starting it */
    uint32_t users;                 /* fibers that make a box of it: it must not go away */
    struct fiber_queue start_queue; /* fibers that wait for that, or for its end */
    uint32_t id;                    /* the launcher's number for it */
    struct template_def def;

    struct pool *pools;
    uint32_t boxes_asked; /* most boxes at a time, beyond what the pools need; 0: a few */
    uint32_t boxes_most;  /* that the running zygote was started for */
};

enum guest_state { GUEST_STARTING, GUEST_READY, GUEST_BROKEN };

/* A fiber that waits for news of a box. */
struct guest_waiter {
    struct guest_waiter *next;
    struct fiber *fiber;
};

/* Our end of one box. Owned by its pool, run or notebook; listed in the engine for events. */
struct guest {
    struct guest *next; /* in a pool list */
    struct engine *engine;
    struct live_template *live;
    char used_by[KEEP_TAG_MAX]; /* the tag of its notebook or run; "": none */
    bool was_pooled;            /* it was made for a pool */
    struct pool *pool;          /* that it was made for, or waits in; NULL once it is used */
    bool in_pool;               /* one of the pool's lists has it */
    bool cool;                  /* does not have the memory yet that a first run needs */
    uint32_t box_id;
    enum guest_state state;
    struct channel control;
    struct budget_share share; /* of what is held for it: frames, and results of its runs */
    uint32_t runs;             /* and cells that are being driven */
    int in;                    /* -1 once closed */
    int out;
    int err;
    struct limits limits;
    int64_t created_ms;
    struct launcher_facts facts;
    struct usage_view view;     /* how to read its counters, and */
    struct fd_set_msg counters; /* their descriptors */
    char failure[400];          /* GUEST_BROKEN: why */
    bool claimed;               /* adopted: a notebook has it */
    bool release_later;         /* the releaser fiber releases it */
    bool has_contexts;          /* of a notebook: its PID 1 is listened to */
    bool is_silent;             /* and says no more */
    bool exited;                /* the launcher said so */
    int wait_status;
    enum launcher_end end;
    struct launcher_usage usage;
    uint64_t peak_before; /* of memory, before it was last reset: cells have peaks of their own */
    struct err refusal;   /* why it was not born, if it was not */
    struct guest_waiter *waiters;
    struct {
        uint32_t pid;
        int status;
    } fates[FATES_KEPT];          /* contexts that ended and whose user has not asked yet */
    uint64_t swept;               /* number of the last sweep that PID 1 has said is done */
    uint64_t awaited;             /* number of a signal whose answer the next cell waits for */
    struct interrupt *interrupts; /* that wait for PID 1's word; borrowed */
    uint32_t sweeping;            /* how many are being waited for */
    uint32_t branching;           /* copies of contexts that PID 1 does not know of yet */
    size_t next_fate;
};

struct engine {
    struct backend *backend;
    char operator_dir[512];    /* templates of the operator, */
    char client_dir[512];      /* and of a server's clients; "": none */
    struct template_dirs dirs; /* both */
    struct live_template *templates;
    struct guest *guests[ENGINE_BOXES_MAX];
    int epoll;          /* back end, control sockets of starting boxes and of notebooks */
    struct fiber *pump; /* takes launcher events where fibers wait for them */
    bool lost;          /* the launcher is gone */
    bool closing;
    bool attached;             /* the launcher is not ours to end */
    size_t looked;             /* the first of those whose definitions were last compared */
    struct fiber *pool_keeper; /* refills pools where fibers take from them */
    struct fiber_queue parked; /* fibers that wait until a pool has one box more */
    struct guest *retired;     /* results are known, boxes are not released yet */
    struct fiber *releaser;    /* releases them */
    uint32_t boxes;            /* that a template may need at a time; 0: a few */
    uint32_t adaptive_max;     /* > 0: a box that no pool has makes one of at most so many */
    struct budget budget;      /* of what is held for all boxes */
    uint64_t births_failed;    /* boxes that were asked for and never ready */
};

/* engine.c, engine_adopt.c */
/* Takes all pending launcher events. */
int engine_dispatch(struct engine *engine, struct err *e);
/* Waits for any of them and serves pools. */
int engine_wait(struct engine *engine, int timeout_ms, struct err *e);
/* One event of the back end: wakes the fibers that wait for news of that box. */
void engine_on_event(struct engine *engine, const struct backend_event *event);
/*
 * Waits until one of fds is ready, there is news of the box (it became ready, it ended) or time is
 * up. Serves everything else meanwhile. -1: the launcher is gone.
 */
int engine_poll(struct engine *engine, struct guest *g, struct pollfd *fds, size_t n,
                int64_t timeout_ms, struct err *e);

struct husk_limits engine_limits_export(const struct limits *from);
/* What was asked for, completed by a template's own limits and the defaults; checked. */
int engine_limits(const struct husk_limits *asked, const struct husk_limits *preset,
                  struct limits *ret, struct err *e);

/* live.c: opens templates. */
struct live_template *live_get(struct engine *engine, const char *name, bool preload,
                               struct err *e);
/* Which definition its zygote is made from, for a successor of this process. */
uint64_t live_definition(const struct live_template *live);
/* For boxes whose definition is no more in force, of a zygote that runs. NULL: out of memory. */
struct live_template *live_retired(struct engine *engine, const char *name);
/*
 * One more of the same name, from the definition that is in force now, apart. NULL and *e on
 * failure.
 */
struct live_template *live_successor(struct engine *engine, const struct live_template *live,
                                     struct err *e);
struct live_template *live_one_off(struct engine *engine, const char *name, bool preload,
                                   const struct husk_mount *mounts, size_t n, struct err *e);
/* Reads its definition again: one that was corrected may be started. Not while it runs. */
int live_refresh(struct engine *engine, struct live_template *live, struct err *e);
/* Starts its zygote, unless it runs. One that just failed and has not changed fails again. */
int live_start(struct engine *engine, struct live_template *live, const struct husk_mount *mounts,
               size_t n, struct err *e);
uint32_t live_boxes(const struct live_template *live); /* how many it should be able to have */
/* It can be started again. */
int live_stop(struct engine *engine, struct live_template *live, struct err *e);
void live_close(struct engine *engine, struct live_template *live);

/* guest.c */
struct guest_options {
    struct limits limits;
    enum launcher_mode mode;
    enum launcher_warmth warmth;
    uint64_t deadline_ms; /* 0: parked */
    struct pool *pool;    /* that it is made for, or NULL */
};
/* Of a template whose zygote runs. ERR_NOT_FOUND: it has died. */
struct guest *guest_make(struct engine *engine, struct live_template *live,
                         const struct guest_options *options, struct err *e);
/* Waits for its end, some seconds. One that stays is killed when it is freed. */
int guest_await_exit(struct engine *engine, struct guest *g, struct err *e);
/* One that an earlier client left: all but its sockets and pipes is there. NULL: no memory. */
struct guest *guest_adopt(struct engine *engine, struct live_template *live,
                          struct backend_birth *birth);
/* Kills the box if it lives. NULL is fine. */
void guest_free(struct engine *engine, struct guest *g);

/* Its share of the engine's budget, by g->limits. */
void guest_open_share(struct guest *g);
uint64_t guest_name(const struct guest *g); /* engine_box.id */
void guest_wake(struct guest *g);           /* wakes the fibers that wait for news of it */

/* The back end ends it: no event of it matters any more. */
void guest_forget(struct engine *engine, const struct guest *g);
void guest_serve_start(struct guest *g); /* READY or FAILED of a starting box */
/* From now on its user reads its control socket. */
void guest_unwatch(struct engine *engine, struct guest *g);
/* From now on what its PID 1 says is taken when it comes (context_hear()). */
int guest_listen(struct engine *engine, struct guest *g, struct err *e);
void guest_kill(struct engine *engine, const struct guest *g); /* its end follows */
/* What it has used, where view.n > 0: no process has to be asked. */
void guest_counters(const struct guest *g, struct launcher_usage *ret);
/*
 * What it has used, from the counters themselves where we have them; the launcher is asked for the
 * disk, and where there are none. Of one that has just ended *ret stays as it is.
 */
int guest_usage(struct engine *engine, const struct guest *g, bool want_disk,
                struct launcher_usage *ret, struct err *e);
/* Fills g->usage; the box goes away. */
int guest_finish(struct engine *engine, struct guest *g, bool want_disk, struct err *e);

/* guest_birth.c */
#define GUEST_UNBORN 1
struct guest_use {
    struct guest *parked; /* used first, if there is one */
    /* Takes the guest, unless it returns GUEST_UNBORN: it was lost before it ran anything. */
    int (*fn)(void *user, struct guest *g, struct err *e);
    void *user;
};
/* Has a guest used, and another one if it is lost with its zygote. Starts zygotes. Waits. */
int guest_with(struct engine *engine, struct live_template *live,
               const struct guest_options *options, const struct guest_use *use, struct err *e);
/* A guest as it is, perhaps not ready yet. */
struct guest *guest_start(struct engine *engine, struct live_template *live,
                          const struct guest_options *options, struct err *e);
/* It has ended with its zygote; the caller knows that it was not ready. */
bool guest_is_unborn(const struct guest *g);

/* retire.c: where fibers run, an answer leaves before its box is taken apart. */
int retire_serve(struct engine *engine, struct err *e);    /* from now on */
void guest_retire(struct engine *engine, struct guest *g); /* like guest_free(), but later */

/* pool.c */
/* NULL: none is parked that fits. */
struct guest *pool_take(struct engine *engine, struct live_template *live, enum launcher_mode mode,
                        const struct limits *limits);
int pool_refill(struct engine *engine, struct live_template *live, struct pool *pool,
                struct err *e);
/* After one was taken: refills now, or has the keeper do it. */
void pool_taken(struct engine *engine, struct live_template *live);
void pool_serve(struct engine *engine); /* moves starting boxes that became ready */
void pool_clear(struct engine *engine, struct pool *pool);
/* Takes one off its template's list and frees it, boxes and all. */
void pool_remove(struct engine *engine, struct live_template *live, struct pool *pool);
/* Most boxes that the pools of a template may hold. */
uint32_t pool_most(const struct live_template *live);
void pool_lost(struct engine *engine, struct guest *g); /* a parked or starting box ended */
/*
 * A pool beside the template's fixed one, whose size its owner changes as demand does. It is there
 * after the first call. NULL: no memory.
 */
struct pool *pool_adaptive(struct live_template *live, enum launcher_mode mode,
                           const struct limits *limits, uint32_t min, uint32_t max);
void pool_trim(struct engine *engine, struct pool *pool); /* parked ones beyond min go */
/* From now on a fiber refills all pools. */
int pool_keep(struct engine *engine, struct err *e);
