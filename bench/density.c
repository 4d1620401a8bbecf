/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P7 and P8: many boxes of one template: how fast they are made, and what each one occupies.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "child.h"
#include "host.h"
#include "match.h"
#include "subject.h"

#define CROWD 500
#define CHUNK 25
#define GONE_MS 20000
#define BOX_GENERATION 3 /* we start the launcher, it starts the zygote, that starts boxes */
#define IDLE_NS 300000000L

static void idle(void)
{
    const struct timespec pause = {.tv_nsec = IDLE_NS};

    nanosleep(&pause, NULL);
}

/*
 * Ends all boxes and waits until the kernel has forgotten their processes; the rest of the clean-up
 * gets a moment.
 */
static int disperse(struct subject *s, struct err *e)
{
    static struct host_family family;
    uint64_t until = clock_ms() + GONE_MS;
    double ignored;
    size_t boxes;

    if (subject_pool(s, 0, 0, e) < 0) {
        return -1;
    }
    do {
        /* An engine hears of ended boxes while it works. */
        if (subject_once(s, &ignored, e) < 0) {
            return -1;
        }
        idle();
        if (host_family(getpid(), &family, e) < 0) {
            return -1;
        }
        boxes = 0;
        for (size_t i = 0; i < family.n; i++) {
            boxes += family.members[i].generation >= BOX_GENERATION;
        }
    } while (boxes > 0 && clock_ms() < until);
    return boxes == 0 ? 0 : err_set(e, ERR_TIMEOUT, "%zu boxes did not end", boxes);
}

static int crowd_gather(struct subject *s, struct err *e)
{
    return subject_pool(s, CROWD, CROWD, e) < 0 ? -1 : subject_wait(s, CROWD, e);
}

/* The crowd is gone again before anything else is measured. */
static int fan_out_once(void *user, double *ret, struct err *e)
{
    uint64_t begun = clock_ns();

    if (crowd_gather(user, e) < 0) {
        return -1;
    }
    *ret = (double)(clock_ns() - begun) / 1e6 / CROWD;
    return disperse(user, e);
}

int bench_fan_out(struct world *w, struct err *e)
{
    static struct peer exec_true;
    struct subject s = {.world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT};

    peer_true(&exec_true);
    struct match m = {
        .id = "P7",
        .what = "one of 500 boxes made ready",
        .ours =
            {.name = "husk, 500 boxes", .unit = "ms", .chunk = 1, .once = fan_out_once, .user = &s},
        .opponents = {opponent_of(&exec_true, CHUNK, AT_MOST(1.4, 0.8))},
        .n = 1,
    };
    int r = subject_open(&s, CROWD, e);
    if (r == 0) {
        r = match_run(w, &m, e);
    }
    subject_close(&s);
    return r;
}

/* What a crowd occupies. */
struct crowd {
    const char *name;
    struct subject *subject; /* NULL: the plain-fork peer */
    struct child child;
    bool measured;
    struct host_memory before; /* KB, before the first crowd */
    double keepers_before;
};

/* KB written: by the crowd, and by its keepers (husk-bench and the launcher, for boxes). */
static int dirty_of(const struct crowd *c, double *ret_crowd, double *ret_keepers, struct err *e)
{
    static struct host_family family;
    bool boxes = c->subject != NULL;

    *ret_crowd = 0;
    *ret_keepers = boxes ? host_private_dirty(getpid()) : 0;
    if (host_family(boxes ? getpid() : c->child.pid, &family, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < family.n; i++) {
        pid_t pid = family.members[i].pid;
        int generation = family.members[i].generation;
        if (!boxes || generation >= BOX_GENERATION) {
            *ret_crowd += host_private_dirty(pid);
        } else if (generation == 1) {
            *ret_keepers += host_private_dirty(pid);
        }
    }
    return 0;
}

static int crowd_fill(struct crowd *c, struct err *e)
{
    return c->subject != NULL ? crowd_gather(c->subject, e) : child_ask(&c->child, "fork", e);
}

static int crowd_clear(struct crowd *c, struct err *e)
{
    return c->subject != NULL ? disperse(c->subject, e) : child_ask(&c->child, "clear", e);
}

static double sum_up(const struct crowd *c, double dirty, const struct host_memory *now)
{
    double slab =
        now->reclaimable + now->unreclaimable - c->before.reclaimable - c->before.unreclaimable;
    double tables = now->page_tables - c->before.page_tables;
    double stacks = now->kernel_stack - c->before.kernel_stack;
    double percpu = now->percpu - c->before.percpu;

    fprintf(
        stderr,
        "    %-24s dirty %4.0f  slab %4.0f  page tables %4.0f  stacks %3.0f  (percpu %3.0f) KB\n",
        c->name, dirty / CROWD, slab / CROWD, tables / CROWD, stacks / CROWD, percpu / CROWD);
    return (dirty + slab + tables + stacks) / CROWD;
}

/*
 * Boxes are compared with the machine before the first of them: what a crowd leaves to launcher,
 * zygote and allocators is used again by the next and belongs to its price. Except for caches that
 * the kernel gives back when asked: those are the last crowd's. Plain forks leave nothing, and are
 * compared with the moment before.
 */
static int take_baseline(struct crowd *c, struct err *e)
{
    struct host_memory now;
    double ignored;

    if (host_memory(&now, e) < 0) {
        return -1;
    }
    if (!c->measured || c->subject == NULL) {
        c->measured = true;
        c->before = now;
        return dirty_of(c, &ignored, &c->keepers_before, e);
    }
    c->before.reclaimable = now.reclaimable;
    return 0;
}

static int crowd_once(void *user, double *ret, struct err *e)
{
    struct crowd *c = user;
    struct host_memory now;
    double crowd;
    double keepers;

    idle();
    if (take_baseline(c, e) < 0) {
        return -1;
    }
    if (crowd_fill(c, e) < 0) {
        return -1;
    }
    idle();
    if (host_memory(&now, e) < 0 || dirty_of(c, &crowd, &keepers, e) < 0) {
        return -1;
    }
    *ret = sum_up(c, crowd + MAX(0, keepers - c->keepers_before), &now);
    return crowd_clear(c, e);
}

static struct contender contender_of(struct crowd *c)
{
    return (struct contender){
        .name = c->name, .unit = "KB", .chunk = 1, .once = crowd_once, .user = c};
}

int bench_density(struct world *w, struct err *e)
{
    struct subject s = {.world = w, .template_name = "python", .code = CODE, .expect = CODE_OUTPUT};
    struct crowd boxes = {.name = "husk, idle box", .subject = &s};
    struct crowd forks = {.name = "plain fork", .child = {.socket = -1, .out = -1}};
    struct match m = {
        .id = "P8",
        .what = "memory of an idle box",
        .ours = contender_of(&boxes),
        .opponents = {{.contender = contender_of(&forks), .bar = OURS_AT_MOST(620, 500)}},
        .n = 1,
    };
    char script[PATH_MAX + 32];
    char lib[PATH_MAX + 16];
    char count[16];

    (void)str_format(script, sizeof(script), "%s/peer_plainfork.py", w->source);
    (void)str_format(lib, sizeof(lib), "%s/lib/husk", w->build);
    (void)str_format(count, sizeof(count), "%d", CROWD);
    int r = child_open(&forks.child, (const char *const[]){script, lib, count, NULL}, e);
    if (r == 0) {
        r = subject_open(&s, CROWD, e);
    }
    if (r == 0) {
        r = match_run(w, &m, e);
    }
    subject_close(&s);
    child_close(&forks.child);
    return r;
}
