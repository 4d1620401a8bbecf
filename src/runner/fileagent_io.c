/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the file worker; see fileagent_impl.h. Blocking: it has nothing else to do. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/units.h"
#include "runner/fileagent_impl.h"

#define TICK_MS 1000

static int recv_all(int sock, void *data, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t r = fd_recv(sock, (char *)data + got, n - got, NULL, 0);
        if (r <= 0) {
            return r == 0 ? -EPIPE : (int)r;
        }
        got += (size_t)r;
    }
    return 0;
}

int agent_recv(struct agent *a, struct files_head *head)
{
    char raw[sizeof(*head)];

    int r = recv_all(a->sock, raw, sizeof(raw));
    if (r < 0) {
        return r;
    }
    r = files_msg_get_head(raw, false, head);
    return r < 0 ? r : recv_all(a->sock, a->body, head->len);
}

int agent_send(struct agent *a)
{
    for (size_t done = 0; done < a->out.len;) {
        ssize_t n = fd_send(a->sock, a->out.data + done, a->out.len - done, NULL, 0, 0);
        if (n < 0) {
            return (int)n;
        }
        done += (size_t)n;
    }
    a->out.len = 0;
    a->sent_ms = clock_ms();
    return 0;
}

int agent_tick(struct agent *a)
{
    const struct files_head tick = {.type = FILES_TICK};

    if (clock_ms() - a->sent_ms < TICK_MS) {
        return 0;
    }
    /* Beside a->out, in which a message may be growing. */
    ssize_t n = fd_send(a->sock, &tick, sizeof(tick), NULL, 0, 0);
    a->sent_ms = clock_ms();
    return n == sizeof(tick) ? 0 : n < 0 ? (int)n : -EPIPE;
}

static int64_t nanoseconds(struct timespec t)
{
    int64_t ns;

    if (__builtin_mul_overflow((int64_t)t.tv_sec, (int64_t)NS_PER_SEC, &ns) ||
        __builtin_add_overflow(ns, (int64_t)t.tv_nsec, &ns)) {
        return t.tv_sec < 0 ? INT64_MIN : INT64_MAX;
    }
    return ns;
}

struct files_info agent_info(const struct stat *st)
{
    return (struct files_info){
        .kind = S_ISREG(st->st_mode)   ? FILES_FILE
                : S_ISDIR(st->st_mode) ? FILES_DIRECTORY
                : S_ISLNK(st->st_mode) ? FILES_LINK
                                       : FILES_OTHER,
        .mode = st->st_mode & 0777,
        .size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
        .mtime_ns = nanoseconds(st->st_mtim),
        .ctime_ns = nanoseconds(st->st_ctim),
        .inode = st->st_ino,
    };
}

int agent_send_info(struct agent *a, const struct stat *st, const char *target)
{
    struct files_info info = agent_info(st);
    int r = files_msg_put_info(&a->out, &info, target);

    return r < 0 ? r : agent_send(a);
}

/* Where up to *ret_room bytes of the next message can be put. */
static int find_room(struct agent *a, char **ret, size_t *ret_room)
{
    int r = 0;

    if (a->out.len == sizeof(struct files_head) + FILES_BODY_MAX) {
        r = agent_flush(a);
    }
    if (r == 0 && a->out.len == 0) {
        r = files_msg_put(&a->out, FILES_DATA, NULL, 0);
    }
    size_t room = sizeof(struct files_head) + FILES_BODY_MAX - a->out.len;
    if (r == 0) {
        r = buf_reserve(&a->out, room);
    }
    if (r < 0) {
        return r;
    }
    *ret = a->out.data + a->out.len;
    *ret_room = room;
    return 0;
}

static void wrote(struct agent *a, size_t n)
{
    a->out.len += n;
    a->done.count += n;
}

int agent_write(struct agent *a, const void *data, size_t n)
{
    while (n > 0) {
        char *to;
        size_t room;
        int r = find_room(a, &to, &room);
        if (r < 0) {
            return r;
        }
        size_t part = MIN(n, room);
        memcpy(to, data, part);
        wrote(a, part);
        data = (const char *)data + part;
        n -= part;
    }
    return 0;
}

int agent_write_file(struct agent *a, int fd, uint64_t offset, uint64_t *n)
{
    while (*n > 0) {
        char *to;
        size_t room;
        int r = find_room(a, &to, &room);
        if (r < 0) {
            return r;
        }
        ssize_t got = pread(fd, to, MIN(*n, room), (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? -errno : 0;
        }
        wrote(a, (size_t)got);
        offset += (uint64_t)got;
        *n -= (uint64_t)got;
    }
    return 0;
}

int agent_flush(struct agent *a)
{
    if (a->out.len <= sizeof(struct files_head)) {
        a->out.len = 0;
        return 0;
    }
    struct files_head head = {.type = FILES_DATA,
                              .len = (uint32_t)(a->out.len - sizeof(struct files_head))};
    memcpy(a->out.data, &head, sizeof(head));
    return agent_send(a);
}

ssize_t agent_read(struct agent *a)
{
    struct files_head head;

    int r = agent_recv(a, &head);
    if (r < 0) {
        a->stream_is_open = false;
        return r;
    }
    if (head.type == FILES_DATA) {
        return (ssize_t)head.len;
    }
    a->stream_is_open = false;
    return head.type == FILES_END ? 0 : head.type == FILES_ABORT ? -ECANCELED : -EPIPE;
}
