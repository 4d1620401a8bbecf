/* SPDX-License-Identifier: Apache-2.0 */
/* Time that only moves forward. Limits are never measured with the wall clock. */
#pragma once

#include <stdint.h>

uint64_t clock_ns(void); /* CLOCK_MONOTONIC */
uint64_t clock_ms(void);
uint64_t clock_boot_ns(void); /* CLOCK_BOOTTIME: goes on while the machine sleeps */

/* Milliseconds since 1970, for records that people read. */
int64_t clock_wall_ms(void);
