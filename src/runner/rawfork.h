/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork() with namespaces and a pidfd, past libc and past the language's at-fork hooks.
 *
 * Only sound in a process with a single thread that holds no lock. What the hooks would have done
 * and boxes need (new seeds) is done by the runtime; see runtimes/python/reseed.py.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* 0 in the child, its pid in the parent, or -errno. *pidfd is owned by the parent. */
pid_t rawfork(uint64_t flags, int *pidfd);

/* The same without namespaces and pidfd, by clone(2): inside a box, clone3(2) does not exist. */
pid_t rawfork_plain(void);
