/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work done in processes of its own: as much as possible for some seconds, or a given number of
 * times with its CPU time counted. Works for us and for peers alike.
 */
#pragma once

#include "base/err.h"

struct job {
    const char *name;
    int (*open)(void *user, struct err *e); /* in the worker, untimed; may be NULL */
    int (*once)(void *user, double *ret, struct err *e);
    void (*close)(void *user); /* may be NULL */
    void *user;
};

/*
 * Several workers at once, each in a closed loop for that long: how many per second they did
 * together.
 */
int work_rate(const struct job *job, int workers, double seconds, double *ret, struct err *e);

/*
 * CPU time in ms per run over n runs, of all processes involved and with their end; start-up is not
 * counted.
 */
int work_cpu(const struct job *job, int n, double *ret, struct err *e);
