/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a back end without walls; see fake_backend.h. */
#include "fake_backend.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "fake_impl.h"
#include "tap.h"

static struct fake *fake_of(struct backend *b)
{
    return (struct fake *)b;
}

/* ---- events ---- */

static void report(struct fake *f, const struct backend_event *event)
{
    CHECK(f->n_events < FAKE_EVENTS_MAX);
    f->events[f->n_events++] = *event;
    CHECK_INT(eventfd_write(f->signal, 1), 0);
}

static int get_fd(const struct backend *b)
{
    return ((const struct fake *)b)->signal;
}

static bool has_event(const struct backend *b)
{
    return ((const struct fake *)b)->n_events > 0;
}

static int next_event(struct backend *b, struct backend_event *ret, struct err *e)
{
    struct fake *f = fake_of(b);
    eventfd_t n;

    (void)e;
    if (f->n_events == 0) {
        return 0;
    }
    *ret = f->events[0];
    memmove(f->events, f->events + 1, --f->n_events * sizeof(f->events[0]));
    if (f->n_events == 0) {
        (void)eventfd_read(f->signal, &n);
    }
    return 1;
}

static const struct launcher_facts *get_facts(const struct backend *b)
{
    return &((const struct fake *)b)->facts;
}

/* ---- guests ---- */

static struct fake_guest *find(struct fake *f, uint32_t id)
{
    struct fake_guest *g = f->guests;

    while (g != NULL && (g->id != id || g->has_ended)) {
        g = g->next;
    }
    return g;
}

void fake_guest_forget(struct fake_guest *g)
{
    for (struct fake_guest **p = &g->fake->guests; *p != NULL; p = &(*p)->next) {
        if (*p == g) {
            *p = g->next;
            free(g);
            return;
        }
    }
}

void fake_guest_end(struct fake_guest *g, int end, int wait_status)
{
    if (g->has_ended) {
        return;
    }
    g->has_ended = true;
    for (struct fake_peer *p = g->peers; p != NULL; p = p->next) {
        p->killed = true;
        fiber_wake(p->fiber);
    }
    if (end >= 0) {
        report(g->fake, &(struct backend_event){.kind = BACKEND_ENDED,
                                                .id = g->id,
                                                .end = (enum launcher_end)end,
                                                .wait_status = wait_status});
    }
}

static int open_template(struct backend *b, const struct backend_template *t,
                         struct backend_opened *ret, struct err *e)
{
    struct fake *f = fake_of(b);

    (void)t;
    (void)e;
    f->template = ++f->opened;
    *ret = (struct backend_opened){.id = f->template};
    return 0;
}

static int close_template(struct backend *b, uint32_t id, struct err *e)
{
    struct fake *f = fake_of(b);

    (void)e;
    for (struct fake_guest *g = f->guests; g != NULL; g = g->next) {
        if (g->template_id == id) {
            fake_guest_end(g, -1, 0);
        }
    }
    return 0;
}

static void make_ends(int ours[BACKEND_ENDS], int theirs[BACKEND_ENDS])
{
    int pair[2];

    CHECK_INT(fd_pair_for_box(pair), 0);
    ours[BACKEND_CONTROL] = pair[0];
    theirs[BACKEND_CONTROL] = pair[1];
    for (int i = BACKEND_STDIN; i < BACKEND_ENDS; i++) {
        CHECK_INT(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
        ours[i] = pair[i == BACKEND_STDIN ? 1 : 0];
        theirs[i] = pair[i == BACKEND_STDIN ? 0 : 1];
    }
}

static int make_guest(struct backend *b, const struct backend_guest *spec,
                      void (*born)(void *user, struct backend_birth *birth), void *user,
                      struct err *e)
{
    struct fake *f = fake_of(b);
    static const struct usage_view none;
    struct fd_set_msg counters = {.n = 0};
    int theirs[BACKEND_ENDS];

    if (spec->template_id != f->template) {
        return err_set(e, ERR_NOT_FOUND, "the zygote is gone");
    }
    struct fake_guest *g = calloc(1, sizeof(*g));
    CHECK(g != NULL);
    *g = (struct fake_guest){.next = f->guests,
                             .fake = f,
                             .id = ++f->next_guest,
                             .template_id = spec->template_id,
                             .next_pid = 2};
    f->guests = g;
    f->made++;
    struct backend_birth birth = {
        .id = g->id, .facts = &f->facts, .view = &none, .counters = &counters};
    make_ends(birth.ends, theirs);
    born(user, &birth);
    if (f->lost_births > 0) {
        f->lost_births--;
        for (int i = 0; i < BACKEND_ENDS; i++) {
            fd_close(&theirs[i]);
        }
        fake_guest_end(g, LAUNCHER_END_ZYGOTE, SIGKILL);
        fake_guest_forget(g);
        fake_end_zygotes(f);
        return 0;
    }
    g->is_broken = f->broken_births > 0;
    f->broken_births -= g->is_broken;
    fake_peer_start(g, theirs);
    return 0;
}

static int adopt(struct backend *b, struct backend_heir *heir, struct err *e)
{
    (void)b;
    (void)e;
    heir->first_epoch = heir->epoch;
    return 0;
}

static int arm(struct backend *b, uint32_t guest, uint64_t deadline_ms, struct err *e)
{
    (void)b;
    (void)guest;
    (void)deadline_ms;
    (void)e;
    return 0;
}

static int usage(struct backend *b, uint32_t guest, bool want_disk, struct launcher_usage *ret,
                 struct err *e)
{
    (void)want_disk;
    if (find(fake_of(b), guest) == NULL) {
        return err_set(e, ERR_NOT_FOUND, "there is no such guest");
    }
    *ret = (struct launcher_usage){
        .cpu_ns = 1000000, .disk_free = UINT64_MAX, .inodes_free = UINT64_MAX};
    return 0;
}

static int release(struct backend *b, uint32_t guest, struct err *e)
{
    struct fake_guest *g = find(fake_of(b), guest);

    (void)e;
    if (g != NULL) {
        fake_guest_end(g, -1, 0);
    }
    return 0;
}

static int finish(struct backend *b, uint32_t guest, bool want_disk, struct launcher_usage *ret,
                  struct err *e)
{
    return usage(b, guest, want_disk, ret, e) < 0 ? -1 : release(b, guest, e);
}

static int kill_guest(struct backend *b, uint32_t guest, struct err *e)
{
    struct fake_guest *g = find(fake_of(b), guest);

    (void)e;
    if (g != NULL) {
        fake_guest_end(g, LAUNCHER_END_KILLED, SIGKILL);
    }
    return 0;
}

static int freeze(struct backend *b, uint32_t guest, enum launcher_freeze how, struct err *e)
{
    (void)how;
    return find(fake_of(b), guest) != NULL ? 0 : err_set(e, ERR_NOT_FOUND, "it has ended");
}

static int keep(struct backend *b, uint32_t guest, const struct backend_kept *what, struct err *e)
{
    (void)b;
    (void)guest;
    (void)what;
    (void)e;
    return 0;
}

static void end_all(struct fake *f)
{
    for (struct fake_guest *g = f->guests; g != NULL; g = g->next) {
        fake_guest_end(g, -1, 0);
    }
}

static void hang_up(struct backend *b)
{
    end_all(fake_of(b));
}

static void close_fake(struct backend *b)
{
    struct fake *f = fake_of(b);

    end_all(f);
    while (f->fibers > 0) {
        fiber_run();
    }
    CHECK(f->guests == NULL);
    fd_close(&f->signal);
    free(f);
}

static const struct backend_ops ops = {
    .name = "fake",
    .hang_up = hang_up,
    .close = close_fake,
    .fd = get_fd,
    .has_event = has_event,
    .next = next_event,
    .facts = get_facts,
    .open_template = open_template,
    .close_template = close_template,
    .make_guest = make_guest,
    .adopt = adopt,
    .arm = arm,
    .usage = usage,
    .finish = finish,
    .kill = kill_guest,
    .release = release,
    .freeze = freeze,
    .keep = keep,
};

/* ---- for tests ---- */

struct fake *fake_new(void)
{
    struct fake *f = calloc(1, sizeof(*f));

    CHECK(f != NULL);
    f->backend.ops = &ops;
    (void)str_copy(f->facts.cgroup, sizeof(f->facts.cgroup), "fake");
    f->signal = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(f->signal >= 0);
    return f;
}

struct backend *fake_backend(struct fake *f)
{
    return &f->backend;
}

void fake_lose_births(struct fake *f, unsigned n)
{
    f->lost_births = n;
}

void fake_break_births(struct fake *f, unsigned n)
{
    f->broken_births = n;
}

void fake_end_zygotes(struct fake *f)
{
    for (struct fake_guest *g = f->guests; g != NULL; g = g->next) {
        fake_guest_end(g, LAUNCHER_END_ZYGOTE, SIGKILL);
    }
    report(f, &(struct backend_event){.kind = BACKEND_TEMPLATE_ENDED, .id = f->template});
    f->template = 0;
}

void fake_end_guest(struct fake *f, uint32_t id)
{
    struct fake_guest *g = find(f, id);

    CHECK(g != NULL);
    fake_guest_end(g, LAUNCHER_END_SELF, SIGKILL);
}

unsigned fake_templates_opened(const struct fake *f)
{
    return f->opened;
}

unsigned fake_guests_made(const struct fake *f)
{
    return f->made;
}

unsigned fake_guests_alive(const struct fake *f)
{
    unsigned n = 0;

    for (const struct fake_guest *g = f->guests; g != NULL; g = g->next) {
        n += !g->has_ended;
    }
    return n;
}
