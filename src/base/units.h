/* SPDX-License-Identifier: Apache-2.0 */
/* Units of sizes and times. */
#pragma once

#include <stdint.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* Signed, as in a timespec; in arithmetic with unsigned numbers they become unsigned. */
#define NS_PER_MS 1000000L
#define NS_PER_SEC 1000000000L
