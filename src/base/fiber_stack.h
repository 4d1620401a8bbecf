/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to fiber.c: a separate stack for a function, and switching to it and back, on ucontext.
 * Knows nothing of scheduling.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

struct fiber_stack {
    char *memory; /* an inaccessible page, then the stack */
    void (*fn)(void *user);
    void *user;
    ucontext_t context;
    ucontext_t back; /* where it was entered */
    bool over;       /* fn has returned */
    /* For the address sanitizer, which must know of every switch. */
    void *fake;
    void *back_fake;
    const void *back_memory;
    size_t back_size;
};

/* 0 or -errno. */
int fiber_stack_init(struct fiber_stack *s);
void fiber_stack_release(struct fiber_stack *s);

/* The next fiber_stack_enter() runs fn(user) from its start. The stack must not be in use. */
void fiber_stack_prepare(struct fiber_stack *s, void (*fn)(void *user), void *user);

/* Continues on the stack; returns when the function leaves it or ends. */
void fiber_stack_enter(struct fiber_stack *s);

/* Leaves the stack, called by the function on it; returns when it is entered again. */
void fiber_stack_leave(struct fiber_stack *s);
