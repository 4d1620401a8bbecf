/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of one figure, and what is said about them. Knows nothing of what was measured. */
#pragma once

#include <stddef.h>

#include "base/attr.h"

struct samples {
    double *v; /* owned */
    size_t n;
    size_t cap;
};

#define AUTO_SAMPLES AUTO(samples_release)

void samples_release(struct samples *s);
int samples_add(struct samples *s, double value); /* 0 or -ENOMEM */

struct summary {
    size_t n;
    double min;
    double p50;
    double p99;
};

struct summary samples_summary(struct samples *s); /* sorts them; all zero when there are none */
