/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's inside, shared by notebook.c (its life), notebook_cell.c (running in it) and
 * notebook_keep.c (outliving us).
 */
#pragma once

#include "core/context.h"
#include "core/run.h"

#define CONTEXTS_MAX 64

struct husk_session {
    struct husk_engine *engine;
    struct guest *guest;
    struct limits limits;
    struct context contexts[CONTEXTS_MAX];
    /* what a cell without stdin reads: a pipe that nobody writes to. 0: not made yet */
    int no_input;
    bool kept; /* the launcher holds its descriptors for whoever comes after us */
};

struct context *notebook_context(struct husk_session *s, uint32_t id, bool checkpoint,
                                 struct err *e);

/*
 * A context with nothing in it, in the place of one that has ended. If there is no room for its
 * process, whatever it left behind has to go, and what nobody else looks after.
 */
int notebook_replace_context(struct husk_session *s, struct context *c, struct err *e);
/* The same for one that an earlier process left with a part of a request. Others stay. Waits. */
int notebook_mend_context(struct husk_session *s, uint32_t id, struct err *e);

/* A context with nothing in it, beside the others; and its end. Waits. */
int notebook_fresh_context(struct husk_session *s, uint32_t *ret, struct husk_error *e);
void notebook_end_context(struct husk_session *s, uint32_t id);

/*
 * Ends the box if a context that runs no cell, or the first process, has begun a frame and not
 * finished it in time. True: it did.
 */
bool notebook_end_overdue(struct husk_session *s);

/* notebook_cell.c */

/* A cell that runs: everything to go on with it, also in another process. */
struct cell {
    struct husk_session *session;
    struct context *context;
    struct run run;
    int pipes[3]; /* our ends; the first is the run's once it started */
    struct launcher_usage before;
    char tag[33]; /* that it is kept under; "": it is not to be kept */
    bool has_own_context;
};

int cell_start(struct cell *c, struct husk_session *s, uint32_t context,
               const struct husk_spec *spec, struct err *e);
/* Waits for its end; *ret is the result. Then, or instead, cell_release(). */
int cell_finish(struct cell *c, struct husk_result **ret, struct err *e);
void cell_release(struct cell *c);

/* notebook_keep.c: what the launcher holds for us, and how it is taken back. */
#define KEEP_BOX 0      /* slot of the box's own ends */
#define KEEP_CONTEXTS 1 /* and then one for each context */
#define KEEP_CELLS 65   /* and for the cell that runs in it */
#define KEEP_TAG_MAX 65 /* what a box is kept under, with its end */

void notebook_keep(struct husk_session *s, const char *tag);
void notebook_keep_context(struct husk_session *s, const struct context *c);
void notebook_drop_context(struct husk_session *s, const struct context *c);
/* Of a request that may not go in one piece: true before the first byte, false after the last. */
void notebook_keep_part(const struct cell *c, bool has_part);
/*
 * has_own_context: the context ends with the cell. One whose request is not whole yet is kept when
 * it is: nobody else has the rest.
 */
void notebook_keep_cell(struct cell *c, const char *tag, bool has_own_context);
void notebook_drop_cell(struct husk_session *s, uint32_t context); /* once its result is recorded */

/* A cell that an earlier process started, as notebook_adopt() found it. */
struct kept_cell {
    uint32_t context;
    uint8_t token[FRAME_TOKEN_SIZE];
    uint64_t started_ms; /* clock_ms(), which all processes share */
    uint32_t timeout_ms;
    bool has_own_context;
    char tag[33];
    int out;
    int err;
    struct buf displays; /* that the earlier process has taken: length and frame of each; owned */
};

/*
 * Puts what came back of one slot into place. The tag of the box goes to ret_tag (KEEP_TAG_MAX
 * bytes).
 */
struct husk_session *notebook_adopt(struct husk_engine *engine, struct guest *g);
bool notebook_adopt_slot(struct husk_session *s, const struct launcher_rep *rep,
                         struct fd_set_msg *fds, char *ret_tag, struct kept_cell *ret_cell);
int cell_adopt(struct cell *c, struct husk_session *s, struct kept_cell *kept,
               const struct husk_spec *spec, struct err *e);
