/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of values by size, as Prometheus' histograms have them. A plain value; adding is cheap. */
#pragma once

#include <stdint.h>

#define HISTOGRAM_BUCKETS 12

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS + 1]; /* up to each bound, not cumulated; the last: beyond */
    double sum;
};

/* Upper bounds, ascending. */
extern const double histogram_seconds[HISTOGRAM_BUCKETS]; /* 0.5 ms to 5 minutes */
extern const double histogram_bytes[HISTOGRAM_BUCKETS];   /* 1 MiB to 8 GiB */

void histogram_add(struct histogram *h, const double bounds[HISTOGRAM_BUCKETS], double value);
uint64_t histogram_count(const struct histogram *h); /* of all values */
