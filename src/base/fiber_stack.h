/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to fiber.c: a stack of its own for a function, and the way to it and back, on ucontext.
 * Knows nothing of who runs when.
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
    ucontext_t back; /* whoever entered it */
    bool over;       /* fn has returned */
    /* For the address sanitizer, which has to be told of every switch. */
    void *fake;
    void *back_fake;
    const void *back_memory;
    size_t back_size;
};

/* 0 or -errno. */
int fiber_stack_init(struct fiber_stack *s);
void fiber_stack_release(struct fiber_stack *s);

/* The next to enter it runs fn(user) from its beginning. The stack is not in use. */
void fiber_stack_prepare(struct fiber_stack *s, void (*fn)(void *user), void *user);

/* Goes on where it was left, and returns when it is left again or over. */
void fiber_stack_enter(struct fiber_stack *s);

/* From the function on it back to whoever entered; returns when it is entered again. */
void fiber_stack_leave(struct fiber_stack *s);
