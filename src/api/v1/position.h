/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place in the events of an execution: how much of it a reader has. As text it is the id of an
 * event, OUT.ERR.OUTPUTS.STAGE. Pure.
 */
#pragma once

#include <stdint.h>

#define V1_POSITION_MAX 96 /* as text */

/* The last change of state that a reader has seen. */
enum v1_stage {
    V1_STAGE_NONE,
    V1_STAGE_PENDING,
    V1_STAGE_RUNNING,
    V1_STAGE_ENDED,
    V1_STAGE_RESULT,
};

struct v1_position {
    uint64_t out;
    uint64_t err;
    uint64_t outputs;
    uint64_t stage; /* enum v1_stage */
};

/* "4096.0.0.2"; parts that are left out are 0. 0 or -EINVAL. */
int v1_position_parse(const char *text, struct v1_position *ret);
void v1_position_format(const struct v1_position *p, char dst[static V1_POSITION_MAX]);
