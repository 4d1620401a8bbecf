/* SPDX-License-Identifier: Apache-2.0 */
/* The connection's inside, shared by native.c (talking) and native_open.c (beginning and end). */
#pragma once

#include "backend/native.h"

/* Somebody waits for the answer to a request. Lives on the waiter's stack. */
struct answer {
    struct answer *next;
    uint32_t seq;
    struct fiber *fiber;
    bool there;
    struct launcher_rep rep;
    void (*born)(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds);
    void *user;
};

struct native {
    int socket;
    bool gone; /* the launcher closed its end */
    struct answer *awaited;
    pid_t pid;
    uint32_t seq;
    struct launcher_facts facts;
    struct launcher_rep *events; /* ring of those that native_call() kept aside */
    size_t first;
    size_t count;
    size_t cap;
};

/* "husk-launcher is gone"; returns -1. */
int native_gone(struct err *e);
void native_wake_all(struct native *n); /* whoever waits: nothing will come */
