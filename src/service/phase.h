/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phases of what the service has in memory, and the steps between them that exist (phase.c). They
 * are not recorded; states, which are, stand in state.def. A step that is not in the tables is a
 * bug of the service, and aborts it.
 */
#pragma once

#include <stdbool.h>

/* A session from its creation to its end. */
enum session_phase {
    PHASE_RECORDING, /* the store does not have it yet: whether it exists is not decided */
    PHASE_MAKING,    /* recorded; the fiber that creates it opens its box */
    PHASE_STALLED,   /* that failed, and a full disk did not take its end: to be made again */
    PHASE_LIVE,
    PHASE_SPENT,  /* its only execution is over, and a full disk did not take its end */
    PHASE_ENDING, /* a fiber ends it */
    PHASE_ENDED,
    SESSION_PHASES
};

/* The box of a persistent session. */
enum box_phase {
    BOX_ABSENT,
    BOX_OPENING, /* a fiber opens it and puts its files back */
    BOX_OPEN,
    BOX_ATTACHING, /* a fiber starts a file worker in it: it must stay */
    BOX_FREEZING,
    BOX_FROZEN, /* no process of it runs until it is used again */
    BOX_THAWING,
    BOX_PHASES
};

/* What an execution runs in an interpreter of its session. */
enum cell_phase {
    CELL_AHEAD,
    CELL_INTERRUPTED, /* before it was sent: the signal follows right after that */
    CELL_SENT,        /* or could not be */
    CELL_KEPT,        /* the launcher keeps it for a successor of this process */
    CELL_PHASES
};

/* The row of an execution in the store. */
enum row_phase {
    ROW_AHEAD,
    ROW_STORED,
    ROW_NEVER, /* neither the store nor a successor of this process ever hears of it */
    ROW_PHASES
};

/* The record of an execution's end. */
enum end_phase {
    END_AHEAD,    /* it has not ended */
    END_WRITING,  /* nothing may be written behind it */
    END_WAITING,  /* for a disk that does not take it: a caller that waits gets an error */
    END_GIVEN_UP, /* the server ends, or time does not help */
    END_DURABLE,
    END_PHASES
};

/* The files that the output of an execution goes to. Every step exists. */
enum spool_phase {
    SPOOL_NONE,
    SPOOL_CURRENT,
    SPOOL_BEHIND, /* the disk did not take all of it */
};

void session_phase_step(enum session_phase *phase, enum session_phase to);
void box_phase_step(enum box_phase *phase, enum box_phase to);
void cell_phase_step(enum cell_phase *phase, enum cell_phase to);
void row_phase_step(enum row_phase *phase, enum row_phase to);
void end_phase_step(enum end_phase *phase, enum end_phase to);

bool session_phase_can(enum session_phase from, enum session_phase to);
