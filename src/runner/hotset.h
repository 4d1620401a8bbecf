/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages that every box of a template needs first, found once.
 *
 * A fork of frozen memory (remap.h) starts without page tables: each first touch is a fault of
 * some microseconds, and a first `print` touches some hundred pages. One rehearsal child runs that
 * print and records which pages it has read and which it has copied. The zygote maps the former,
 * and boxes inherit them; every box asks for the latter in one call.
 */
#pragma once

#include <stdbool.h>

/*
 * Forks a rehearsal. True in that child, which then does what boxes do first and calls
 * hotset_save(). The parent waits for it and remembers what it saved.
 */
bool hotset_rehearse(void);
void hotset_save(void) __attribute__((noreturn));

/*
 * In a new box: faults the pages in, if any were rehearsed. It only saves time, so failure on an
 * old kernel is ignored.
 */
void hotset_touch(void);
