/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of a notebook; see context.h. Contexts are hostile; PID 1 is trusted a little more. */
#include "core/context.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fiber.h"
#include "base/str.h"
#include "core/template.h"

#define START_PATIENCE_MS 15000
#define EXIT_PATIENCE_MS 2000 /* from a lost context or an interrupt to PID 1's word about it */

/* The sender waits for its number; each context of a notebook has its own. */
struct interrupt {
    uint64_t number;
    bool is_answered;
    bool hit;
    struct interrupt *next;
};

/* What PID 1 calls its kind; NULL: a copy of PID 1's own interpreter. */
static const char *kind_of(const struct context *c)
{
    return c->is_own                    ? "command"
           : c->language != HUSK_PYTHON ? template_language_name(c->language)
                                        : NULL;
}

/* CONTEXT or BRANCH: the descriptor is the new one's control socket. */
static int send_start(struct channel *to, enum frame_type how, const char *kind, int fd,
                      struct err *e)
{
    AUTO_BUF struct buf b = BUF_INIT(256);

    if (frame_begin(&b, how, NULL) < 0 || (kind != NULL && frame_add_str(&b, KEY_NAME, kind) < 0) ||
        frame_end(&b) < 0) {
        return err_sys(e, ENOMEM, "frame");
    }
    return channel_send(to, &b, &fd, 1, e);
}

/* number: that the answer repeats; 0: none is wanted. */
static int send_signal(struct guest *box, const struct context *c, int signum, uint64_t number,
                       struct err *e)
{
    AUTO_BUF struct buf b = BUF_INIT(256);
    const char *kind = signum == 0 ? kind_of(c) : NULL;

    if (frame_begin(&b, FRAME_SIGNAL, c->cell) < 0 || frame_add_u32(&b, KEY_PID, c->pid) < 0 ||
        frame_add_u32(&b, KEY_SIGNAL, (uint32_t)signum) < 0 ||
        (kind != NULL && frame_add_str(&b, KEY_NAME, kind) < 0) ||
        (number != 0 && frame_add_u64(&b, KEY_ORDER, number) < 0) || frame_end(&b) < 0) {
        return err_sys(e, ENOMEM, "frame");
    }
    return channel_send(&box->control, &b, NULL, 0, e);
}

int context_signal(struct guest *box, const struct context *c, int signum, struct err *e)
{
    return send_signal(box, c, signum, 0, e);
}

void context_ask_fate(struct guest *box, uint32_t pid)
{
    AUTO_BUF struct buf b = BUF_INIT(256);
    struct err ignored;

    if (pid != 0 && !box->exited && frame_begin(&b, FRAME_PING, NULL) == 0 &&
        frame_add_u32(&b, KEY_PID, pid) == 0 && frame_end(&b) == 0) {
        (void)channel_send(&box->control, &b, NULL, 0, &ignored);
    }
}

/* Waits for news of PID 1 or of the box. False: there will be none before that time. */
static bool await_news(struct guest *box, uint64_t until)
{
    uint64_t now = clock_ms();
    struct err ignored;

    return !box->is_silent && !box->exited && now < until &&
           engine_poll(box->engine, box, NULL, 0, (int64_t)(until - now), &ignored) == 0;
}

void context_interrupt_idly(struct guest *box, const struct context *c)
{
    struct err ignored;
    uint64_t number = clock_ns();

    if (send_signal(box, c, SIGINT, number, &ignored) == 0) {
        box->awaited = number;
    }
}

void context_await_interrupt(struct guest *box)
{
    uint64_t until = clock_ms() + EXIT_PATIENCE_MS;

    while (box->awaited != 0 && await_news(box, until)) {
    }
    box->awaited = 0;
}

static void hear_signalled(struct guest *box, const char *body, size_t len)
{
    struct frame_field f;
    uint64_t number = 0;
    uint32_t sig = 0;

    for (size_t at = 0; frame_next(body, len, &at, &f) > 0;) {
        if (f.key == KEY_ORDER) {
            (void)frame_field_u64(&f, &number);
        } else if (f.key == KEY_SIGNAL) {
            (void)frame_field_u32(&f, &sig);
        }
    }
    if (number >= box->awaited) { /* they are answered in order */
        box->awaited = 0;
    }
    for (struct interrupt *i = box->interrupts; i != NULL; i = i->next) {
        if (i->number == number) {
            i->is_answered = true;
            i->hit = sig != 0;
        }
    }
}

void context_hear(struct guest *box)
{
    struct frame_head head;
    const char *body;
    bool has_news = false;
    int r;

    while ((r = channel_frame(&box->control, &head, &body)) > 0) {
        struct frame_field f;
        uint32_t who = 0;
        uint32_t how = 0;
        for (size_t at = 0; frame_next(body, head.len, &at, &f) > 0;) {
            if (f.key == KEY_PID) {
                (void)frame_field_u32(&f, &who);
            } else if (f.key == KEY_EXIT) {
                (void)frame_field_u32(&f, &how);
            } else if (f.key == KEY_ORDER && head.type == FRAME_SWEPT) {
                (void)frame_field_u64(&f, &box->swept);
            }
        }
        if (head.type == FRAME_SIGNALLED) {
            hear_signalled(box, body, head.len);
        }
        if (head.type == FRAME_EXITED && who != 0) {
            box->fates[box->next_fate].pid = who;
            box->fates[box->next_fate].status = (int)how;
            box->next_fate = (box->next_fate + 1) % FATES_KEPT;
        }
        channel_drop(&box->control, &head);
        has_news = true;
    }
    if (r < 0) { /* closed, or not to be trusted any more */
        guest_unwatch(box->engine, box);
        box->is_silent = true;
    }
    if (has_news || r < 0) {
        guest_wake(box);
    }
}

int context_interrupt(struct guest *box, const struct context *c, bool *ret_hit, struct err *e)
{
    struct interrupt own = {.number = clock_ns(), .next = box->interrupts};
    uint64_t until = clock_ms() + EXIT_PATIENCE_MS;

    box->interrupts = &own; /* cppcheck-suppress autoVariables; until the end of this function */
    int r = send_signal(box, c, SIGINT, own.number, e);
    while (r == 0 && !own.is_answered && await_news(box, until)) {
    }
    struct interrupt **at = &box->interrupts;
    while (*at != &own) {
        at = &(*at)->next;
    }
    *at = own.next;
    *ret_hit = own.hit;
    return r;
}

/* FATES_KEPT: PID 1 has not said that it ended. */
static size_t find_fate(const struct guest *box, uint32_t pid)
{
    size_t i = 0;

    while (i < FATES_KEPT && (pid == 0 || box->fates[i].pid != pid)) {
        i++;
    }
    return i;
}

bool context_has_ended(const struct guest *box, uint32_t pid)
{
    return find_fate(box, pid) < FATES_KEPT;
}

/*
 * Instead of READY: PID 1 says why it could not fork, the new process why it has no interpreter, or
 * the socket closes without a word.
 */
static int not_started(int r, const struct frame_head *head, const char *body, struct err *e)
{
    struct frame_field f;
    uint32_t error = 0;
    char why[200] = "";

    for (size_t at = 0; r > 0 && frame_next(body, head->len, &at, &f) > 0;) {
        if (head->type == FRAME_EXITED && f.key == KEY_EXIT) {
            (void)frame_field_u32(&f, &error);
        } else if (head->type == FRAME_FAILED && f.key == KEY_ERROR_MESSAGE) {
            str_printable(why, sizeof(why), f.data, f.len);
        }
    }
    if (why[0] != '\0') {
        return err_set(e, ERR_CONFLICT, "the context cannot be made: %s", why);
    }
    return error == EAGAIN ? err_set(e, ERR_LIMIT, "the session has reached its process limit")
                           : err_set(e, ERR_PROTOCOL, "a context did not start");
}

/* Waits for the READY of a new context. */
static int wait_ready(struct engine *engine, struct guest *box, struct context *c, struct err *e)
{
    uint64_t until = clock_ms() + START_PATIENCE_MS;
    struct frame_head head;
    struct frame_field f;
    const char *body;
    int r;

    while ((r = channel_frame(&c->channel, &head, &body)) == 0) {
        struct pollfd p = {.fd = c->channel.fd, .events = POLLIN};
        uint64_t now = clock_ms();
        if (now >= until) {
            return err_set(e, ERR_TIMEOUT, "a context did not start in time");
        }
        if (engine_poll(engine, box, &p, 1, (int64_t)(until - now), e) < 0) {
            return -1;
        }
        if (box->exited) {
            return err_set(e, ERR_NOT_FOUND, "the session's box has ended");
        }
    }
    if (r < 0 || head.type != FRAME_READY) {
        return not_started(r, &head, body, e);
    }
    for (size_t at = 0; frame_next(body, head.len, &at, &f) > 0;) {
        if (f.key == KEY_PID) {
            (void)frame_field_u32(&f, &c->pid);
        }
    }
    channel_drop(&c->channel, &head);
    context_hear(box);
    if (context_has_ended(box, c->pid)) {
        box->fates[find_fate(box, c->pid)].pid = 0; /* of another that had this number before */
    }
    return 0;
}

static int start(struct engine *engine, struct guest *box, struct context *c, struct channel *from,
                 enum frame_type how, struct err *e)
{
    int pair[2];

    int r = fd_pair_for_box(pair);
    if (r < 0) {
        return err_sys(e, -r, "control socket");
    }
    AUTO_CLOSE int theirs = pair[1];
    *c = (struct context){.used = true, .language = c->language, .is_own = c->is_own};
    channel_init(&c->channel, pair[0]);
    c->channel.share = &box->share;
    if (send_start(from, how, kind_of(c), theirs, e) < 0) {
        channel_release(&c->channel);
        c->used = false;
        return -1;
    }
    fd_close(&theirs);
    if (wait_ready(engine, box, c, e) < 0) {
        channel_release(&c->channel);
        c->used = false;
        return -1;
    }
    return 0;
}

int context_start(struct engine *engine, struct guest *box, struct context *c, struct err *e)
{
    return start(engine, box, c, &box->control, FRAME_CONTEXT, e);
}

void context_await_sweeps(struct guest *box)
{
    uint64_t until = clock_ms() + EXIT_PATIENCE_MS;

    while (box->sweeping > 0 && await_news(box, until)) {
    }
}

/* Code in the context can cause these: it closes its socket, ends, or answers nonsense. */
static bool is_fault_of_source(const struct err *e)
{
    return e->code == ERR_PROTOCOL || e->sys_errno == EPIPE || e->sys_errno == ECONNRESET;
}

int context_branch(struct engine *engine, struct guest *box, struct context *c,
                   struct context *from, struct err *e)
{
    if (from->language == HUSK_JAVASCRIPT) {
        return err_set(e, ERR_UNSUPPORTED,
                       "a javascript context cannot be copied: Node.js has threads and cannot be "
                       "forked; python and shell contexts can");
    }
    box->branching++;
    c->language = from->language;
    c->is_own = false;
    int r = start(engine, box, c, &from->channel, FRAME_BRANCH, e);
    if (r < 0 && is_fault_of_source(e)) {
        err_set(e, ERR_CONFLICT, "the context cannot be copied: its process has ended");
    }
    if (r == 0 && context_signal(box, c, 0, e) < 0) {
        channel_release(&c->channel);
        c->used = false;
        r = -1;
    }
    box->branching--;
    guest_wake(box);
    return r;
}

void context_end(struct guest *box, struct context *c)
{
    struct err ignored;

    context_hear(box);
    if (c->used) {
        (void)context_signal(box, c, SIGKILL, &ignored);
        channel_release(&c->channel);
        c->used = false;
    }
}

static int send_sweep(struct guest *box, const struct context *contexts, size_t n,
                      const struct context *from, uint64_t since_ns, uint64_t number)
{
    AUTO_BUF struct buf b = BUF_INIT(4096);
    uint64_t asleep = clock_boot_ns() - clock_ns(); /* /proc counts what the machine slept */
    struct err ignored;

    int r = frame_begin(&b, FRAME_SWEEP, NULL);
    if (r == 0) {
        r = frame_add_u64(&b, KEY_SINCE, since_ns == 0 ? 0 : since_ns + asleep);
    }
    if (r == 0) {
        r = frame_add_u64(&b, KEY_ORDER, number);
    }
    if (r == 0) {
        r = frame_add_u32(&b, KEY_PID, from->pid);
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        if (contexts[i].used && &contexts[i] != from) {
            r = frame_add_u32(&b, KEY_PID, contexts[i].pid);
        }
    }
    if (r < 0 || frame_end(&b) < 0) {
        return -1;
    }
    return channel_send(&box->control, &b, NULL, 0, &ignored);
}

bool context_sweep(struct guest *box, const struct context *contexts, size_t n,
                   const struct context *from, uint64_t since_ns)
{
    uint64_t until = clock_ms() + EXIT_PATIENCE_MS;

    /* from now on no copy of a context begins; those that have begun are waited for */
    box->sweeping++;
    while (box->branching > 0 && await_news(box, until)) {
    }
    uint64_t number = clock_ns(); /* no process that talks to this box has used it before */
    if (send_sweep(box, contexts, n, from, since_ns, number) == 0) {
        while (box->swept < number && await_news(box, until)) {
        }
    }
    box->sweeping--;
    guest_wake(box);
    return box->swept >= number;
}

bool context_fate(struct guest *box, uint32_t pid, int *ret_status)
{
    uint64_t until = clock_ms() + EXIT_PATIENCE_MS;
    size_t i;

    context_hear(box);

    while ((i = find_fate(box, pid)) == FATES_KEPT && await_news(box, until)) {
    }
    if (i == FATES_KEPT) {
        return false;
    }
    *ret_status = box->fates[i].status;
    box->fates[i].pid = 0;
    return true;
}
