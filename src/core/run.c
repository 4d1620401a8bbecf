/* SPDX-License-Identifier: Apache-2.0 */
/* Driving one run; see run.h. */
#include "core/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "core/context.h"
#include "core/run_frames.h"

#define READ_CHUNK 16384 /* on the stack, perhaps of a fiber */
#define KEEP_DEFAULT ((uint64_t)1 << 20)
#define SMALL_READ 4096 /* a program that prints in pieces like this */
#define REST_MS 1       /* is read from again after so long */

enum { P_CONTROL, P_OUT, P_ERR, P_IN, P_STDIN, P_CANCEL, P_COUNT };

/* The box may still say something. */
static bool is_talking(const struct run *run)
{
    return run->phase == RUN_STARTING || run->phase == RUN_RUNNING;
}

int run_init(struct run *run, struct err *e)
{
    uint64_t keep = run->spec->keep_bytes != 0 ? run->spec->keep_bytes : KEEP_DEFAULT;

    run->out_kept = BUF_INIT(keep);
    run->err_kept = BUF_INIT(keep);
    run->result = calloc(1, sizeof(*run->result));
    if (run->result == NULL) {
        return err_sys(e, ENOMEM, "result");
    }
    return 0;
}

void run_release(struct run *run)
{
    buf_release(&run->request);
    buf_release(&run->out_kept);
    buf_release(&run->err_kept);
    husk_result_free(run->result);
    run->result = NULL;
}

void run_give_back(struct run *run)
{
    budget_credit(&run->guest->share, run->held);
    run->held = 0;
}

/* Keeps what fits and hands everything on. False at end of file. */
static bool take_output(struct run *run, int fd, enum husk_stream stream, struct buf *kept,
                        uint64_t *total)
{
    const struct husk_spec *spec = run->spec;
    const struct run_hooks *hooks = run->hooks;
    char chunk[READ_CHUNK];

    ssize_t n = hooks != NULL && hooks->read_output != NULL
                    ? hooks->read_output(hooks->user, stream, fd, chunk, sizeof(chunk))
                    : read(fd, chunk, sizeof(chunk));
    if (n <= 0) {
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    FAULT_POINT("output.taken");
    *total += (uint64_t)n;
    (void)buf_add(kept, chunk, MIN((size_t)n, kept->max - kept->len));
    if (spec->on_output != NULL) {
        spec->on_output(spec->user, stream, chunk, (size_t)n);
    }
    if (*total > run->limits.output_bytes) {
        run_stop(run, RUN_FLOODED);
    }
    return true;
}

/* A box that has closed its stdin must not kill us with SIGPIPE. */
static ssize_t write_quietly(int fd, const void *data, size_t n)
{
    const struct timespec now = {0};
    sigset_t pipe_set;
    sigset_t old;

    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
    ssize_t w = write(fd, data, n);
    int saved = errno;
    if (w < 0 && saved == EPIPE) {
        (void)sigtimedwait(&pipe_set, NULL, &now);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = saved;
    return w;
}

void run_feed(struct run *run)
{
    const struct husk_spec *spec = run->spec;

    while (run->in >= 0) {
        size_t left = spec->stdin_data != NULL ? spec->stdin_len - run->in_done : 0;
        if (left == 0) {
            fd_close(&run->in);
            return;
        }
        ssize_t w = write_quietly(run->in, (const char *)spec->stdin_data + run->in_done, left);
        if (w < 0) {
            if (errno != EAGAIN) {
                fd_close(&run->in); /* the program has closed it, as it may */
            }
            return;
        }
        run->in_done += (size_t)w;
    }
}

/* From the caller's stdin to the box's: only called when both are ready. */
static void feed_fd(struct run *run)
{
    char chunk[4096]; /* PIPE_BUF: a pipe that polls writable takes it whole */

    ssize_t n = read(run->spec->stdin_fd, chunk, sizeof(chunk));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0 || write_quietly(run->in, chunk, (size_t)n) < 0) {
        fd_close(&run->in);
    }
}

void run_send_request(struct run *run, const int *fds, size_t nfds)
{
    struct err ignored;
    ssize_t n = channel_send_some(run->channel, &run->request, fds, nfds, &ignored);

    if ((n < 0 && !run->adopted) || (n == 0 && nfds > 0)) {
        run->channel_lost = true; /* killed between two cells, or stuck: this one is told */
    }
    if (run->request.len == 0 || run->channel_lost || n < 0) {
        buf_release(&run->request); /* of an adopted one: its last word may be there still */
    }
    if (run->request.len == 0 && !run->channel_lost && run->on_sent != NULL) {
        run->on_sent(run->sent_user);
    }
}

/*
 * The end of a cell that an earlier process has recorded, but not taken off the socket before it
 * died, and answers to its questions. They come before all frames of a run that this process sent.
 */
static bool is_stale(struct run *run, const struct frame_head *head)
{
    struct channel *c = run->channel;
    bool ours = memcmp(head->token, run->token, sizeof(run->token)) == 0;

    if (ours && !run->adopted) {
        c->stale_max = 0;
    }
    if (ours || c->stale_max == 0) {
        return false;
    }
    c->stale_max--;
    return true;
}

/* Before its end, so it never began. */
static bool is_answer(struct run *run, const struct frame_head *head)
{
    bool ours = memcmp(head->token, run->token, sizeof(run->token)) == 0;

    run->is_unbegun = run->adopted && ours && head->type == FRAME_PONG;
    return run->is_unbegun;
}

/* At once: what is to be killed first may take its time. */
static void give_up(struct run *run)
{
    channel_discard(run->channel);
    run->channel_lost = true;
    run_stop(run, RUN_OVER_BUDGET);
}

static void take_frames(struct run *run)
{
    struct frame_head head;
    const char *body;
    int r = 0;

    while (is_talking(run) && (r = channel_frame(run->channel, &head, &body)) > 0) {
        if (is_stale(run, &head)) {
            channel_drop(run->channel, &head);
            continue;
        }
        if (is_answer(run, &head)) {
            channel_drop(run->channel, &head);
            return;
        }
        if (budget_charge(&run->guest->share, head.len) < 0) {
            r = -EDQUOT;
            break;
        }
        run->held += head.len;
        if (!run_take_frame(run, &head, body)) {
            run_stop(run, RUN_BROKE_PROTOCOL);
            return;
        }
        /*
         * The last word stays where it is, if it is in the socket still, until the next cell: by
         * then the result is recorded.
         */
        if (run->phase == RUN_DONE && run->channel->unread > 0) {
            run->channel->pending = true;
        } else {
            channel_drop(run->channel, &head);
        }
    }
    bool answers_half = run->phase == RUN_DONE && run->request.len > 0 && !run->adopted;
    if (r == -ENODATA && run->phase != RUN_DONE) {
        run->channel_lost = true; /* how the box ends will tell */
    } else if (r == -EDQUOT) {
        give_up(run);
    } else if (r < 0 || answers_half) {
        run_stop(run, r == -ETIME ? RUN_UNFINISHED : RUN_BROKE_PROTOCOL);
    }
    if (run->phase == RUN_DONE && run->ended_ns == 0) {
        run->ended_ns = clock_ns();
    }
}

/*
 * Boxes write each piece at once. To be woken for every one costs both sides more than the piece,
 * so after two small reads in a row the pieces are left to gather for a moment; the pipe has room.
 */
static void rest_from_output(struct run *run, uint64_t total_before)
{
    uint64_t taken = run->out_total + run->err_total - total_before;

    if (taken == 0) {
        return;
    }
    uint64_t now = clock_ms();
    bool in_a_row = now - run->read_ms <= 2 * (uint64_t)REST_MS;
    run->read_ms = now;
    run->rest_until_ms = in_a_row && taken < SMALL_READ ? now + REST_MS : 0;
}

static void watch(struct run *run, struct pollfd p[P_COUNT], bool stdin_ready)
{
    const struct husk_spec *spec = run->spec;
    bool from_fd = spec->stdin_fd > 0 && run->in >= 0;

    for (int i = 0; i < P_COUNT; i++) {
        p[i] = (struct pollfd){.fd = -1};
    }
    p[P_CONTROL] = (struct pollfd){.fd = run->channel_lost ? -1 : run->channel->fd,
                                   .events = run->request.len > 0 ? POLLIN | POLLOUT : POLLIN};
    if (run->rest_until_ms == 0) {
        p[P_OUT] = (struct pollfd){.fd = run->out, .events = POLLIN};
        p[P_ERR] = (struct pollfd){.fd = run->err, .events = POLLIN};
    }
    /* One of the two at a time, or a ready one would spin while the other is not. */
    if (run->in >= 0 && (!from_fd || stdin_ready)) {
        p[P_IN] = (struct pollfd){.fd = run->in, .events = POLLOUT};
    }
    if (from_fd && !stdin_ready) {
        p[P_STDIN] = (struct pollfd){.fd = spec->stdin_fd, .events = POLLIN};
    }
    p[P_CANCEL] =
        (struct pollfd){.fd = spec->cancel_fd > 0 ? spec->cancel_fd : -1, .events = POLLIN};
}

static bool is_over(const struct run *run)
{
    return !is_talking(run) || run->is_unbegun || run->stopped != RUN_GOES_ON ||
           run->guest->exited || (run->channel_lost && run->in_session);
}

void run_drain(struct run *run)
{
    struct {
        int *fd;
        enum husk_stream stream;
        struct buf *kept;
        uint64_t *total;
    } streams[] = {{&run->out, HUSK_STDOUT, &run->out_kept, &run->out_total},
                   {&run->err, HUSK_STDERR, &run->err_kept, &run->err_total}};

    for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
        for (int reads = 0; *streams[i].fd >= 0 && reads < 256 && run->stopped != RUN_FLOODED;
             reads++) {
            uint64_t before = *streams[i].total;
            if (!take_output(run, *streams[i].fd, streams[i].stream, streams[i].kept,
                             streams[i].total)) {
                *streams[i].fd = -1;
            } else if (*streams[i].total == before) {
                break;
            }
        }
    }
}

static void serve(struct run *run, struct pollfd p[P_COUNT], bool *stdin_ready)
{
    uint64_t before = run->out_total + run->err_total;

    if (p[P_OUT].revents != 0 &&
        !take_output(run, run->out, HUSK_STDOUT, &run->out_kept, &run->out_total)) {
        run->out = -1;
    }
    if (p[P_ERR].revents != 0 &&
        !take_output(run, run->err, HUSK_STDERR, &run->err_kept, &run->err_total)) {
        run->err = -1;
    }
    rest_from_output(run, before);
    if (p[P_CONTROL].revents & POLLOUT) {
        run_send_request(run, NULL, 0);
    }
    if (p[P_CONTROL].revents & ~POLLOUT) {
        take_frames(run);
    }
    if (p[P_STDIN].revents != 0) {
        *stdin_ready = true;
    }
    if (p[P_IN].revents != 0) {
        if (run->spec->stdin_fd > 0) {
            feed_fd(run);
            *stdin_ready = false;
        } else {
            run_feed(run);
        }
    }
    if (p[P_CANCEL].revents != 0) {
        run_stop(run, RUN_CANCELLED);
    }
}

/* PID 1 says that the context has ended. What that forked may hold its socket open for longer. */
static void look_for_end(struct run *run)
{
    if (run->in_session && !is_over(run) && context_has_ended(run->guest, run->pid)) {
        take_frames(run); /* what it said before is all there */
        run->channel_lost = run->phase != RUN_DONE;
    }
}

/* Time is up. It may have ended before, while this process was held up. */
static bool is_over_by_now(struct run *run)
{
    if (!run->channel_lost) {
        take_frames(run);
    }
    if (run->in_session) {
        context_hear(run->guest);
    }
    look_for_end(run);
    return is_over(run);
}

/* What ends a run without a word from its box. */
static bool is_stopped(struct run *run)
{
    if (run->hooks != NULL && run->hooks->cancel != NULL && *run->hooks->cancel) {
        run_stop(run, RUN_CANCELLED);
        return true;
    }
    if (run->guest->share.losses != run->losses) {
        give_up(run);
        return true;
    }
    return false;
}

static void take_rest(struct run *run)
{
    if (run->ended_ns == 0) {
        run->ended_ns = clock_ns();
    }
    if (run->phase != RUN_DONE && !run->channel_lost && !run->is_unbegun) {
        take_frames(run); /* its last word may have come together with its end */
    }
    run_drain(run);
}

/* How long there is nothing to do unless something comes; -1: for ever. */
static int64_t wait_at(const struct run *run, uint64_t now, uint64_t until)
{
    uint64_t rest_until = run->rest_until_ms != 0 ? run->rest_until_ms : UINT64_MAX;
    uint64_t next = MIN(MIN(until, channel_due_ms(run->channel)), rest_until);

    return next == UINT64_MAX ? -1 : (int64_t)(next - MIN(now, next));
}

int run_drive(struct run *run, int64_t wait_ms, struct err *e)
{
    struct pollfd p[P_COUNT];
    bool stdin_ready = false;
    uint64_t until = wait_ms >= 0 ? clock_ms() + (uint64_t)wait_ms : UINT64_MAX;

    if (run->spec->stdin_fd <= 0) {
        run_feed(
            run); /* mostly there is none: then there is no need to wait for room in its pipe */
    }
    look_for_end(run);
    while (!is_over(run) && !is_stopped(run)) {
        uint64_t now = clock_ms();
        if (now >= until && !is_over_by_now(run)) {
            return 0;
        }
        if (!is_over(run) && now >= channel_due_ms(run->channel) && !run->channel_lost) {
            take_frames(run); /* a frame that was begun is overdue */
        }
        if (is_over(run)) {
            break;
        }
        run->rest_until_ms = now < run->rest_until_ms ? run->rest_until_ms : 0;
        watch(run, p, stdin_ready);
        int64_t wait = wait_at(run, now, until);
        if (engine_poll(run->engine, run->guest, p, P_COUNT, wait, e) < 0) {
            return -1;
        }
        serve(run, p, &stdin_ready);
        look_for_end(run);
    }
    take_rest(run);
    return 1;
}
