/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of husk_doctor() share: probes run in children and fill in rows. */
#pragma once

#include "base/str.h"
#include "husk/husk.h"

#define DOCTOR_FACT(row, ...) (void)str_format((row)->fact, sizeof((row)->fact), __VA_ARGS__)

/*
 * Runs probe in a child: what it does to itself is gone with it. Its exit code is an errno, 0 for
 * success.
 */
int doctor_in_child(int (*probe)(void));

/* Why unshare(CLONE_NEWUSER) answers err, and what to do about it. */
void doctor_explain_namespaces(struct husk_layer *row, int err);
