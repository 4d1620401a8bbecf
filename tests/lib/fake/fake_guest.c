/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a fake guest, as fibers that speak frames; see fake_backend.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "fake_impl.h"
#include "tap.h"

#define EXIT_INTERRUPTED 1

struct incoming {
    struct buf bytes;
    struct frame_head head;
    struct fd_set_msg fds;
};

static void add_peer(struct fake_guest *g, uint32_t pid, int control, const int streams[3]);

static void send_frame(const struct fake_peer *p, struct buf *b)
{
    CHECK_INT(frame_end(b), 0);
    (void)fd_send(p->control, b->data, b->len, NULL, 0, MSG_DONTWAIT); /* the engine may be gone */
}

static void send_number(const struct fake_peer *p, enum frame_type type, enum frame_key key,
                        uint32_t n)
{
    AUTO_BUF struct buf b = BUF_INIT(256);

    CHECK_INT(frame_begin(&b, type, NULL), 0);
    CHECK_INT(frame_add_u32(&b, key, n), 0);
    send_frame(p, &b);
}

/* The next frame. False: the socket is closed, or the process is killed. */
static bool receive(struct fake_peer *p, struct incoming *in)
{
    buf_consume(&in->bytes, MIN(in->bytes.len, sizeof(in->head) + in->head.len));
    in->head.len = 0;
    for (;;) {
        if (frame_parse_head(in->bytes.data, in->bytes.len, FRAME_TO_BOX_MAX, &in->head) == 1 &&
            in->bytes.len - sizeof(in->head) >= in->head.len) {
            return true;
        }
        struct pollfd wait = {.fd = p->control, .events = POLLIN};
        (void)fiber_poll(&wait, 1, -1);
        if (p->killed) {
            return false;
        }
        struct fd_set_msg fds = {.n = 0};
        CHECK_INT(buf_reserve(&in->bytes, 65536), 0);
        ssize_t n = fd_recv(p->control, in->bytes.data + in->bytes.len, 65536, &fds, MSG_DONTWAIT);
        if (n == -EAGAIN) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        in->bytes.len += (size_t)n;
        if (fds.n > 0) {
            in->fds = fds;
        }
    }
}

/* The bytes of the first field with that key, as a text that the caller frees; NULL: none. */
static char *field(const struct incoming *in, enum frame_key key)
{
    const char *body = in->bytes.data + sizeof(in->head);
    struct frame_field f;

    for (size_t at = 0; frame_next(body, in->head.len, &at, &f) > 0;) {
        if (f.key == key) {
            return strndup(f.data, f.len);
        }
    }
    return NULL;
}

static uint64_t number(const struct incoming *in, enum frame_key key)
{
    const char *body = in->bytes.data + sizeof(in->head);
    struct frame_field f;
    uint64_t wide = 0;
    uint32_t n = 0;

    for (size_t at = 0; frame_next(body, in->head.len, &at, &f) > 0;) {
        if (f.key == key && frame_field_u64(&f, &wide) < 0 && frame_field_u32(&f, &n) == 0) {
            wide = n;
        }
    }
    return wide;
}

/* ---- code ---- */

static void wait_for_a_signal(struct fake_peer *p)
{
    while (!p->interrupted && !p->killed) {
        struct pollfd gone = {.fd = p->control, .events = POLLRDHUP};
        (void)fiber_poll(&gone, 1, -1);
        p->killed = p->killed || gone.revents != 0;
    }
}

static void answer(const struct fake_peer *p, const struct incoming *in, uint32_t code,
                   const char *value)
{
    AUTO_BUF struct buf b = BUF_INIT(65536);

    CHECK_INT(frame_begin(&b, FRAME_DONE, in->head.token), 0);
    CHECK_INT(frame_add_u32(&b, KEY_EXIT, code), 0);
    if (value != NULL) {
        CHECK_INT(frame_add_str(&b, KEY_VALUE, value), 0);
    }
    send_frame(p, &b);
}

static void run(struct fake_peer *p, const struct incoming *in, int out)
{
    AUTO_FREE char *code = field(in, KEY_CODE);
    uint64_t exit_code = 0;

    CHECK(code != NULL);
    p->is_running = true;
    p->interrupted = false;
    if (str_starts(code, "print ")) {
        CHECK_INT(fd_write_all(out, code + 6, strlen(code + 6)), 0);
    } else if (str_starts(code, "exit ")) {
        CHECK_INT(parse_u64(code + 5, &exit_code), 0);
    } else if (str_eq(code, "hang")) {
        wait_for_a_signal(p);
        exit_code = EXIT_INTERRUPTED;
    } else if (str_eq(code, "die")) {
        fake_guest_end(p->guest, LAUNCHER_END_SELF, SIGKILL);
    }
    p->is_running = false;
    if (!p->killed) {
        answer(p, in, (uint32_t)exit_code, str_starts(code, "value ") ? code + 6 : NULL);
    }
}

/* ---- what the first process of a notebook does ---- */

static struct fake_peer *find_peer(const struct fake_guest *g, uint32_t pid)
{
    struct fake_peer *p = g->peers;

    while (p != NULL && p->pid != pid) {
        p = p->next;
    }
    return p;
}

static void pass_signal(const struct fake_peer *first, const struct incoming *in)
{
    struct fake_peer *to = find_peer(first->guest, (uint32_t)number(in, KEY_PID));
    uint32_t signum = (uint32_t)number(in, KEY_SIGNAL);
    uint64_t order = number(in, KEY_ORDER);
    bool hits = to != NULL && (signum == SIGKILL || to->is_running);

    if (hits && signum != 0) {
        to->killed = to->killed || signum == SIGKILL;
        to->interrupted = true;
        fiber_wake(to->fiber);
    }
    if (order != 0) {
        AUTO_BUF struct buf b = BUF_INIT(256);
        CHECK_INT(frame_begin(&b, FRAME_SIGNALLED, NULL), 0);
        CHECK_INT(frame_add_u64(&b, KEY_ORDER, order), 0);
        CHECK_INT(frame_add_u32(&b, KEY_SIGNAL, hits ? signum : 0), 0);
        send_frame(first, &b);
    }
}

static void sweep(const struct fake_peer *first, const struct incoming *in)
{
    AUTO_BUF struct buf b = BUF_INIT(256);

    CHECK_INT(frame_begin(&b, FRAME_SWEPT, NULL), 0);
    CHECK_INT(frame_add_u64(&b, KEY_ORDER, number(in, KEY_ORDER)), 0);
    send_frame(first, &b);
}

static void serve(struct fake_peer *p, struct incoming *in)
{
    static const int none[3] = {-1, -1, -1};

    switch (in->head.type) {
    case FRAME_RUN:
        run(p, in, in->fds.n == 3 ? in->fds.fds[1] : p->out);
        break;
    case FRAME_CONTEXT:
    case FRAME_BRANCH:
        CHECK_INT(in->fds.n, 1);
        add_peer(p->guest, p->guest->next_pid++, take_fd(&in->fds.fds[0]), none);
        break;
    case FRAME_SIGNAL: /* descriptors that came along belong to the next frame */
        pass_signal(p, in);
        return;
    case FRAME_SWEEP:
        sweep(p, in);
        return;
    default: /* FRAME_FILES: there are none, and its socket closes */
        break;
    }
    fd_set_release(&in->fds);
    in->fds.n = 0;
}

static void leave(struct fake_peer *p)
{
    struct fake_guest *g = p->guest;
    struct fake_peer *first = find_peer(g, 1);

    if (p != first && first != NULL && !g->has_ended) {
        AUTO_BUF struct buf b = BUF_INIT(256);
        CHECK_INT(frame_begin(&b, FRAME_EXITED, NULL), 0);
        CHECK_INT(frame_add_u32(&b, KEY_PID, p->pid), 0);
        CHECK_INT(frame_add_u32(&b, KEY_EXIT, SIGKILL), 0);
        send_frame(first, &b);
    }
    if (p == first) {
        fake_guest_end(g, LAUNCHER_END_SELF, 0);
    }
    fd_close(&p->control);
    fd_close(&p->in);
    fd_close(&p->out);
    fd_close(&p->err);
    for (struct fake_peer **at = &g->peers; *at != NULL; at = &(*at)->next) {
        if (*at == p) {
            *at = p->next;
            break;
        }
    }
    free(p);
    g->fake->fibers--;
    if (g->peers == NULL) {
        fake_guest_forget(g);
    }
}

static void live(void *user)
{
    struct fake_peer *p = user;
    struct incoming in = {.bytes = BUF_INIT(FRAME_TO_BOX_MAX)};

    p->fiber = fiber_self();
    if (p->guest->is_broken) {
        AUTO_BUF struct buf b = BUF_INIT(256);
        CHECK_INT(frame_begin(&b, FRAME_FAILED, NULL), 0);
        CHECK_INT(frame_add_str(&b, KEY_ERROR_MESSAGE, "step disk: no space"), 0);
        send_frame(p, &b);
    } else {
        send_number(p, FRAME_READY, KEY_PID, p->pid);
    }
    while (!p->guest->is_broken && receive(p, &in)) {
        serve(p, &in);
    }
    fd_set_release(&in.fds);
    buf_release(&in.bytes);
    leave(p);
}

static void add_peer(struct fake_guest *g, uint32_t pid, int control, const int streams[3])
{
    struct fake_peer *p = calloc(1, sizeof(*p));

    CHECK(p != NULL);
    *p = (struct fake_peer){.next = g->peers,
                            .guest = g,
                            .control = control,
                            .in = streams[0],
                            .out = streams[1],
                            .err = streams[2],
                            .pid = pid};
    g->peers = p;
    g->fake->fibers++;
    CHECK_INT(fiber_start(live, p), 0);
}

void fake_peer_start(struct fake_guest *g, const int ends[BACKEND_ENDS])
{
    add_peer(g, 1, ends[BACKEND_CONTROL], ends + BACKEND_STDIN);
}
