/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes as the host sees them: those of an engine, and what the kernel shows of them.
 *
 * An engine's launcher is a child of the test, the guard and the zygotes are children of the
 * launcher, and the first processes of boxes are children of their zygote.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PROC_MAX 1024

struct proc_list {
    pid_t pids[PROC_MAX];
    size_t n;
};

/* The one child of this process that is a launcher; its guard; its zygote, if it has one only. */
pid_t proc_launcher(void);
pid_t proc_guard(pid_t launcher);
pid_t proc_closer(pid_t launcher);
pid_t proc_zygote(pid_t launcher);
void proc_zygotes(pid_t launcher, struct proc_list *ret); /* all */

void proc_children(pid_t pid, struct proc_list *ret);
void proc_tree(pid_t pid, struct proc_list *ret); /* the process and everything below it */

/* A file of /proc/PID as text, valid until the next call. */
const char *proc_file(pid_t pid, const char *name);
/* What follows "key:" in /proc/PID/status, up to the end of the line. */
void proc_status(pid_t pid, const char *key, char *ret, size_t size);
void proc_link(pid_t pid, const char *name, char *ret, size_t size);
size_t proc_count_fds(pid_t pid);
size_t proc_count_lines(pid_t pid, const char *name);

bool proc_is_alive(pid_t pid); /* a zombie is not */
void proc_kill(pid_t pid);     /* SIGKILL; returns when it is not alive */
/* Waits until none of them is alive. */
void proc_wait_gone(const struct proc_list *list);

/* The cgroup directories of a launcher and its boxes in all hierarchies. */
size_t proc_count_cgroups(pid_t launcher);
void proc_wait_no_cgroups(pid_t launcher); /* waits until they are gone */
