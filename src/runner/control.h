/* SPDX-License-Identifier: Apache-2.0 */
/* The box's end of its control socket: blocking frames in and out. Runs inside the box. */
#pragma once

#include "base/buf.h"
#include "base/fd.h"
#include "wire/frame.h"

/* Sends a finished frame. 0 or -errno. */
int control_send(int fd, const struct buf *frame);

/*
 * Waits for a frame, and answers an empty PING meanwhile. 1 with head, body and descriptors (owned
 * by *fds); 0 at end of file; -errno, among them -EINTR only before the first byte.
 */
int control_recv(int fd, struct frame_head *head, struct buf *body, struct fd_set_msg *fds);

/*
 * The same for cells, which often follow each other at once. Call control_look() before it: it
 * polls for a moment if the next cell is expected soon, and then returns true: a signal during the
 * poll has interrupted nothing.
 */
bool control_look(int fd);
int control_recv_cell(int fd, struct frame_head *head, struct buf *body, struct fd_set_msg *fds);

/* READY with our pid. */
int control_send_ready(int fd);

/* FAILED with a text: only before READY. */
void control_send_failed(int fd, const char *message);

/* Tells the peer why a context could not be forked. The closed socket alone does not show it. */
void control_send_refused(int fd, int error);
