/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System-call filters, compiled at build time from profiles/<name>.seccomp.
 *
 * The programs are constants of the binary: nothing is parsed or allocated when one is loaded.
 */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

struct seccomp_code {
    const struct sock_filter *code;
    unsigned short len;
};

/*
 * A policy, as one program and as two that are the same together. A zygote starts with the early
 * one, which allows what the set-up of a box needs; its boxes inherit that, and loading the late
 * one, which takes those calls away again, takes half the time.
 */
struct seccomp_program {
    const char *name;   /* "default", "strict", "debug" */
    const char *digest; /* first 16 hex digits of the whole program's SHA-256, for receipts */
    struct seccomp_code whole;
    struct seccomp_code early;
    struct seccomp_code late;
};

/* Those of boxes; the index of one is its number in launcher frames. */
extern const struct seccomp_program seccomp_programs[];
extern const size_t seccomp_programs_n;

extern const struct seccomp_program seccomp_daemon; /* huskd's own */

const struct seccomp_program *seccomp_find(const char *name); /* NULL: no such profile */

/* Loads it for this thread. Needs no_new_privs. Returns 0 or -errno. Async-signal-safe. */
int seccomp_load(const struct seccomp_code *c);
