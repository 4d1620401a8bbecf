/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file worker that a process of the test plays at the other end of huskd's socket: it is ready,
 * waits for one request, and then does what the test wants.
 */
#pragma once

#include "files_fixture.h"

/* ---- what it says; the kernel may refuse to send, once huskd has hung up ---- */

void worker_say(int sock, uint32_t type, const void *body, size_t n);
void worker_say_done(int sock, uint64_t count); /* it went well */
void worker_say_info(int sock, struct files_info info);

/* One entry, a file unless it says otherwise, n bytes of name and target behind it, and DONE. */
void worker_say_entry(int sock, struct files_entry entry, const char *text, size_t n);
void worker_say_name(int sock, const char *name, size_t n);

/* Takes what comes, until nothing has come for a moment. */
void worker_take_all(int sock);

/* ---- huskd's side ---- */

struct worker_link {
    struct channel control;
    struct box_files *files;
};

struct worker_link worker_connect(void (*act)(int sock));
void worker_disconnect(struct worker_link *l);

/*
 * The request must fail with this status, and end the connection. A worker of another box, which is
 * honest, is asked afterwards and must answer.
 */
void worker_try(void (*act)(int sock), int (*request)(struct box_files *f, struct err *e),
                const char *want);
