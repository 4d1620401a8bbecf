/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a run: prints value, traceback, what ended it and the receipt, writes files, and returns
 * the exit code.
 */
#pragma once

#include <husk/husk.h>

#include "cli/common/term.h"
#include "cli/husk/run_request.h"

struct run_streams {
    struct term_out out;
    struct term_out err;
    bool quiet; /* --json: no output while the program runs */
};

/* Shows the result and returns the exit code of husk. */
int run_report(const struct run_request *r, const struct husk_spec *spec,
               const struct husk_result *result, struct run_streams *s);
