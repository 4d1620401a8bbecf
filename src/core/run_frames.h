/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that a box sends during a run, taken into the run's result. Hostile input. */
#pragma once

#include <stdbool.h>

#include "wire/frame.h"

struct run;

/* False: the box broke the protocol. */
bool run_take_frame(struct run *run, const struct frame_head *head, const char *body);
