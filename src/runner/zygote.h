/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zygote's loop: waits for requests of the launcher, forks boxes, reports how they ended.
 *
 * Everything here runs in the template's warm process, which must stay exactly as it was when its
 * memory was frozen: no allocation, no stdio, static state only. That keeps forks cheap and boxes
 * alike. Never runs user code: zygote_serve() returns only in a new box.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct zygote_child {
    uint32_t mode;   /* enum launcher_mode */
    uint32_t warmth; /* enum launcher_warmth */
};

/*
 * Ends the process when the launcher ends. Returns in the child, fully isolated, control socket at
 * BOX_CONTROL_FD.
 */
void zygote_serve(struct zygote_child *ret);

/* Goes to the launcher when this template is ready: which preloads its boxes do without. */
void zygote_note(const char *message);

/* Tells the launcher that this template cannot work, and ends the process. */
void zygote_broken(const char *message) __attribute__((noreturn));
