/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the launcher and a zygote: fixed-size frames over a SEQPACKET socket.
 *
 * A zygote runs a template's preloads, so the launcher checks its answers as it checks a client's
 * requests, and kills a zygote that sends a malformed one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"

/* Descriptors of a SPAWN: control socket, stdin, stdout, stderr, then cgroup.procs files. */
#define ZYGOTE_SPAWN_FDS 4
#define ZYGOTE_CGROUP_FDS_MAX 6 /* CGROUP_PROCS_MAX: a box's set-up has room for no more */

struct zygote_req { /* SPAWN is the only request */
    uint32_t box_id;
    uint32_t block;       /* which of the zygote's id blocks, from 1; 0: single-id map */
    uint32_t mode;        /* enum launcher_mode */
    uint32_t warmth;      /* enum launcher_warmth */
    uint32_t seccomp;     /* index of the profile */
    int32_t landlock_abi; /* what the launcher promises; 0: the host has none */
    uint32_t limit_data;  /* no cgroup limits memory: limit each process */
    struct limits limits;
};

enum zygote_event {
    ZYGOTE_READY = 1, /* preloads done, waiting for SPAWN */
    ZYGOTE_BROKEN,    /* cannot serve: err says why (a preload that fails) */
    ZYGOTE_SPAWNED,   /* one descriptor: the box's pidfd */
    ZYGOTE_REFUSED,   /* SPAWN failed: err */
    ZYGOTE_EXITED,    /* the box's first process is gone: wait status, rusage */
};

struct zygote_rep {
    uint32_t event;
    uint32_t box_id;
    int32_t wait_status;
    uint64_t cpu_ns;     /* rusage, for hosts without cgroups */
    uint64_t memory_max; /* bytes */
    struct err err;
};

bool zygote_req_check(const struct zygote_req *req, size_t n, size_t nfds);
bool zygote_rep_check(const struct zygote_rep *rep, size_t n, size_t nfds);
