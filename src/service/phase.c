/* SPDX-License-Identifier: Apache-2.0 */
/* The steps between phases; see phase.h. */
#include "service/phase.h"

#include <assert.h>

static const bool session_steps[SESSION_PHASES][SESSION_PHASES] = {
    /* STALLED and LIVE: found in the store at a start */
    [PHASE_RECORDING] = {[PHASE_MAKING] = true, [PHASE_STALLED] = true, [PHASE_LIVE] = true},
    [PHASE_MAKING] = {[PHASE_LIVE] = true, [PHASE_STALLED] = true, [PHASE_ENDING] = true},
    [PHASE_STALLED] =
        {[PHASE_MAKING] = true, [PHASE_LIVE] = true, [PHASE_SPENT] = true, [PHASE_ENDING] = true},
    [PHASE_LIVE] = {[PHASE_SPENT] = true, [PHASE_ENDING] = true},
    [PHASE_SPENT] = {[PHASE_ENDING] = true},
    /* back: a full disk did not take the end, so it goes on */
    [PHASE_ENDING] =
        {[PHASE_ENDED] = true, [PHASE_STALLED] = true, [PHASE_LIVE] = true, [PHASE_SPENT] = true},
};

static const bool box_steps[BOX_PHASES][BOX_PHASES] = {
    /* OPEN and FROZEN: kept by the launcher */
    [BOX_ABSENT] = {[BOX_OPENING] = true, [BOX_OPEN] = true, [BOX_FROZEN] = true},
    [BOX_OPENING] = {[BOX_OPEN] = true, [BOX_ABSENT] = true},
    [BOX_OPEN] = {[BOX_ATTACHING] = true, [BOX_FREEZING] = true, [BOX_ABSENT] = true},
    [BOX_ATTACHING] = {[BOX_OPEN] = true},
    /* back: that failed */
    [BOX_FREEZING] = {[BOX_FROZEN] = true, [BOX_OPEN] = true},
    [BOX_FROZEN] = {[BOX_THAWING] = true, [BOX_ABSENT] = true},
    [BOX_THAWING] = {[BOX_OPEN] = true, [BOX_FROZEN] = true},
};

static const bool cell_steps[CELL_PHASES][CELL_PHASES] = {
    [CELL_AHEAD] = {[CELL_INTERRUPTED] = true, [CELL_SENT] = true, [CELL_KEPT] = true},
    [CELL_INTERRUPTED] = {[CELL_INTERRUPTED] = true, [CELL_SENT] = true, [CELL_KEPT] = true},
    [CELL_KEPT] = {[CELL_AHEAD] = true}, /* by an earlier daemon, which did not come to send it */
};

static const bool row_steps[ROW_PHASES][ROW_PHASES] = {
    [ROW_AHEAD] = {[ROW_STORED] = true, [ROW_NEVER] = true},
    [ROW_STORED] = {[ROW_STORED] = true}, /* written again */
};

static const bool end_steps[END_PHASES][END_PHASES] = {
    [END_AHEAD] = {[END_WRITING] = true, [END_DURABLE] = true}, /* DURABLE: only a record is left */
    [END_WRITING] = {[END_DURABLE] = true, [END_WAITING] = true},
    [END_WAITING] = {[END_DURABLE] = true, [END_GIVEN_UP] = true},
};

bool session_phase_can(enum session_phase from, enum session_phase to)
{
    return session_steps[from][to];
}

void session_phase_step(enum session_phase *phase, enum session_phase to)
{
    assert(session_steps[*phase][to]);
    *phase = to;
}

void box_phase_step(enum box_phase *phase, enum box_phase to)
{
    assert(box_steps[*phase][to]);
    *phase = to;
}

void cell_phase_step(enum cell_phase *phase, enum cell_phase to)
{
    assert(cell_steps[*phase][to]);
    *phase = to;
}

void row_phase_step(enum row_phase *phase, enum row_phase to)
{
    assert(row_steps[*phase][to]);
    *phase = to;
}

void end_phase_step(enum end_phase *phase, enum end_phase to)
{
    assert(end_steps[*phase][to]);
    *phase = to;
}
