/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a trusted program with limits, and leaves no process of it behind.
 *
 *   front     the process that calls limited_run(): creates the cgroup, passes on signals, watches
 *             its parent
 *   keeper    its child: starts the program, watches the memory limit, kills what is left
 *   program   with its descendants, inside the cgroup
 *
 * Front and keeper each clean up when the other is killed, so a kill -9 leaves no process. If both
 * are killed, the program dies with the keeper, and the next run or launcher kills what is left in
 * the cgroup and removes it.
 *
 * This is no sandbox: the program has all rights of its user.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct limited_options {
    const char *name;      /* of the cgroup and in messages; str_is_name() */
    char *const *argv;     /* searched in PATH; ends with NULL */
    uint64_t memory_bytes; /* 0: no limit, as for the next two */
    uint32_t cpu_milli;
    uint32_t pids;
    bool best_effort; /* weak limits instead of a failure if cgroups cannot be created */
    void (*on_start)(void *user, pid_t pid, bool weak); /* called when the program runs */
    void *user;
};

struct limited_end {
    int exit_code;      /* its own, or 128 + signal */
    int signal;         /* the signal that killed it; 0: none */
    uint64_t oom_kills; /* processes that the memory limit killed */
    uint64_t peak_memory;
    uint64_t cpu_ms;
};

/*
 * Takes over the whole process: blocks signals, closes descriptors inherited from the parent (the
 * program has them), and returns when all processes of the program have ended. The program's end is
 * a result; -1 if it did not run or its end is unknown.
 */
int limited_run(const struct limited_options *o, struct limited_end *ret, struct err *e);

/* True if the program was ended by its memory limit. */
bool limited_is_out_of_memory(const struct limited_end *end);

/* limited_report.c: writes the lines of `husk limited --report-fd`, and reads the last of them. */
#define LIMITED_REPORT_MAX 512
int limited_report_start(int fd, pid_t pid, bool weak); /* 0 or -errno */
int limited_report_end(int fd, const struct limited_end *end);
/* false: there is no "ended" line */
bool limited_report_read(const char *text, struct limited_end *ret);
