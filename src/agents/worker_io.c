/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of a worker; see agents_impl.h. Outgoing frames are gathered for one write per turn of
 * the loop; incoming frames are checked and passed to their requests.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#include "agents/agents_impl.h"

#define READ_SIZE ((size_t)128 << 10)
#define READS_AT_ONCE 8             /* then other workers are read */
#define KEEP_SIZE ((size_t)1 << 20) /* larger buffers are freed when empty */

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch_link(struct worker_link *link)
{
    int events = (link->is_paused ? 0 : UV_READABLE) | (link->waits_for_room ? UV_WRITABLE : 0);

    if (events != 0) {
        uv_poll_start(&link->poll, events, on_poll);
    } else {
        uv_poll_stop(&link->poll);
    }
}

/* ---- out ---- */

int worker_send(struct worker *w, const struct agent_frame *frame, const char *payload)
{
    struct agents *a = w->agent->agents;
    char head[AGENT_HEAD_SIZE];

    if (w->link == NULL) {
        return -EPIPE;
    }
    agent_frame_write(frame, head);
    int r = buf_reserve(&w->out, sizeof(head) + frame->len);
    if (r < 0) {
        return r;
    }
    (void)buf_add(&w->out, head, sizeof(head));
    (void)buf_add(&w->out, payload, frame->len);
    if (!w->is_dirty) {
        w->is_dirty = true;
        w->next_dirty = a->dirty;
        a->dirty = w;
    }
    return 0;
}

static void forget_sent(struct buf *b, size_t *at)
{
    if (*at == b->len) {
        b->len = 0;
        *at = 0;
        if (b->cap > KEEP_SIZE) {
            buf_release(b);
        }
    } else if (*at > b->len / 2) {
        buf_consume(b, *at);
        *at = 0;
    }
}

void worker_pause(struct worker *w, bool is_paused)
{
    if (w->link != NULL && w->link->is_paused != is_paused) {
        w->link->is_paused = is_paused;
        watch_link(w->link);
    }
}

static void wait_for_room(struct worker_link *link, bool wait)
{
    if (link->waits_for_room != wait) {
        link->waits_for_room = wait;
        watch_link(link);
    }
}

static void wake_senders(struct worker *w)
{
    for (uint32_t i = 0; i < w->n_slots; i++) {
        if (w->slots[i].call != NULL && w->slots[i].call->is_sending) {
            fiber_wake(w->slots[i].call->waiter);
        }
    }
}

static void flush(struct worker *w)
{
    if (w->link == NULL) {
        return;
    }
    bool was_full = w->out.len - w->out_at >= OUT_HIGH;
    while (w->out_at < w->out.len) {
        ssize_t n = send(w->link->fd, w->out.data + w->out_at, w->out.len - w->out_at,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            /* Errors other than a full socket: the next read reports the end. */
            wait_for_room(w->link, errno == EAGAIN);
            break;
        }
        w->out_at += (size_t)n;
    }
    if (w->out_at == w->out.len) {
        wait_for_room(w->link, false);
    }
    forget_sent(&w->out, &w->out_at);
    if (w->out.len - w->out_at < OUT_HIGH) {
        if (w->sending > 0) {
            wake_senders(w);
        }
        if (was_full) {
            agent_dispatch(w->agent);
        }
    }
}

void worker_flush_all(struct agents *a)
{
    while (a->dirty != NULL) {
        struct worker *w = a->dirty;
        a->dirty = w->next_dirty;
        w->is_dirty = false;
        if (w->link == NULL || !w->link->waits_for_room) {
            flush(w);
        }
    }
}

/* ---- in ---- */

static struct agent_answer *make_answer(const struct agent_frame *frame, const char *payload)
{
    struct agent_answer *answer = malloc(sizeof(*answer) + frame->len + 1);

    if (answer == NULL) {
        return NULL;
    }
    *answer = (struct agent_answer){.type = frame->type, .len = frame->len};
    memcpy(answer->data, payload, frame->len);
    answer->data[frame->len] = '\0';
    if (agent_payload_read(frame->type, payload, frame->len, &answer->value) < 0) {
        free(answer);
        return NULL;
    }
    return answer;
}

static void take_answer(struct worker *w, const struct agent_frame *frame, const char *payload)
{
    struct slot *slot = worker_find_slot(w, frame->id);

    if (slot == NULL) {
        worker_condemn(w, "it broke the protocol: a frame for a request that it does not have");
        return;
    }
    struct agent_call *call = slot->call;
    if (frame->type == AGENT_BEGUN) {
        if (call != NULL) {
            agent_call_begun(call);
        }
        return;
    }
    struct err e;
    bool is_last = agent_frame_is_last(frame->type);
    struct agent_answer *answer = call != NULL ? make_answer(frame, payload) : NULL;
    if (is_last) {
        worker_free_slot(w, slot);
    }
    if (answer != NULL) {
        call->has_answered = true;
        agent_call_take(call, answer);
    } else if (call != NULL) {
        /* The frames before and after it are whole: only this request fails. */
        if (!is_last) {
            worker_cancel(w, frame->id);
        }
        err_set(&e, ERR_WORKER, "BadAnswer: the agent's worker sent an answer that is not valid");
        agent_call_fail(call, &e);
    }
    if (is_last) {
        agent_dispatch(w->agent);
    }
}

static void take_frame(struct worker *w, const struct agent_frame *frame, const char *payload)
{
    json_t *value = NULL;

    if (frame->id != 0) {
        take_answer(w, frame, payload);
        return;
    }
    if (agent_payload_read(frame->type, payload, frame->len, &value) < 0) {
        worker_condemn(w, "it broke the protocol: a frame of the wrong content");
        return;
    }
    if (frame->type == AGENT_READY) {
        worker_on_ready(w);
    } else if (frame->type == AGENT_FAILED) {
        worker_on_failed(w, value);
    } else {
        worker_on_pong(w);
    }
    json_decref(value);
}

/* Takes whole frames out of the buffer. False: the worker was condemned. */
static bool take_frames(struct worker *w)
{
    const struct worker_link *link = w->link;
    struct agent_frame frame;
    size_t at = 0;

    for (;;) {
        int r = agent_frame_read(w->in.data + at, w->in.len - at, &frame);
        if (r < 0) {
            worker_condemn(w, "it broke the protocol: bytes that are no frame");
            return false;
        }
        if (r == 0 || w->in.len - at - AGENT_HEAD_SIZE < frame.len) {
            break;
        }
        take_frame(w, &frame, w->in.data + at + AGENT_HEAD_SIZE);
        if (w->link != link) {
            return false;
        }
        at += AGENT_HEAD_SIZE + frame.len;
    }
    if (at == w->in.len) {
        forget_sent(&w->in, &at);
    } else if (at > 0) {
        buf_consume(&w->in, at);
    }
    return true;
}

void worker_read(struct worker *w)
{
    for (int i = 0; i < READS_AT_ONCE; i++) {
        if (buf_reserve(&w->in, READ_SIZE) < 0) {
            worker_condemn(w, "there is no memory for frames from it");
            return;
        }
        ssize_t n = recv(w->link->fd, w->in.data + w->in.len, READ_SIZE, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            worker_on_eof(w);
            return;
        }
        w->in.len += (size_t)n;
        if (!take_frames(w) || (size_t)n < READ_SIZE || w->n_full > 0) {
            return;
        }
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct worker_link *link = poll->data;

    if (link->worker != NULL && (status < 0 || (events & UV_READABLE) != 0)) {
        worker_read(link->worker);
    }
    if (link->worker != NULL && (events & UV_WRITABLE) != 0) {
        flush(link->worker);
    }
}

/* ---- life ---- */

int worker_connect(struct worker *w, int fd)
{
    struct worker_link *link = calloc(1, sizeof(*link));

    if (link == NULL || uv_poll_init(w->agent->agents->loop, &link->poll, fd) < 0) {
        free(link);
        close(fd);
        return -ENOMEM;
    }
    link->poll.data = link;
    link->worker = w;
    link->fd = fd;
    w->link = link;
    watch_link(link);
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void worker_disconnect(struct worker *w)
{
    struct worker_link *link = w->link;

    if (link == NULL) {
        return;
    }
    w->link = NULL;
    link->worker = NULL;
    uv_close((uv_handle_t *)&link->poll, on_closed);
    close(link->fd);
    buf_release(&w->in);
    buf_release(&w->out);
    w->out_at = 0;
    w->pong_due = 0;
    w->must_pong = false;
    wake_senders(w);
}
