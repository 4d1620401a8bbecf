/* SPDX-License-Identifier: Apache-2.0 */
/* States of sessions and executions as tables; see state.def. */
#pragma once

#include <stdbool.h>

enum session_state {
#define SESSION_STATE(name, word, final) SESSION_##name,
#define SESSION_STEP(from, to, why)
#define EXECUTION_STATE(name, word, final)
#define EXECUTION_STEP(from, to, why)
#include "service/state.def"
#undef SESSION_STATE
#undef SESSION_STEP
#undef EXECUTION_STATE
#undef EXECUTION_STEP
    SESSION_STATES
};

enum execution_state {
#define SESSION_STATE(name, word, final)
#define SESSION_STEP(from, to, why)
#define EXECUTION_STATE(name, word, final) EXECUTION_##name,
#define EXECUTION_STEP(from, to, why)
#include "service/state.def"
#undef SESSION_STATE
#undef SESSION_STEP
#undef EXECUTION_STATE
#undef EXECUTION_STEP
    EXECUTION_STATES
};

const char *session_state_word(int state); /* "running"; "unknown" for a number that is none */
bool session_state_is_final(int state);
bool session_step_exists(int from, int to);
int session_state_find(const char *word); /* -1: none */

const char *execution_state_word(int state);
bool execution_state_is_final(int state);
int execution_state_find(const char *word);
