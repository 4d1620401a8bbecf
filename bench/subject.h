/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Husk as the contender. Uses the public interface only, and checks every run: the output is
 * right, isolation is full, and the box came from the pool exactly if it should.
 */
#pragma once

#include "bench.h"
#include "husk/husk.h"

struct subject {
    const struct world *world;
    const char *template_name;
    const char *code;
    const char *expect;         /* its whole stdout */
    bool warm;                  /* boxes come from the pool */
    struct husk_engine *engine; /* owned */
};

/* Opens an engine and starts the template, so that a later run finds its zygote. */
int subject_open(struct subject *s, uint32_t pool_max, struct err *e);
void subject_close(struct subject *s);

/* One run, checked; ms until husk_run() returned. The signature is that of a contender. */
int subject_once(void *subject, double *ret, struct err *e);

/*
 * Likewise with a pool that refills itself: in a closed loop a run may find it empty and make its
 * own box.
 */
int subject_once_pooled(void *subject, double *ret, struct err *e);

/*
 * Parks that many boxes and stops refilling: what is timed next is runs alone. Likewise a
 * contender's.
 */
int subject_fill(void *subject, int boxes, struct err *e);

/* Keeps that many boxes parked from now on, refilled as they are used. */
int subject_pool(struct subject *s, uint32_t min, uint32_t max, struct err *e);
int subject_wait(struct subject *s, uint32_t parked, struct err *e);

/* Runs a spec and checks that it completed in full isolation. The result is the caller's. */
int subject_run(struct subject *s, const struct husk_spec *spec, struct husk_result **ret,
                struct err *e);

/* One cell in a live session, checked; ms until husk_session_run() returned. */
int subject_cell(struct husk_session *session, uint32_t context, const char *code,
                 const char *output, double *ret, struct err *e);

/* Copies the library's error to *e; returns -1. */
int subject_error(const struct husk_error *h, struct err *e);
