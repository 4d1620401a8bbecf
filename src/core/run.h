/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run in one box: hands over the code, gathers output and result, decides what happened.
 * Used by engine_run() for single-use boxes and by notebooks for each cell.
 */
#pragma once

#include "core/engine_impl.h"

/* How far a run is, by what its box has said. The allowed steps are a table in run_conclude.c. */
enum run_phase {
    RUN_STARTING, /* only our own code can be speaking */
    RUN_RUNNING,  /* the box has said READY: user code may be speaking */
    RUN_DONE,     /* it has said how the program ended */
    RUN_FAILED,   /* it could not start the program: `failure` says why */
    RUN_PHASES
};

/* What decides how a run ended. Of several reasons the first in this list counts. */
enum run_verdict {
    RUN_GOES_ON,
    RUN_CANCELLED,
    RUN_FLOODED,        /* more output than allowed */
    RUN_OVER_BUDGET,    /* the box had us hold more than it may, or held the most (budget.h) */
    RUN_UNFINISHED,     /* it began a frame and did not finish it in time */
    RUN_BROKE_PROTOCOL, /* otherwise */
    RUN_TIMED_OUT,      /* a cell, by our clock */
    RUN_BY_CLAIM,       /* exit code and signal, as the box or its PID 1 said */
    RUN_BY_FACTS,       /* the kernel's word on the end of the box */
};

struct run {
    struct engine *engine;
    const struct husk_spec *spec;
    const struct run_hooks *hooks; /* NULL: none */
    struct guest *guest;
    struct limits limits;
    struct channel *channel; /* to the box's first process, or to a context */
    bool channel_lost;       /* closed, or garbage came through it */
    bool in_session;         /* then a lost channel ends the run: the box itself lives on */
    bool adopted;            /* an earlier process sent it, or was about to */
    bool is_unbegun;         /* it was not: its context knows nothing of it */
    uint32_t pid;            /* of that context */
    struct buf request;      /* what of a cell's frame the context has not taken yet */
    /* Called once it has taken all of it, or NULL. */
    void (*on_sent)(void *user);
    void *sent_user;
    int in;
    int out;
    int err;
    uint8_t token[FRAME_TOKEN_SIZE];
    uint64_t started_ns;
    uint64_t read_ms;       /* when output was last read, */
    uint64_t rest_until_ms; /* and until when it is not; 0: it is */
    uint64_t ended_ns;

    /* what came back */
    struct buf out_kept;
    struct buf err_kept;
    uint64_t out_total;
    uint64_t err_total;
    size_t in_done;
    size_t held;     /* bytes of frames that are in the result: charged to the box's share */
    uint32_t losses; /* of that share when the run began */
    struct husk_result *result; /* value, error and files are filled as frames come in */
    enum run_phase phase;
    enum run_verdict stopped; /* why we end it; RUN_GOES_ON: we do not */
    bool replaying;           /* displays that an earlier process had taken */
    char failure[400];        /* RUN_FAILED: why */
    uint32_t exit_code;
    uint32_t signal;
};

/* Builds the RUN frame for a spec. */
int run_frame(const struct husk_spec *spec, const struct limits *limits,
              const uint8_t token[FRAME_TOKEN_SIZE], struct buf *frame, struct err *e);

/* Checks what can be checked before anything is started. */
int run_check(const struct husk_spec *spec, struct err *e);

/* Makes an empty result and the buffers. */
int run_init(struct run *run, struct err *e);
void run_release(struct run *run); /* frees what was not handed over */

/*
 * Sends as much of the request as the context takes now, descriptors (borrowed) with the first
 * byte.
 */
void run_send_request(struct run *run, const int *fds, size_t nfds);

/* Writes what its stdin takes now. */
void run_feed(struct run *run);

/*
 * Drives the run until it is done, the box ended, or wait_ms passed (negative: no limit). 1: over,
 * 0: time is up, -1: the launcher is gone.
 */
int run_drive(struct run *run, int64_t wait_ms, struct err *e);

/* The result is its taker's from now on: nothing of it is charged to the box any more. */
void run_give_back(struct run *run);

/* Takes what is in the pipes now. Bounded: a background process may write for ever. */
void run_drain(struct run *run);

/* What is enforced for a box. */
void run_receipt(const struct guest *g, const struct limits *l, bool warm,
                 struct husk_receipt *ret);

/* Moves to that phase. False: no box that keeps the rules gets there from here. */
bool run_step(struct run *run, enum run_phase to);

/* Has it end for that reason, unless there is one that counts more. */
void run_stop(struct run *run, enum run_verdict why);

/* Turns what is known into run->result: status, cause, output. Takes the buffers. */
void run_conclude(struct run *run, enum run_verdict verdict, double queue_ms, bool warm);
