/* SPDX-License-Identifier: Apache-2.0 */
/* The peer that forks and isolates nothing; see bare_fork.h. */
#include "bare_fork.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "peers.h"

int bare_fork_open(struct child *ret, const struct world *w, const char *megabytes, struct err *e)
{
    char script[PATH_MAX + 32];
    char lib[PATH_MAX + 16];

    (void)str_format(script, sizeof(script), "%s/peer_forkonly.py", w->source);
    (void)str_format(lib, sizeof(lib), "%s/lib/husk", w->build);
    return child_open(ret, (const char *const[]){script, lib, megabytes, NULL}, e);
}

/* The fork writes its output before its answer, so it is all there. */
int bare_fork_once(void *user, double *ret, struct err *e)
{
    const struct child *c = user;
    char out[64];

    uint64_t begun = clock_ns();
    if (child_ask(c, CODE, e) < 0) {
        return -1;
    }
    ssize_t n = read(c->out, out, sizeof(out) - 1);
    *ret = (double)(clock_ns() - begun) / 1e6;
    out[n > 0 ? n : 0] = '\0';
    return str_eq(out, CODE_OUTPUT) ? 0 : err_set(e, ERR_PROTOCOL, "it printed \"%s\"", out);
}
