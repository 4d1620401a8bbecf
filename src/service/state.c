/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of state.def; see state.h. */
#include "service/state.h"

#include <stddef.h>

#include "base/attr.h"
#include "base/str.h"

struct state {
    const char *word;
    bool is_final;
};

struct step {
    int from;
    int to;
};

#define SESSION_STATE(name, word, final) [SESSION_##name] = {word, final},
#define SESSION_STEP(from, to, why)
#define EXECUTION_STATE(name, word, final)
#define EXECUTION_STEP(from, to, why)
static const struct state session_states[] = {
#include "service/state.def"
};
#undef SESSION_STATE
#undef SESSION_STEP
#undef EXECUTION_STATE
#undef EXECUTION_STEP

#define SESSION_STATE(name, word, final)
#define SESSION_STEP(from, to, why) {SESSION_##from, SESSION_##to},
#define EXECUTION_STATE(name, word, final)
#define EXECUTION_STEP(from, to, why)
static const struct step session_steps[] = {
#include "service/state.def"
};
#undef SESSION_STATE
#undef SESSION_STEP
#undef EXECUTION_STATE
#undef EXECUTION_STEP

#define SESSION_STATE(name, word, final)
#define SESSION_STEP(from, to, why)
#define EXECUTION_STATE(name, word, final) [EXECUTION_##name] = {word, final},
#define EXECUTION_STEP(from, to, why)
static const struct state execution_states[] = {
#include "service/state.def"
};

static int find(const struct state *states, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(states[i].word, word)) {
            return (int)i;
        }
    }
    return -1;
}

const char *session_state_word(int state)
{
    return state >= 0 && state < SESSION_STATES ? session_states[state].word : "unknown";
}

bool session_state_is_final(int state)
{
    return state >= 0 && state < SESSION_STATES && session_states[state].is_final;
}

bool session_step_exists(int from, int to)
{
    for (size_t i = 0; i < ARRAY_LEN(session_steps); i++) {
        if (session_steps[i].from == from && session_steps[i].to == to) {
            return true;
        }
    }
    return false;
}

int session_state_find(const char *word)
{
    return find(session_states, ARRAY_LEN(session_states), word);
}

const char *execution_state_word(int state)
{
    return state >= 0 && state < EXECUTION_STATES ? execution_states[state].word : "unknown";
}

bool execution_state_is_final(int state)
{
    return state >= 0 && state < EXECUTION_STATES && execution_states[state].is_final;
}

int execution_state_find(const char *word)
{
    return find(execution_states, ARRAY_LEN(execution_states), word);
}
