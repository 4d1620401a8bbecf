/* SPDX-License-Identifier: Apache-2.0 */
/* S1 and S2: what calls cost a Python program. It measures itself: bench/python/calls.py. */
#include <stdio.h>
#include <unistd.h>

#include "base/str.h"
#include "child.h"
#include "match.h"
#include "server.h"

#define CHUNK 25
#define RAY_CHUNK 10

/* A Python program that repeats one kind of call. */
struct caller {
    struct child child;
    struct err absent; /* why it could not be started */
    bool there;
};

static int open_caller(const struct world *w, const char *kind, const char *socket,
                       struct caller *ret, struct err *e)
{
    char script[PATH_MAX + 32];
    char python[PATH_MAX + 32];

    (void)str_format(script, sizeof(script), "%s/python/calls.py", w->source);
    (void)str_format(python, sizeof(python), "%s/venv/bin/python", w->build);
    if (access(python, X_OK) < 0) {
        return err_set(e, ERR_NOT_FOUND, "there is no %s: tools/python-env makes it", python);
    }
    return child_open_with(&ret->child, python,
                           (const char *const[]){script, w->build, kind, socket, NULL}, e);
}

static int call_once(void *user, double *ret, struct err *e)
{
    const struct caller *c = user;

    return child_measure(&c->child, "call", ret, e);
}

static struct contender contender_of(const char *name, struct caller *c, int chunk)
{
    return (struct contender){
        .name = name, .unit = "ms", .chunk = chunk, .once = call_once, .user = c};
}

static struct opponent opponent(const char *name, struct caller *c, int chunk, struct bar bar)
{
    return (struct opponent){.contender = contender_of(name, c, chunk),
                             .absent = c->there ? NULL : c->absent.msg,
                             .bar = bar};
}

int bench_tool_call(struct world *w, struct err *e)
{
    static struct caller ours = {.child = {.socket = -1, .out = -1}};
    static struct caller pool = {.child = {.socket = -1, .out = -1}};
    static struct caller ray = {.child = {.socket = -1, .out = -1}};

    int r = open_caller(w, "tool", "", &ours, e);
    if (r == 0) {
        pool.there = open_caller(w, "pool", "", &pool, &pool.absent) == 0;
        ray.there = open_caller(w, "ray", "", &ray, &ray.absent) == 0;
        struct match m = {
            .id = "S1",
            .what = "tool call, local engine",
            .ours = contender_of("husk.tool", &ours, CHUNK),
            .opponents = {opponent("ProcessPoolExecutor", &pool, CHUNK, AT_MOST(1.5, 0.5)),
                          opponent("Ray task", &ray, RAY_CHUNK, AT_MOST(1 / 3.0, 1 / 10.0))},
            .n = 2,
        };
        r = match_run(w, &m, e);
    }
    child_close(&ours.child);
    child_close(&pool.child);
    child_close(&ray.child);
    return r;
}

int bench_sandbox_client(struct world *w, struct err *e)
{
    static struct caller caller = {.child = {.socket = -1, .out = -1}};
    char socket[PATH_MAX + 96];
    struct server husk;

    int r = server_husk(w, (const char *const[]){NULL}, &husk, e);
    if (r == 0) {
        (void)str_format(socket, sizeof(socket), "%s/data/husk.sock", husk.folder);
        r = open_caller(w, "sandbox", socket, &caller, e);
    }
    if (r == 0) {
        struct contender c = contender_of("Sandbox.run, client CPU", &caller, 1);
        r = race_run(&c, 1, RACE_ROUNDS, e);
        if (r == 0) {
            struct row row = {.id = "S2",
                              .what = "Sandbox.run, client's CPU time",
                              .unit = "ms",
                              .ours = c.summary,
                              .bar = OURS_AT_MOST(0.4, 0.2)};
            report_add(&w->report, &row);
        }
    }
    child_close(&caller.child);
    server_stop(&husk);
    return r;
}
