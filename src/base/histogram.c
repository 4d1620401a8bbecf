/* SPDX-License-Identifier: Apache-2.0 */
/* See histogram.h. */
#include "base/histogram.h"

#include "base/units.h"

const double histogram_seconds[HISTOGRAM_BUCKETS] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                     0.1,    0.25,  1,      5,     30,   300};
const double histogram_bytes[HISTOGRAM_BUCKETS] = {
    1 * (double)MIB,  4 * (double)MIB,   16 * (double)MIB,  32 * (double)MIB,
    64 * (double)MIB, 128 * (double)MIB, 256 * (double)MIB, 512 * (double)MIB,
    1 * (double)GIB,  2 * (double)GIB,   4 * (double)GIB,   8 * (double)GIB};

void histogram_add(struct histogram *h, const double bounds[HISTOGRAM_BUCKETS], double value)
{
    unsigned i = 0;

    while (i < HISTOGRAM_BUCKETS && value > bounds[i]) {
        i++;
    }
    h->counts[i]++;
    h->sum += value;
}

uint64_t histogram_count(const struct histogram *h)
{
    uint64_t n = 0;

    for (unsigned i = 0; i <= HISTOGRAM_BUCKETS; i++) {
        n += h->counts[i];
    }
    return n;
}
