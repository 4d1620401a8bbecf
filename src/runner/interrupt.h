/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts of a session's cells: each hits the run that it was meant for, or nothing.
 *
 * PID 1 sends the signal, the context runs the cell, and neither can wait for the other. So they
 * share a page in which a context states which run is open. PID 1 sends SIGINT only while it is
 * open; an interrupt of a run that has not been read yet is stored there, and one of a run that is
 * over is dropped. User code can write to the page: it then loses its own interrupts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* In PID 1, before it forks a context. 0 or -errno. */
int interrupt_open(void);
/*
 * SIGINT for the run with this token, in a context and in what it has started. An empty token means
 * whichever run is open. False: that run is over.
 */
bool interrupt_send(pid_t context, const uint8_t *token);
void interrupt_forget(pid_t context); /* it has ended */

/* In a new context. */
void interrupt_attach(void);
/* The run begins. True: it has been interrupted before that, and no signal was sent. */
bool interrupt_begin(const uint8_t *token);
/* The run is over; may be called twice. True: a signal was sent and has been delivered. */
bool interrupt_end(void);
