/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program that is trusted but must not take the machine: real limits, and nothing of it
 * left afterwards.
 *
 *   front     the process that calls limited_run(): makes the cgroup, passes signals on, watches
 *   its parent
 *   keeper    its child: starts the program, watches the memory limit, at the end kills what is
 *   left
 *   program   and all that it starts, inside the cgroup
 *
 * Front and keeper each clean up when the other is killed, so a kill -9 leaves nothing running. If
 * both are killed, the program dies with the keeper, and the next run or launcher sweeps the
 * cgroup with what is in it.
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
    const char *name;      /* str_is_name(); what its cgroup is called */
    char *const *argv;     /* found by PATH; ends with NULL */
    uint64_t memory_bytes; /* 0: no limit, as for the next two */
    uint32_t cpu_milli;
    uint32_t pids;
    bool best_effort; /* without the right to make cgroups: weak limits instead of a refusal */
    void (*on_start)(void *user, pid_t pid, bool weak); /* it runs */
    void *user;
};

struct limited_end {
    int exit_code;      /* its own, or 128 + signal */
    int signal;         /* that killed it; 0: none */
    uint64_t oom_kills; /* processes that the memory limit killed */
    uint64_t peak_memory;
    uint64_t cpu_ms;
};

/*
 * Takes the whole process over: blocks signals, closes descriptors that were inherited from the
 * parent (the program has them), and returns when nothing of the program is left. The program's
 * end is a result; -1 says why it did not run or cannot be told how it ended.
 */
int limited_run(const struct limited_options *o, struct limited_end *ret, struct err *e);

/* True if the program was ended by its memory limit. */
bool limited_is_out_of_memory(const struct limited_end *end);

/* limited_report.c: the lines that `husk limited --report-fd` writes; reads the last of them. */
#define LIMITED_REPORT_MAX 512
int limited_report_start(int fd, pid_t pid, bool weak); /* 0 or -errno */
int limited_report_end(int fd, const struct limited_end *end);
bool limited_report_read(const char *text, struct limited_end *ret); /* false: it has no end */
