/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results as JSON: the one writer of the shape that is recorded and that /api/v1 shows
 * (api/v1_schemas.yaml). Claims of a box are parsed here, once; a result is built once, when its
 * execution ends. NULL when memory is gone.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "husk/husk.h"

#define EXIT_NO_RESULT 125

/* termination.cause of an execution that the server could not run or has lost. */
#define RESULT_CAUSE_SERVER "server"

json_t *result_json(const struct husk_result *r);
/* The same of an execution that has no result: *e is why. */
json_t *result_fault_json(const struct husk_result *so_far, const struct err *e);
/* Of an execution that still runs: what it has written and shown so far. */
json_t *result_so_far_json(const struct buf *out, const struct buf *err,
                           const struct husk_result *r);
/* Of one that a restart of the server took away. */
json_t *result_lost_json(const struct buf *out, const struct buf *err);
/* One display, as an item of `outputs`. */
json_t *result_display_json(const struct husk_display *d);

/*
 * JSON of a box with more values than that: as a tree it would take memory by the gigabyte, and
 * time that all other clients wait for.
 */
#define RESULT_VALUES_MAX 200000
bool result_is_too_much(const char *json);
