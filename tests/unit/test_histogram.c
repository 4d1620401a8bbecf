/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/histogram.h. */
#include "base/histogram.h"

#include "base/attr.h"
#include "tap.h"

TEST(a_value_counts_in_the_first_bucket_that_has_room)
{
    struct histogram h = {.sum = 0};

    histogram_add(&h, histogram_seconds, 0);
    histogram_add(&h, histogram_seconds, 0.0005); /* a bound belongs to its bucket */
    histogram_add(&h, histogram_seconds, 0.0006);
    histogram_add(&h, histogram_seconds, 1000);
    CHECK_INT(h.counts[0], 2);
    CHECK_INT(h.counts[1], 1);
    CHECK_INT(h.counts[HISTOGRAM_BUCKETS], 1);
    CHECK_INT(histogram_count(&h), 4);
    CHECK(h.sum > 1000 && h.sum < 1000.01);
}

TEST(bounds_ascend)
{
    const double *const all[] = {histogram_seconds, histogram_bytes};

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        for (size_t k = 1; k < HISTOGRAM_BUCKETS; k++) {
            CHECK(all[i][k] > all[i][k - 1]);
        }
    }
}
