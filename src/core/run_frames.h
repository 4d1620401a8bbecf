/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that a box sends during a run, taken into the run's result. Hostile input. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "husk/husk.h"
#include "wire/frame.h"

struct run;

/* Whether the runner of this language does all that the spec asks for; name is the template's. */
int run_check_language(const struct husk_spec *spec, enum husk_language language, const char *name,
                       struct err *e);

/* The same for a cell of a context. */
int run_check_cell(const struct husk_spec *spec, enum husk_language language, struct err *e);

/* False: the box broke the protocol. */
bool run_take_frame(struct run *run, const struct frame_head *head, const char *body);

/* A field's bytes with a NUL behind them; NULL when memory is gone. */
char *run_copy_field(const struct frame_field *f);

/* run_display.c: a DISPLAY frame. False: the box broke the protocol. */
bool run_take_display(struct run *run, const char *body, size_t len);
void run_display_release(struct husk_display *d); /* frees what it holds, not itself */
