/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version of the file: what may be opened, and how an older file becomes a current one.
 *
 * The version is PRAGMA user_version. A new column or table says in record.c since which version
 * it exists, which is all a migration needs; all of it happens in one transaction.
 */
#pragma once

#include "base/err.h"
#include "store/connection.h"

#define SCHEMA_VERSION 3
#define SCHEMA_APPLICATION 0x6875736b /* "husk" in PRAGMA application_id */

struct schema {
    int version;
    const struct record *records;
    size_t n;
};

extern const struct schema schema_current;

/* ERR_STORAGE when the file is damaged, not a store of ours, or newer than `s`. Changes nothing. */
int schema_check(struct conn *c, const struct schema *s, const char *path, struct err *e);

/* Brings an empty or older file that passed the check to the version of `s`. */
int schema_migrate(struct conn *c, const struct schema *s, struct err *e);
