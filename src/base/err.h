/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one error type: a plain value that a failing function fills in and its callers pass up.
 *
 * It never allocates, so it works after fork() and without memory, and can be written to a pipe as
 * it is. What a boxed program did (exit code, signal, timeout) is a result, never an err.
 */
#pragma once

#include "base/attr.h"

enum err_code {
    ERR_NONE = 0,
#define ERR(name, http, text) ERR_##name,
#include "base/err.def"
#undef ERR
    ERR_CODES
};

struct err {
    enum err_code code;
    int sys_errno; /* 0 when no system call was at fault */
    char msg[400]; /* always NUL-terminated; truncated, never overrun */
};

/*
 * Each of these returns -1, so that a failing function can end in one line. err_sys() sets
 * ERR_SYSTEM, or ERR_LIMIT when out of descriptors; err_disk() sets ERR_STORAGE: files of husk
 * itself could not be read or written.
 */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
int err_sys(struct err *e, int sys_errno, const char *fmt, ...) PRINTF_LIKE(3, 4);
int err_disk(struct err *e, int sys_errno, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "fmt: " in front of the message already there. Keeps the code. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

const char *err_type(enum err_code code); /* "invalid_argument", ... */
int err_http(enum err_code code);         /* 400, ... */
enum err_code err_find(const char *type); /* the reverse; ERR_SYSTEM for an unknown type */
