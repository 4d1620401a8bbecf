/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of states and phases (service/state.def, service/phase.c). */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "service/phase.h"
#include "service/state.h"
#include "tap.h"

TEST(each_state_has_a_word_of_its_own)
{
    for (int i = 0; i < SESSION_STATES; i++) {
        CASE("session state %d", i);
        CHECK_INT(session_state_find(session_state_word(i)), i);
    }
    for (int i = 0; i < EXECUTION_STATES; i++) {
        CASE("execution state %d", i);
        CHECK_INT(execution_state_find(execution_state_word(i)), i);
    }
    CHECK_STR(session_state_word(SESSION_STATES), "unknown");
    CHECK_STR(execution_state_word(-1), "unknown");
    CHECK_INT(session_state_find("Running"), -1);
    CHECK_INT(execution_state_find(""), -1);
}

TEST(a_final_state_is_left_by_no_step_and_the_others_lead_to_one)
{
    for (int from = 0; from < SESSION_STATES; from++) {
        int steps = 0;
        for (int to = 0; to < SESSION_STATES; to++) {
            steps += session_step_exists(from, to);
        }
        CASE("from %s", session_state_word(from));
        CHECK((steps == 0) == session_state_is_final(from));
    }
    CHECK(!session_state_is_final(SESSION_STATES));
    CHECK(execution_state_is_final(EXECUTION_LOST));
    CHECK(!execution_state_is_final(EXECUTION_PENDING));
}

TEST(each_phase_of_a_session_leads_to_its_end)
{
    for (int from = 0; from < PHASE_ENDED; from++) {
        CASE("phase %d", from);
        CHECK(from == PHASE_ENDING ? session_phase_can(from, PHASE_ENDED)
              : from == PHASE_RECORDING
                  ? session_phase_can(from, PHASE_MAKING)
                  : session_phase_can((enum session_phase)from, PHASE_ENDING));
        CHECK(!session_phase_can((enum session_phase)from, PHASE_RECORDING));
    }
    for (int to = 0; to < SESSION_PHASES; to++) {
        CHECK(!session_phase_can(PHASE_ENDED, (enum session_phase)to));
    }
}

TEST(a_step_moves_the_phase)
{
    enum session_phase session = PHASE_RECORDING;
    enum box_phase box = BOX_ABSENT;
    enum cell_phase cell = CELL_AHEAD;
    enum row_phase row = ROW_AHEAD;
    enum end_phase end = END_AHEAD;

    session_phase_step(&session, PHASE_MAKING);
    box_phase_step(&box, BOX_OPENING);
    cell_phase_step(&cell, CELL_INTERRUPTED);
    row_phase_step(&row, ROW_STORED);
    end_phase_step(&end, END_WRITING);
    CHECK_INT(session, PHASE_MAKING);
    CHECK_INT(box, BOX_OPENING);
    CHECK_INT(cell, CELL_INTERRUPTED);
    CHECK_INT(row, ROW_STORED);
    CHECK_INT(end, END_WRITING);
}

static void step_session(void)
{
    enum session_phase phase = PHASE_ENDED;
    session_phase_step(&phase, PHASE_LIVE);
}

static void step_box(void)
{
    enum box_phase phase = BOX_ATTACHING;
    box_phase_step(&phase, BOX_ABSENT);
}

static void step_cell(void)
{
    enum cell_phase phase = CELL_SENT;
    cell_phase_step(&phase, CELL_AHEAD);
}

static void step_row(void)
{
    enum row_phase phase = ROW_NEVER;
    row_phase_step(&phase, ROW_STORED);
}

static void step_end(void)
{
    enum end_phase phase = END_DURABLE;
    end_phase_step(&phase, END_WAITING);
}

TEST(a_step_that_does_not_exist_aborts)
{
    void (*const steps[])(void) = {step_session, step_box, step_cell, step_row, step_end};

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        CASE("table %zu", i);
        pid_t child = fork();
        if (child == 0) {
            (void)close(STDERR_FILENO);
            steps[i]();
            _exit(0);
        }
        int status = 0;
        CHECK_INT(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}
