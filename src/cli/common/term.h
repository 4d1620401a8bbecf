/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output to the user: program output made harmless on terminals, colours, error lines.
 *
 * Text from a box can control a terminal: set its title, fill the clipboard, make it type. On a
 * terminal, control characters (C0 but newline and tab, DEL, C1, bytes that are not UTF-8) are
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
    int error;     /* -errno of the first failed write; nothing is written after it */
    char held[4];  /* start of a UTF-8 sequence whose rest has not arrived */
    size_t n_held;
};

/*
 * Opens those of descriptors 0, 1 and 2 that the caller left closed, so that no file of ours gets
 * these numbers. Reads then return the end; writes fail and are reported.
 */
int term_guard_stdio(void);

/* raw: pass all bytes through, also to a terminal. */
void term_out_init(struct term_out *o, int fd, bool raw);
void term_out_write(struct term_out *o, const char *data, size_t n);
void term_out_end(struct term_out *o);      /* shows held bytes at the end of the stream */
void term_out_line_end(struct term_out *o); /* ends an unfinished line */
void term_out_code(struct term_out *o, const char *code); /* our own escape sequence, unfiltered */

bool term_has_color(int fd); /* a terminal, NO_COLOR not set, TERM not "dumb" */

/* Prints a line "program: message" on stderr, with control characters shown as \xNN. */
void term_say(const char *program, const char *fmt, ...) PRINTF_LIKE(2, 3);
