/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A back end without walls, for tests of core and service: its guests are fibers of this thread
 * that speak our frames over socket pairs. Needs neither launcher nor root.
 *
 * A guest runs code of one word and perhaps a text:
 *
 *     print TEXT    writes it to stdout, exit code 0
 *     value TEXT    the value of a cell
 *     exit N        ends with that code
 *     hang          until it is interrupted or killed
 *     die           the guest ends, by SIGKILL, without an answer
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

struct fake;

/* Freed by backend_close(), which engine_close() calls: outside of fibers. */
struct fake *fake_new(void);
struct backend *fake_backend(struct fake *f);

/* What the next guests do before they are ready. */
void fake_lose_births(struct fake *f, unsigned n);  /* so many die together with their zygote */
void fake_break_births(struct fake *f, unsigned n); /* so many say that their set-up failed */

void fake_end_zygotes(struct fake *f);            /* and their guests with them */
void fake_end_guest(struct fake *f, uint32_t id); /* by SIGKILL */

unsigned fake_templates_opened(const struct fake *f);
unsigned fake_guests_made(const struct fake *f);
unsigned fake_guests_alive(const struct fake *f);
