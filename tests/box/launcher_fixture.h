/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launcher without the library in front of it: frames are sent and read as a client would that
 * does not play by the rules. What a test is not about ends it when it fails.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "wire/launcher_msg.h"

#define AUTO_LAUNCHER AUTO(launcher_close)

struct launcher_client {
    int sock;
    int supervisor; /* the supervisor that connected us, or -1 */
    pid_t pid;
    uint32_t seq;
    uint32_t ticket; /* supervised: of the template that is being defined */
};

/*
 * Starts one, which inherits what a test has left open to be inherited; not greeted. Skips the test
 * without root.
 */
struct launcher_client launcher_open(void);
/*
 * One that gives a zygote 2 s and a definition 500 ms, has ids for 448 boxes, and ends a second
 * after its supervisor.
 */
struct launcher_client launcher_open_impatient(void);
/* The same through a supervisor, which reports that the client runs as that user. */
struct launcher_client launcher_open_for(uid_t uid);
struct launcher_client launcher_open_impatient_for(uid_t uid);
/* The supervisor brings another client, which takes the place of this one; that hangs up. */
void launcher_succeed(struct launcher_client *c, uid_t uid);
/* Asks for all that was kept. True: that box is among it. */
bool launcher_finds_kept(struct launcher_client *c, uint32_t box_id);
/* Hangs up; the test fails if the launcher or a cgroup of it stays. */
void launcher_close(struct launcher_client *c);

/* Sends a frame as it is, of any size. Returns what sendmsg() did, or -errno. */
ssize_t launcher_send_raw(struct launcher_client *c, const void *data, size_t n, const int *fds,
                          size_t nfds);
/* Sends a request under the next number. */
void launcher_send(struct launcher_client *c, struct launcher_req *req, const int *fds,
                   size_t nfds);

/* The next answer or event, waited for 10 s. False: the launcher has hung up. */
bool launcher_next(struct launcher_client *c, struct launcher_rep *ret);
/* The answer to the last request; events on the way are dropped. */
struct launcher_rep launcher_answer(struct launcher_client *c);

/* Sends, and fails the test unless the answer is this event. */
struct launcher_rep launcher_call(struct launcher_client *c, struct launcher_req *req,
                                  const int *fds, size_t nfds, enum launcher_event want);

/* Waits until the launcher has hung up and ended; the test fails if it answers instead. */
void launcher_expect_hangup(struct launcher_client *c);

void launcher_greet(struct launcher_client *c);
uint32_t launcher_template(struct launcher_client *c, uint32_t boxes); /* begun */
/* Waits until the place of the first template is free: nothing is left of it. */
void launcher_wait_place(struct launcher_client *c);
void launcher_text(struct launcher_client *c, uint32_t id, enum launcher_op op, const char *text);

/* Supervised: asks for a template's definition. What the supervisor is asked; the answer comes when
 * the template has started. */
struct launcher_want launcher_ask(struct launcher_client *c, uint32_t id);

/* Gives a template this host's programs and husk's own files. */
void launcher_fill(struct launcher_client *c, uint32_t id);
/* A running template whose boxes are bash. */
uint32_t launcher_shell_template(struct launcher_client *c, uint32_t boxes);

/* What a client gives to a box: a socketpair, then pipes for stdin, stdout and stderr. */
void launcher_ends(int ours[LAUNCHER_BOX_FDS], int theirs[LAUNCHER_BOX_FDS]);

/* Our ends of a box's descriptors; the control socket comes first. */
struct launcher_box {
    uint32_t id;
    int ends[LAUNCHER_BOX_FDS];
};

/* Asks for a box, parked when deadline_ms is 0. */
struct launcher_box launcher_box(struct launcher_client *c, uint32_t template_id,
                                 uint64_t deadline_ms);
void launcher_box_release(struct launcher_box *box);
