/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a supervisor (`husk up`) and the daemon it starts tell each other, over a SEQPACKET socket
 * that the daemon has as descriptor 3.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SUPERVISOR_FD 3
#define SUPERVISOR_LIB_FD 4 /* the folder of husk's files, which the daemon may have no way to */
#define SUPERVISOR_LIB "/proc/self/fd/4"
#define SUPERVISOR_PLAN_FD 5        /* the plan of agents, sealed (config/agents_plan.h) */
#define SUPERVISOR_LISTENERS_MAX 15 /* one message carries them and the launcher's socket */
#define SUPERVISOR_SETTINGS_MAX ((size_t)64 << 10)

/*
 * To the daemon: the settings that count, as of config_pack(). It reads no file itself, so that one
 * which was broken after it was read keeps no daemon from starting. First with descriptors, the
 * launcher's socket and the listening ones; then, without any, whenever they were read again.
 */
struct supervisor_settings {
    uint32_t kind; /* SUPERVISOR_SETTINGS */
    uint32_t n_listeners;
    /* the text */
};

/* Back, once: it serves. */
struct supervisor_ready {
    uint32_t pid;
};

/* Back, whenever somebody sent it SIGHUP: settings are to be read again. */
struct supervisor_reread {
    uint64_t unused;
};

/*
 * After that, both ways: workers of served agents. The daemon names an agent by its index in the
 * plan (config/agents_plan.h) and a worker by a number that it has not used before; what is run
 * for that index is the supervisor's business alone.
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
