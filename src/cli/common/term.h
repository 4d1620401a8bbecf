/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written to the user: program output made harmless on terminals, colours, error lines.
 *
 * Text from a box can drive a terminal: set its title, fill the clipboard, make it type. On a
 * terminal control characters (C0 but newline and tab, DEL, C1, bytes that are not UTF-8) are
 * therefore shown as \xNN. Elsewhere bytes pass unchanged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

struct term_out {
    int fd;
    bool filter;
    bool mid_line; /* the last byte written was not a newline */
    int error;     /* -errno of the first write that failed; nothing is written after it */
    char held[4];  /* start of a UTF-8 sequence whose rest has not arrived */
    size_t n_held;
};

/*
 * Opens what of descriptors 0, 1 and 2 the caller left closed, so that no file of ours lands there.
 * Reading then finds the end; writing fails and is reported.
 */
int term_guard_stdio(void);

/* raw: pass everything through, also to a terminal. */
void term_out_init(struct term_out *o, int fd, bool raw);
void term_out_write(struct term_out *o, const char *data, size_t n);
void term_out_end(struct term_out *o);      /* shows what is held: no more will come */
void term_out_line_end(struct term_out *o); /* ends the line if one is begun */
void term_out_code(struct term_out *o, const char *code); /* our own escape sequence, unfiltered */

bool term_has_color(int fd); /* a terminal, NO_COLOR not set, TERM not "dumb" */

/* One line "program: message" on stderr, control characters shown as \xNN. */
void term_say(const char *program, const char *fmt, ...) PRINTF_LIKE(2, 3);
