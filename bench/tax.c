/* SPDX-License-Identifier: Apache-2.0 */
/* P13: what isolation adds to a fork of the same kind of zygote. */
#include "bare_fork.h"
#include "match.h"
#include "subject.h"

#define CHUNK 20

int bench_tax(struct world *w, struct err *e)
{
    struct child child = {.socket = -1, .out = -1};
    struct subject s = {.world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT};
    struct match m = {
        .id = "P13",
        .what = "isolation tax",
        .rested = true,
        .ours =
            {.name = "husk, cold", .unit = "ms", .chunk = CHUNK, .once = subject_once, .user = &s},
        .opponents = {{.contender = {.name = "fork of the same zygote",
                                     .unit = "ms",
                                     .chunk = CHUNK,
                                     .once = bare_fork_once,
                                     .user = &child},
                       .bar = AT_MOST(2.0, 1.8)}},
        .n = 1,
    };

    int r = bare_fork_open(&child, w, NULL, e);
    if (r == 0) {
        r = subject_open(&s, 0, e);
    }
    if (r == 0) {
        r = match_run(w, &m, e);
    }
    subject_close(&s);
    child_close(&child);
    return r;
}
