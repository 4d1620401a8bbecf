/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of service share: a service with a fake back end and a data folder of its own. */
#pragma once

#include "config/config.h"
#include "fake_backend.h"
#include "service/service.h"

#define WORDS(...) ((const char *[]){__VA_ARGS__, NULL})

struct fixture {
    char dir[64];
    struct config config;
    struct fake *fake;
    struct service *svc;
};

/*
 * Runs fn in a fiber with a service that has these settings ("max_executions=1", ...; NULL: the
 * defaults), which keeps no pools and preloads nothing. All sessions must have ended when fn
 * returns.
 */
void fixture_serve(const char *const *settings, void (*fn)(struct fixture *f));

/* A persistent session of the python template. Fails the test if it cannot be made. */
struct session *fixture_create(struct fixture *f);
/* Ends it as a client does, and releases it. */
void fixture_end(struct fixture *f, struct session *s);

struct execution_view fixture_view(struct execution *x);

/* Starts code in a context; NULL and *e if that is refused. */
struct execution *fixture_start(struct session *s, uint32_t context, const char *code,
                                struct err *e);
/* The same, which must not be refused. */
struct execution *fixture_begin(struct session *s, const char *code);
const char *fixture_state(struct execution *x); /* "pending", ... */
/* Waits for its end, releases it, and checks its state and exit code. */
void fixture_check_end(struct execution *x, int state, int exit_code);
