/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers, sizes and durations that people type. The whole string must match; *ret is written only
 * on success. Returns 0, -EINVAL (not of that form) or -ERANGE (too large).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

int parse_u64(const char *s, uint64_t *ret); /* decimal digits only */
/* "4096", "64K", "256M", "1G", "512Mi", "2GB": powers of 1024 */
int parse_size(const char *s, uint64_t *ret);
/* "30" and "30s" are seconds; "500ms", "5m", "1h", "1.5" */
int parse_duration_ms(const char *s, uint64_t *ret);
/* "1" -> 1000, "0.5" -> 500: at most three decimals */
int parse_milli(const char *s, uint64_t *ret);
int parse_bool(const char *s, bool *ret); /* true, 1, yes, on; false, 0, no, off; any case */
