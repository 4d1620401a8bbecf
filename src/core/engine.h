/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's inside, shared by the files of core/: the launcher connection, templates whose zygotes run,
 * and every box that we hold an end of. The outside is include/husk/husk.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/native.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/channel.h"
#include "core/template.h"
#include "husk/husk.h"
#include "wire/frame.h"

#define ENGINE_BOXES_MAX 4096 /* the launcher's own bound: box ids modulo this are unique */

struct guest;

/* A template whose zygote runs (or will when the first box is asked for). */
struct live_template {
    struct live_template *next;
    char name[64];
    bool preload; /* with its preloads; one-shot programs do without */
    bool one_off; /* has mounts of one run: closed after it */
    bool open;    /* the zygote runs */
    uint32_t id;  /* the launcher's number for it */
    struct template_def def;

    bool pooled;
    struct limits pool_limits;
    uint32_t pool_min;
    uint32_t pool_max;
    struct guest *parked; /* ready, most recently parked first */
    struct guest *starting;
    struct husk_pool_stats stats;
};

enum guest_state { GUEST_STARTING, GUEST_READY, GUEST_BROKEN };

/* Our end of one box. Owned by whoever holds the pointer; listed in the engine for events. */
struct guest {
    struct guest *next; /* in a pool list */
    struct live_template *live;
    uint32_t box_id;
    enum guest_state state;
    struct channel control;
    int in; /* -1 once closed */
    int out;
    int err;
    struct limits limits;
    struct launcher_facts facts;
    struct usage_view view;     /* how to read its counters, and */
    struct fd_set_msg counters; /* their descriptors */
    char failure[400];          /* GUEST_BROKEN: why */
    bool exited;                /* the launcher said so */
    int wait_status;
    enum launcher_end end;
    struct launcher_usage usage;
};

struct husk_engine {
    struct native *native;
    char template_dir[512];
    struct live_template *templates;
    struct guest *guests[ENGINE_BOXES_MAX];
    int epoll;          /* launcher socket and control sockets of starting boxes */
    struct err refusal; /* the last error that was no answer: why a box was not born */
};

/* engine.c */
int engine_dispatch(struct husk_engine *engine,
                    struct err *e); /* takes all pending launcher events */
int engine_wait(struct husk_engine *engine, int timeout_ms,
                struct err *e); /* waits for any, serves pools */
void engine_error_export(const struct err *e, struct husk_error *ret);
int engine_limits(const struct husk_limits *asked, const struct husk_limits *preset,
                  struct limits *ret, struct err *e);

/* live.c: opens templates. */
struct live_template *live_get(struct husk_engine *engine, const char *name, bool preload,
                               struct err *e);
struct live_template *live_one_off(struct husk_engine *engine, const char *name, bool preload,
                                   const struct husk_mount *mounts, size_t n, struct err *e);
int live_start(struct husk_engine *engine, struct live_template *live,
               const struct husk_mount *mounts, size_t n, struct err *e);
int live_stop(struct husk_engine *engine, struct live_template *live,
              struct err *e); /* can be started again */
void live_close(struct husk_engine *engine, struct live_template *live);

/* guest.c */
struct guest_options {
    struct limits limits;
    enum launcher_mode mode;
    bool warm;
    uint64_t deadline_ms; /* 0: parked */
};
struct guest *guest_new(struct husk_engine *engine, struct live_template *live,
                        const struct guest_options *options, struct err *e);
/* The same, with a zygote started first if none runs. */
struct guest *guest_start(struct husk_engine *engine, struct live_template *live,
                          const struct guest_options *options, struct err *e);
void guest_free(struct husk_engine *engine,
                struct guest *g); /* kills the box if it lives; NULL is fine */

void guest_serve_start(struct guest *g); /* READY or FAILED of a starting box */
void guest_unwatch(struct husk_engine *engine,
                   struct guest *g); /* from now on its user reads its control socket */
int guest_finish(struct husk_engine *engine, struct guest *g, bool want_disk,
                 struct err *e); /* fills usage; box goes away */

/* pool.c */
struct guest *pool_take(struct husk_engine *engine, struct live_template *live,
                        const struct limits *limits); /* NULL: none parked that fits */
int pool_refill(struct husk_engine *engine, struct live_template *live, struct err *e);
void pool_serve(struct husk_engine *engine); /* moves starting boxes that became ready */
void pool_clear(struct husk_engine *engine, struct live_template *live);
void pool_lost(struct husk_engine *engine, struct guest *g); /* a parked or starting box ended */
