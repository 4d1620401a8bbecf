/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our end of a control socket into a box: of its first process, or of one context of a session.
 *
 * Everything read here comes from hostile code. Descriptors are never accepted, frames are
 * bounded, and a box that breaks the rules is given up. What is held of a frame is charged to the
 * box's share (budget.h) as it arrives, and a frame that was begun must be complete in time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/budget.h"
#include "wire/frame.h"

struct channel {
    int fd;
    struct buf inbox;
    bool leave_unread; /* a frame stays in the socket until it is dropped, where that is possible */
    unsigned stale_max;         /* frames of an earlier process's runs that may still come */
    bool pending;               /* the frame at the front was taken note of, and is dropped later */
    size_t unread;              /* bytes of the inbox that are still in the socket, too */
    uint64_t patience_ms;       /* with an end that takes nothing */
    struct budget_share *share; /* pays for the inbox; borrowed; NULL: not charged */
    size_t charged;             /* bytes of the inbox that were ever used since it was allocated */
    uint64_t begun_ms;          /* since when a part of a frame is there; 0: there is none */
    uint64_t frame_ms;          /* how long the rest of it may take */
};

/* Takes over the socket. */
void channel_init(struct channel *c, int fd);
void channel_release(struct channel *c);
/*
 * From now on only small frames come: those of a session's first process. They are read whatever
 * the box's contexts have used up, or none of these could be ended.
 */
void channel_keep_small(struct channel *c);

/*
 * 1: a frame is there (head, and body until channel_drop()); 0: not yet; -ENODATA: closed;
 * -EDQUOT: the box may not have so much held for it, and what was there is gone; -ETIME: a frame
 * was begun and not finished in time; any other -errno: it broke the rules. Never waits.
 */
int channel_frame(struct channel *c, struct frame_head *head, const char **body);
void channel_drop(struct channel *c, const struct frame_head *head);

/* When the frame that was begun must be there (clock_ms()); UINT64_MAX: none was. */
uint64_t channel_due_ms(const struct channel *c);
/* That time has passed; for a channel without a reader right now. */
bool channel_is_overdue(const struct channel *c);

/* Gives up what has arrived. Nothing can be read from the channel after that. */
void channel_discard(struct channel *c);

/* Drops the pending frame, if there is one. */
void channel_drop_pending(struct channel *c);

/*
 * Sends what the socket takes now of a finished frame and drops it from there; descriptors
 * (borrowed) go with the first byte. How many bytes, 0 when there is no room, or -1.
 */
ssize_t channel_send_some(struct channel *c, struct buf *frame, const int *fds, size_t nfds,
                          struct err *e);

/* Sends all of a frame that the other end has no reason not to take. Waits. */
int channel_send(struct channel *c, struct buf *frame, const int *fds, size_t nfds, struct err *e);
