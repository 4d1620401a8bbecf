/* SPDX-License-Identifier: Apache-2.0 */
/* P13: what isolation adds to a fork of the same kind of zygote. */
#include "base/str.h"
#include "child.h"
#include "match.h"
#include "subject.h"

#define CHUNK 20

static int fork_once(void *user, double *ret, struct err *e)
{
    return child_run(user, CODE, CODE_OUTPUT, ret, e);
}

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
                                     .once = fork_once,
                                     .user = &child},
                       .bar = AT_MOST(1.8, 1.3)}},
        .n = 1,
    };
    char script[PATH_MAX + 32];
    char lib[PATH_MAX + 16];

    (void)str_format(script, sizeof(script), "%s/peer_forkonly.py", w->source);
    (void)str_format(lib, sizeof(lib), "%s/lib/husk", w->build);
    int r = child_open(&child, (const char *const[]){script, lib, NULL}, e);
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
