/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor's loop:
 *
 *   supervisor.c         start and end
 *   supervisor_loop.c    turns signals, messages and time into events
 *   supervisor_steps.c   what each event does in each phase
 */
#pragma once

#include <signal.h>

#include "supervisor/child.h"
#include "supervisor/definitions.h"
#include "supervisor/workers.h"

/* Beyond the drain time of requests and that of runs: workers end, files are saved. */
#define END_EXTRA_MS 30000

enum phase {
    STARTING, /* the first daemon runs and does not serve yet */
    SERVING,  /* a daemon runs */
    PAUSED,   /* the daemon has ended; the next one is started when due */

    /* On the way out: the loop ends when neither daemon nor workers run. */
    LOST, /* the launcher or the first daemon failed to start, or nothing can run */
    /* The operator asked for the end. Processes that do not end are killed when due. */
    CUT_SHORT, /* the daemon was told to end before it served */
    DRAINING,  /* the daemon was told to end */
    LAST,      /* a daemon saves files that another one could not, then ends */
    KILLING,   /* all are killed, again and again */
};

enum event {
    SERVES,
    CAN_RUN,    /* and programs run in sandboxes */
    CANNOT_RUN, /* or none does */
    SAVED,      /* one more workspace, before it ends */
    DAEMON_ENDED,
    LAUNCHER_ENDED,
    ASKED, /* by a signal, to end */
    DUE,
    EVENTS,
};

struct supervisor {
    struct child_kit kit;
    struct settings settings;
    int signals;
    sigset_t mask_before;
    struct child launcher;
    bool launcher_talks; /* false once its socket is closed on its side */
    struct definitions definitions;
    struct child daemon;
    struct workers *workers;
    int folder;   /* DATA */
    int pid_file; /* held locked */
    enum phase phase;
    uint64_t due; /* when DUE happens; 0: never */
    uint64_t daemon_started;
    unsigned pause_ms;
    bool failed;     /* the first daemon could not start */
    bool cannot_run; /* it did, and can make no box */
    bool greeted;    /* husk was reported to be ready */
};

/* Both may be called only while none runs. */
int supervisor_start_launcher(struct supervisor *s, struct err *e);
int supervisor_start_daemon(struct supervisor *s, struct err *e);

/* Takes the step of the current phase; status is that of the ended process, as of wait(). */
void supervisor_happen(struct supervisor *s, enum event event, int status);

/* Returns when daemon and workers have ended for good. */
void supervisor_loop(struct supervisor *s);
