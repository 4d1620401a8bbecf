/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a driver share; see driver.h. */
#pragma once

#include "runner/driver.h"

#define DRIVER_STDIO 3
#define DRIVER_EXIT_INTERRUPTED 130

struct driver {
    const struct driver_kind *kind;
    const char *path;      /* of the interpreter */
    pid_t pid;             /* of the interpreter; 0: none runs */
    int status;            /* how the last one ended */
    int link;              /* -1: none */
    int signals;           /* signalfd of SIGCHLD */
    struct buf out;        /* for the link, not sent yet */
    struct buf in;         /* from the link, not taken yet */
    struct frame_head run; /* that is being served */
    bool is_open;          /* and has no answer yet */
    uint32_t number;       /* of that run */
    int stdio[DRIVER_STDIO];
    int script;      /* a command that is too long for an argument; -1: none */
    struct buf done; /* the answer, a frame that has begun */
};

enum driver_news { DRIVER_NOTHING, DRIVER_OVER, DRIVER_BROKEN };

struct driver_kind {
    const char *name;
    bool needs_link; /* without it the interpreter is of no use any more */
    /* Starts the interpreter and waits until it listens. NULL: each run starts its own. */
    int (*start)(struct driver *d, struct err *e);
    int (*begin)(struct driver *d, const struct buf *body, struct err *e); /* hands a run over */
    /* Takes what has arrived. OVER: the run is, and d->done has its fields. */
    enum driver_news (*hear)(struct driver *d);
    /* A signal was sent to the run, which is over: returns once it cannot hit the next one. */
    void (*settle)(struct driver *d);
    /* In a copy of the driver: an interpreter with all that the old one has. NULL: it cannot. */
    int (*copy)(struct driver *d, int state, struct err *e);
    /* Writes what the interpreter has to that descriptor. */
    int (*save)(struct driver *d, int state, struct err *e);
};

extern const struct driver_kind driver_shell;
extern const struct driver_kind driver_command;
extern const struct driver_kind driver_node;

/* driver_link.c: the interpreter's process and the socket to it */

/* link_fd: its end of a new link becomes that; -1: it has none, and stdio are the run's. */
int driver_spawn(struct driver *d, char *const *argv, int link_fd, struct err *e);
/* Sends, receives, or sees the interpreter's end, for which it returns false. -1: no time limit. */
bool driver_exchange(struct driver *d, int timeout_ms);
void driver_close_link(struct driver *d);
void driver_kill(const struct driver *d); /* the interpreter, if it runs */
bool driver_was_signalled(void);          /* since driver_forget_signal() */
void driver_forget_signal(void);          /* before a run */
int driver_watch_signals(struct driver *d);
/*
 * SIGINT for those of our group that would have died of it: one that was just being forked when it
 * came has missed it.
 */
void driver_signal_again(void);
/* Until SIGINT is not pending for it: its handler then runs before it reads anything. */
void driver_await_signal(pid_t pid);

/* driver_artifacts.c: names of files in the workspace that changed since then, as a JSON array */
uint64_t artifacts_now(void);
void artifacts_since(uint64_t start_ns, struct buf *ret);
