/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of a notebook: live interpreters inside one box, each with a control socket of its own.
 *
 * PID 1 of the box (src/runner/pid1.c) forks one when it is sent the far end of a new socket; a
 * context forks a copy of itself the same way. Checkpoints are such copies in which no cells run.
 *
 * What PID 1 says about all of them is taken when it arrives (engine_wait() calls context_hear()),
 * and wakes the fibers that wait for news of the box.
 */
#pragma once

#include "core/engine_impl.h"

struct context {
    bool used;
    bool is_checkpoint;
    enum husk_language language;
    bool is_awaited; /* unused, but about to be made anew */
    bool is_own;     /* of one cell, with which it ends */
    bool has_part;   /* of a request: without the rest it takes whatever comes for that */
    struct channel channel;
    uint32_t pid;                   /* inside the box, as it says */
    uint8_t cell[FRAME_TOKEN_SIZE]; /* that was sent to it and is not over; else empty */
};

/* Takes everything that PID 1 has sent. Never waits. */
void context_hear(struct guest *box);

/* Has PID 1 send a signal to one; 0: to know that it is there. */
int context_signal(struct guest *box, const struct context *c, int signum, struct err *e);
/*
 * SIGINT for whatever runs in it, without waiting. A cell that is sent right after that could be
 * hit: it waits for PID 1's word first.
 */
void context_interrupt_idly(struct guest *box, const struct context *c);
void context_await_interrupt(struct guest *box);
/*
 * SIGINT for the cell that was sent to it, wherever that is on its way. Waits for PID 1's word:
 * *ret_hit is false if there is none, or it says that the cell was over.
 */
int context_interrupt(struct guest *box, const struct context *c, bool *ret_hit, struct err *e);

/*
 * Has PID 1 fork a pristine one of the language that *c says, which is unused, and waits until it
 * is ready. ERR_CONFLICT: the box does not have that language.
 */
int context_start(struct engine *engine, struct guest *box, struct context *c, struct err *e);
void context_end(struct guest *box, struct context *c); /* kills it; unused is fine */

/*
 * The same from a context: the copy has all its variables. The caller awaits sweeps first, then
 * picks *c, and does not wait in between: another fiber could take the same slot.
 */
void context_await_sweeps(struct guest *box);
int context_branch(struct engine *engine, struct guest *box, struct context *c,
                   struct context *from, struct err *e);

/*
 * Has PID 1 kill what was started since then (clock_ns(); 0: ever) and is still there, but no
 * context and nothing that others of them have started. False: it did not say in time that it has.
 */
bool context_sweep(struct guest *box, const struct context *contexts, size_t n,
                   const struct context *from, uint64_t since_ns);

/* Whether PID 1 has said so by now. What the context forked may hold its socket open for longer. */
bool context_has_ended(const struct guest *box, uint32_t pid);

/* An earlier process may have heard it, and died with it: has PID 1 say so again. */
void context_ask_fate(struct guest *box, uint32_t pid);

/* PID 1's word on how a context ended, waited for a moment. False: it did not say. */
bool context_fate(struct guest *box, uint32_t pid, int *ret_status);
