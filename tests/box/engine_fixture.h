/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of the engine share: an engine of the build under test, and short ways to use it.
 *
 * What a test is not about ends it when it fails, so callers need not check.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/units.h"
#include "husk/husk.h"

#define AUTO_ENGINE AUTO(fixture_engine_close)
#define AUTO_RESULT AUTO(fixture_result_free)

void fixture_engine_close(struct husk_engine **engine);
void fixture_result_free(struct husk_result **result);

/* Makes the library use launcher and files of this build, and no template of this machine's. */
void fixture_paths(void);
/* Gives up root for good, which a test can, being a process of its own; and the paths. */
void fixture_become_nobody(void);

/*
 * The same, with an empty folder for templates of the test's own, made by mkdtemp(). Skips the test
 * without root.
 */
void fixture_template_dir(char *template);

/* An engine with full isolation. Skips the test without root. */
struct husk_engine *fixture_open(void);

/* A spec for a piece of code, which is borrowed; everything else is the default. */
struct husk_spec fixture_spec(const char *template_name, enum husk_kind kind, const char *code);

/* Runs it; a refusal fails the test. */
struct husk_result *fixture_run(struct husk_engine *engine, const struct husk_spec *spec);
struct husk_result *fixture_script(struct husk_engine *engine, const char *code); /* python */
struct husk_result *fixture_cell(struct husk_engine *engine, const char *code);   /* python */

/* The type of the error that it is refused with; a run that is not refused fails the test. */
const char *fixture_refusal(struct husk_engine *engine, const struct husk_spec *spec);

/* Has act() called once, when the program's first output arrives. One at a time. */
void fixture_at_output(struct husk_spec *spec, void (*act)(void *user), void *user);

/* How a run ended, as "status cause exit-code" and, when a limit ended it, ": limit". */
#define CHECK_END(result, want) fixture_check_end(__FILE__, __LINE__, (result), (want))
void fixture_check_end(const char *file, int line, const struct husk_result *r, const char *want);

/* Text contains a part; a missing text contains nothing. */
#define CHECK_HAS(text, part) fixture_check_has(__FILE__, __LINE__, (text), (part))
void fixture_check_has(const char *file, int line, const char *text, const char *part);

/* A call of the library that returns 0; else the test fails with the library's message. */
#define CHECK_OK(call, error)                                                                      \
    do {                                                                                           \
        if ((call) != 0) {                                                                         \
            tap_fail(__FILE__, __LINE__, "%s: %s: %s", #call, (error)->type, (error)->message);    \
        }                                                                                          \
    } while (0)

/* ---- sessions ---- */

#define AUTO_SESSION AUTO(fixture_session_close)
void fixture_session_close(struct husk_session **session);

/* A session of the python template; NULL: with default limits. */
struct husk_session *fixture_session(struct husk_engine *engine, const struct husk_limits *limits);

/* Runs a cell; 0: with the session's own time limit. A refusal fails the test. */
struct husk_result *fixture_in(struct husk_session *s, uint32_t context, uint64_t timeout_ms,
                               const char *code);

/* A cell that must complete, and its value. */
#define CHECK_CELL(session, context, code, want)                                                   \
    do {                                                                                           \
        AUTO_RESULT struct husk_result *cell_ = fixture_in((session), (context), 0, (code));       \
        CHECK_END(cell_, "completed exit 0");                                                      \
        CHECK_STR(cell_->value, (want));                                                           \
    } while (0)
