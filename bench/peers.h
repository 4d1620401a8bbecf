/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we are compared with: programs that anyone can run. A peer is a command whose output is
 * checked every time, so that a failing command is never taken for a fast one.
 */
#pragma once

#include "bench.h"

#define PEER_ARGS_MAX 64

struct peer {
    char name[64];
    char absent[200];   /* why it cannot run here; empty: it can */
    double recorded_ms; /* p50 on a quiet machine; 0: never recorded */
    char args[PEER_ARGS_MAX][1024];
    int n_args;
    int id_arg;       /* which argument is a container's name, new for every run; 0: none */
    char expect[256]; /* its whole stdout; empty: not looked at */
    int mount_ns;     /* entered around the run; -1: ours. Owned */
};

/* E: vfork, exec of `true`, wait. Always there. */
void peer_true(struct peer *ret);

/*
 * Python with the code, isolated by something else. Tried once here: `absent` says why it does not
 * work.
 */
void peer_bwrap(const char *code, const char *expect, struct peer *ret);
void peer_docker(const struct world *w, const char *code, const char *expect, struct peer *ret);
void peer_crun(const struct world *w, const char *code, const char *expect, struct peer *ret);
void peer_runsc(const struct world *w, const char *code, const char *expect, struct peer *ret);

void peer_release(struct peer *peer);

/* Runs a peer once: ms from spawn to reaped. The signature is that of a contender. */
int peer_once(void *peer, double *ret, struct err *e);

/* The same, with what it wrote to stdout. */
int peer_capture(const struct peer *peer, char *ret, size_t size, struct err *e);

/* For describing peers. */
void peer_begin(struct peer *p, const char *name, double recorded_ms, const char *expect);
void peer_add(struct peer *p, const char *const *args); /* NULL-terminated */
void peer_try(struct peer *p);

/*
 * What of this host Python needs in a sandbox, NULL-terminated: links stay links, the rest is
 * mounted read-only.
 */
extern const char *const peer_host_paths[];
bool peer_host_link(const char *path, char *target, size_t size);
