/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiler attributes and the few macros that everything may use.
 *
 * AUTO_* mark a local that owns something: it is released when its scope ends.
 * Ownership leaves a scope only by TAKE_PTR() or take_fd() (base/fd.h).
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#ifndef MIN /* some system headers bring their own */
#    define MIN(a, b) ((a) < (b) ? (a) : (b))
#    define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif

#define AUTO(fn) __attribute__((cleanup(fn)))
#define AUTO_FREE AUTO(auto_free_cleanup)

static inline void auto_free_cleanup(void *p)
{
    free(*(void **)p);
}

/* For interfaces that lack a const: the callee does not write. */
static inline void *drop_const(const void *p)
{
    return (void *)(uintptr_t)p; /* NOLINT(performance-no-int-to-ptr) */
}

/* Moves a pointer out of its owner, which is left NULL. */
#define TAKE_PTR(p)                                                                                \
    __extension__({                                                                                \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })
