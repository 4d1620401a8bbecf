/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between a supervisor (`husk up`) and the daemon that it starts, over a SEQPACKET socket
 * that the daemon has as descriptor 3.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SUPERVISOR_FD 3
#define SUPERVISOR_LIB_FD 4 /* the folder of husk's files, whose path may be closed to the daemon */
#define SUPERVISOR_LIB "/proc/self/fd/4"
#define SUPERVISOR_PLAN_FD 5        /* the plan of agents, sealed (config/agents_plan.h) */
#define SUPERVISOR_LISTENERS_MAX 15 /* one message carries them and the launcher's socket */
#define SUPERVISOR_SETTINGS_MAX ((size_t)64 << 10)

/*
 * To the daemon: the settings in force, as of config_pack(). The daemon reads no file itself, so it
 * can start even if a file was broken since the supervisor read it. First with descriptors, the
 * launcher's socket and the listening ones; then, without any, whenever they were read again.
 */
struct supervisor_settings {
    uint32_t kind; /* SUPERVISOR_SETTINGS */
    uint32_t n_listeners;
    /* the text */
};

/* From the daemon, once: it serves. */
struct supervisor_ready {
    uint32_t pid;
};

/*
 * From the daemon, once, after that: a program has run in a sandbox, or none can. The daemon has
 * printed why not.
 */
struct supervisor_verdict {
    uint32_t pid;
    uint32_t can_run;
    uint32_t zero;
};

/* From the daemon, after each SIGHUP: the supervisor reads settings again. */
struct supervisor_reread {
    uint64_t unused;
};

/* From a daemon that ends, after each workspace that it has saved: there is progress. */
struct supervisor_progress {
    uint32_t pid;
    uint32_t zero[3];
};

/*
 * After that, both ways: workers of served agents. The daemon names an agent by its index in the
 * plan (config/agents_plan.h) and a worker by a number that it has not used before; the supervisor
 * alone decides what runs for that index.
 */
enum supervisor_kind {
    /* from the daemon */
    WORKER_START = 1, /* agent, worker */
    WORKER_KILL,      /* worker; status: the signal, SIGTERM or SIGKILL */
    /* to the daemon */
    WORKER_STARTED, /* worker; one descriptor: its socket */
    WORKER_FAILED,  /* worker; status: the errno; it never ran */
    WORKER_EXITED,  /* worker; status: as of wait(); flags */
    SUPERVISOR_SETTINGS,
};

enum supervisor_worker_flags { WORKER_OUT_OF_MEMORY = 1 };

struct supervisor_worker {
    uint32_t kind; /* WORKER_* */
    uint32_t agent;
    uint32_t worker;
    int32_t status;
    uint32_t flags;
};
