/* SPDX-License-Identifier: Apache-2.0 */
/* See places.h. */
#include "service/places.h"

#include <errno.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/units.h"

#define REVIEW_MS 10
#define FRESH_CPU_NS (10 * NS_PER_MS) /* a run that has used so much is busy */
#define FRESH_NS (100 * NS_PER_MS)    /* or one that is there for so long */
#define GLANCE_NS (2 * NS_PER_MS)     /* between two looks at one that is fresh */
#define LOOK_NS (200 * NS_PER_MS)     /* between two looks at one that is not fresh */
#define LOOK_EACH_NS (5 * NS_PER_MS)  /* and so much more for each that is busy */
#define ASLEEP_PART 100               /* of a processor: a run that used less of it sleeps */
#define FRESH_LEAST 4

struct places_waiter {
    struct fair_waiter in_line;
    struct places_waiter *next;
    struct fiber *fiber;
    struct place *place;
    bool called;
};

/* ---- counting ---- */

/* A run's part in the figures: busy counts all that use a processor, fresh ones too. */
static void count(struct places *p, struct place *place, int by)
{
    size_t n = (size_t)by;

    switch (place->state) {
    case PLACE_FRESH:
        p->fresh += n;
        fair_count(place->leaf, by, by);
        break;
    case PLACE_BUSY:
        p->busy += n;
        fair_count(place->leaf, by, 0);
        break;
    case PLACE_ASLEEP:
        p->asleep += n;
        break;
    }
}

static void set_state(struct places *p, struct place *place, enum place_state state)
{
    count(p, place, -1);
    place->state = state;
    count(p, place, 1);
}

size_t places_taken(const struct places *p)
{
    return p->fresh + p->busy + p->asleep;
}

/* ---- letting in ---- */

static bool has_place(const struct places *p)
{
    return p->fresh < p->fresh_places && p->fresh + p->busy < p->places &&
           places_taken(p) < p->total;
}

struct parts {
    size_t places;
    size_t fresh;
};

/* What each client may have when all of them want it. */
static struct parts parts_of(const struct places *p, size_t clients)
{
    return (struct parts){p->places / MAX(clients, (size_t)1),
                          p->fresh_places / MAX(clients, (size_t)1)};
}

static bool is_below_part(const void *user, const struct fair_share *client)
{
    const struct parts *part = user;

    return client->fresh < part->fresh && client->busy < part->places;
}

static void admit(struct places *p, struct place *place, struct fair_node *leaf)
{
    place->leaf = leaf;
    place->state = PLACE_FRESH;
    place->since_ns = clock_ns();
    place->seen_ns = place->since_ns;
    place->cpu_ns = 0;
    place->prev = NULL;
    place->next = p->first;
    if (p->first != NULL) {
        p->first->prev = place;
    }
    p->first = place;
    count(p, place, 1);
}

static void unlink_waiter(struct places *p, const struct places_waiter *w)
{
    for (struct places_waiter **at = &p->waiters; *at != NULL; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            p->waiting--;
            return;
        }
    }
}

static bool call_next(struct places *p, const struct parts *part)
{
    struct fair_waiter *f = fair_next(&p->line, part != NULL ? is_below_part : NULL, part);

    if (f == NULL) {
        return false;
    }
    struct places_waiter *w = (struct places_waiter *)f; /* its first member */
    unlink_waiter(p, w);
    admit(p, w->place, f->leaf);
    w->called = true;
    fiber_wake(w->fiber);
    return true;
}

static void call_all(struct places *p)
{
    while (p->waiting > 0 && has_place(p) && call_next(p, NULL)) {
    }
    if (p->waiting > 0 && places_taken(p) < p->total) {
        struct parts part = parts_of(p, fair_clients(&p->line));

        while (p->waiting > 0 && places_taken(p) < p->total && call_next(p, &part)) {
        }
    }
}

/* ---- looking at runs ---- */

/* How many want each processor: our own runs, or all that the machine has had to do lately. */
static size_t crowd(const struct places *p)
{
    struct sysinfo machine = {.loads = {0}};
    size_t wanting = p->fresh + p->busy;

    (void)sysinfo(&machine);
    wanting = MAX(wanting, (size_t)(machine.loads[0] >> SI_LOAD_SHIFT));
    return MAX(wanting / p->processors, (size_t)1);
}

/*
 * Code that is runnable waits for a processor when there are many of its kind: the more of them,
 * the longer it is looked at, and the less it must have used.
 */
static bool is_asleep(const struct places *p, uint64_t used_ns, uint64_t passed_ns)
{
    return used_ns < passed_ns / ASLEEP_PART / crowd(p);
}

/* The first look only tells from where to count. */
static void look_at_fresh(struct places *p, struct place *place, uint64_t now_ns)
{
    uint64_t used = 0;
    bool is_known = place->used != NULL && place->used(place->user, &used);

    if (is_known && place->cpu_ns == 0) {
        place->cpu_ns = used;
    }
    bool has_worked = is_known && used - place->cpu_ns >= FRESH_CPU_NS;
    if (has_worked || now_ns - place->since_ns >= FRESH_NS) {
        set_state(p, place, PLACE_BUSY);
        place->cpu_ns = is_known ? used : 0;
    }
    place->seen_ns = now_ns;
}

static void look_at(struct places *p, struct place *place, uint64_t now_ns)
{
    uint64_t passed = now_ns > place->seen_ns ? now_ns - place->seen_ns : 0;
    uint64_t used = 0;

    if (place->state == PLACE_FRESH) {
        if (passed >= GLANCE_NS) {
            look_at_fresh(p, place, now_ns);
        }
        return;
    }
    if (passed < LOOK_NS + p->busy * LOOK_EACH_NS) {
        return;
    }
    bool is_known = place->used != NULL && place->used(place->user, &used);
    bool sleeps = is_known && place->cpu_ns != 0 && is_asleep(p, used - place->cpu_ns, passed);
    set_state(p, place, sleeps ? PLACE_ASLEEP : PLACE_BUSY);
    place->cpu_ns = is_known ? used : 0;
    place->seen_ns = now_ns;
}

void places_review(struct places *p, uint64_t now_ns)
{
    for (struct place *place = p->first; place != NULL; place = place->next) {
        look_at(p, place, now_ns);
    }
    call_all(p);
}

static void watch(void *user)
{
    struct places *p = user;

    while (p->waiting > 0) {
        (void)fiber_poll(NULL, 0, REVIEW_MS);
        places_review(p, clock_ns());
    }
    p->is_watched = false;
}

static int start_watching(struct places *p, struct err *e)
{
    if (p->is_watched) {
        return 0;
    }
    p->is_watched = true;
    int r = fiber_start(watch, p);
    if (r < 0) {
        p->is_watched = false;
        return err_sys(e, -r, "start a fiber");
    }
    return 0;
}

/* ---- entering and leaving ---- */

void places_resize(struct places *p, size_t places, size_t max_asleep, size_t line_max)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    p->places = places;
    p->processors = (size_t)MAX(processors, 1L);
    p->fresh_places = MIN(places, MAX(p->processors * 2, (size_t)FRESH_LEAST));
    p->total = places + max_asleep;
    p->line_max = line_max;
    call_all(p);
}

/* Whether it need not wait. Those that wait come first, unless it has less than its part. */
static bool may_enter(struct places *p, const struct fair_node *leaf)
{
    struct fair_share client = fair_of_client(leaf);

    if (p->waiting == 0 && has_place(p)) {
        return true;
    }
    /* This one may be the only thing of its client. */
    size_t clients = fair_clients(&p->line) + (client.waiting == 0 && client.busy == 0);
    struct parts part = parts_of(p, clients);
    return client.waiting == 0 && places_taken(p) < p->total && is_below_part(&part, &client);
}

static bool is_line_full(struct places *p, const struct fair_share *client, size_t coming)
{
    size_t used = p->fresh + p->busy;
    size_t free_places = p->places > used ? p->places - used : 0;

    if (p->waiting + coming < free_places + p->line_max) {
        return false;
    }
    size_t clients = fair_clients(&p->line) + (client->waiting == 0 && client->busy == 0);
    return clients < 2 || client->waiting >= p->line_max / clients;
}

bool places_have_room(struct places *p, const struct fair_key *key, size_t coming)
{
    struct fair_node *leaf = fair_hold(&p->line, key);

    if (leaf == NULL) {
        return false;
    }
    struct fair_share client = fair_of_client(leaf);
    fair_give(&p->line, leaf);
    return !is_line_full(p, &client, coming);
}

static int wait_in_line(struct places *p, struct places_waiter *w, int64_t timeout_ms,
                        const bool *cancel)
{
    uint64_t until = clock_ms() + (uint64_t)timeout_ms;

    while (!w->called) {
        uint64_t now = clock_ms();
        bool cancelled = cancel != NULL && *cancel;
        if (cancelled || now >= until) {
            fair_leave(&w->in_line);
            unlink_waiter(p, w);
            return cancelled ? -ECANCELED : -ETIMEDOUT;
        }
        (void)fiber_poll(NULL, 0, (int64_t)(until - now));
    }
    return 0;
}

static int join(struct places *p, struct fair_node *leaf, struct places_waiter *w, struct err *e)
{
    struct fair_share client = fair_of_client(leaf);
    struct places_waiter **at = &p->waiters;

    if (is_line_full(p, &client, 0)) {
        return err_set(e, ERR_LIMIT, "%zu runs are under way and %zu wait: try again later",
                       places_taken(p), p->waiting);
    }
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = w;
    p->waiting++;
    fair_join(leaf, &w->in_line);
    if (start_watching(p, e) < 0) {
        fair_leave(&w->in_line);
        unlink_waiter(p, w);
        return -1;
    }
    return 0;
}

int places_enter(struct places *p, const struct fair_key *key, struct place *ret,
                 int64_t timeout_ms, const bool *cancel, struct err *e)
{
    struct fair_node *leaf = fair_hold(&p->line, key);
    struct places_waiter w = {.fiber = fiber_self(), .place = ret};

    if (leaf == NULL) {
        return err_sys(e, ENOMEM, "wait for a place");
    }
    if (!has_place(p)) { /* perhaps only because no run was looked at lately */
        places_review(p, clock_ns());
    }
    if (may_enter(p, leaf)) {
        admit(p, ret, leaf);
        return 0;
    }
    if (join(p, leaf, &w, e) < 0) {
        fair_give(&p->line, leaf);
        return -1;
    }
    int r = wait_in_line(p, &w, timeout_ms, cancel);
    if (r == 0) {
        return 0; /* admitted by call_next(), which has its leaf */
    }
    fair_give(&p->line, leaf);
    return r == -ETIMEDOUT ? err_set(e, ERR_LIMIT, "no place became free in time: try again later")
                           : err_set(e, ERR_CONFLICT, "cancelled while it waited");
}

void places_leave(struct places *p, struct place *place)
{
    count(p, place, -1);
    if (place->prev != NULL) {
        place->prev->next = place->next;
    } else {
        p->first = place->next;
    }
    if (place->next != NULL) {
        place->next->prev = place->prev;
    }
    fair_give(&p->line, TAKE_PTR(place->leaf));
    call_all(p);
}

size_t places_position(const struct places *p, const struct fiber *f)
{
    for (const struct places_waiter *w = p->waiters; w != NULL; w = w->next) {
        if (w->fiber == f) {
            return fair_position(&w->in_line);
        }
    }
    return 0;
}
