/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch becomes SQL: each change is one or two statements, the batch a savepoint around them.
 * Runs on the writer thread inside its transaction. Does not begin, commit or report.
 */
#pragma once

#include "store/internal.h"

enum apply_verdict {
    APPLY_DONE,
    APPLY_BATCH_FAILED,   /* undone; the result of the batch says why. Others go on */
    APPLY_STORAGE_FAILED, /* the whole transaction is lost; *e says why */
};

enum apply_verdict apply_batch(struct conn *c, struct store_batch *batch, struct err *e);

/* Runs a statement without parameters and rows. */
int apply_statement(struct conn *c, enum conn_statement which, const char *doing, struct err *e);
