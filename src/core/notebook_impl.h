/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A notebook's inside, shared by notebook.c (its life), notebook_cell.c (running in it) and
 * notebook_keep.c (outliving this process). The other layers see core.h.
 */
#pragma once

#include "core/context.h"
#include "core/run.h"

struct notebook {
    struct engine *engine;
    struct guest *guest;
    struct limits limits;
    struct context contexts[CONTEXTS_MAX];
    bool is_freezable; /* as it was asked for */
    bool kept;         /* the launcher holds its descriptors for the next process */
};

uint32_t notebook_guest_id(const struct notebook *nb); /* the back end's number of its box */

/* NULL and *e: there is no such context or checkpoint. */
struct context *notebook_context(struct notebook *nb, uint32_t id, bool checkpoint, struct err *e);

/*
 * A context with nothing in it, in the place of one that has ended. If there is no room for its
 * process, what the old one left behind and what belongs to no other context is killed.
 */
int notebook_replace_context(struct notebook *nb, struct context *c, struct err *e);
/* The same for one that an earlier process left with a part of a request. Others stay. Waits. */
int notebook_mend_context(struct notebook *nb, uint32_t id, struct err *e);

/* A cell that runs: everything to go on with it, also in another process. */
struct cell {
    struct notebook *notebook;
    struct context *context;
    struct run run;
    int pipes[3]; /* our ends; the first is the run's once it started */
    struct launcher_usage before;
    char tag[KEEP_CELL_TAG_MAX]; /* that it is kept under; "": it is not to be kept */
    bool has_own_context;
    bool has_own_peak;        /* of memory: the counter began with it */
    bool time_is_up;          /* and it was told: what it says now is not its own end */
    enum run_verdict verdict; /* RUN_GOES_ON until it is known */
    uint32_t pid_before;      /* an earlier process came to it, and was to replace this context */
    bool is_context_lost;     /* killed, or ended by itself: another one takes its place */
};

/* One that is not sent yet. NULL and *e: no memory. */
struct cell *cell_new(struct notebook *nb, struct context *context, const struct husk_spec *spec,
                      const struct run_hooks *hooks, struct err *e);

/* ---- notebook_keep.c: what the launcher holds for us, and how it is taken back ---- */

#define KEEP_BOX 0      /* slot of the box's own ends */
#define KEEP_CONTEXTS 1 /* and then one for each context */
#define KEEP_CELLS 65   /* and for the cell that runs in it */

void notebook_keep_context(struct notebook *nb, const struct context *c);
void notebook_drop_context(struct notebook *nb, const struct context *c);
void cell_keep(const struct cell *c); /* if it is to be kept; again when its verdict is known */
/* Of a request that may not go in one piece: true before the first byte, false after the last. */
void notebook_keep_part(const struct cell *c, bool has_part);

struct notebook *notebook_adopt(struct engine *engine, struct guest *g); /* NULL: no memory */
/* Ends contexts that were made for a cell which was never sent. */
void notebook_end_unused(struct kept_notebook *kept);
/* Puts what came back of one slot into place. */
void notebook_adopt_slot(struct kept_notebook *kept, uint32_t slot, const uint8_t *note,
                         struct fd_set_msg *fds);
