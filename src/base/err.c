/* SPDX-License-Identifier: Apache-2.0 */
/* The error value; see err.h. Must not allocate. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *type;
    int http;
} codes[ERR_CODES] = {
    [ERR_NONE] = {"none", 200},
#define ERR(name, http, text) [ERR_##name] = {text, http},
#include "base/err.def"
#undef ERR
};

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    va_list ap;

    e->code = code;
    e->sys_errno = 0;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
    va_end(ap);
    return -1;
}

/* Out of descriptors: there will be free ones again. */
static bool out_of(int sys_errno)
{
    return sys_errno == EMFILE || sys_errno == ENFILE;
}

static PRINTF_LIKE(4, 0) int set_errno(struct err *e, enum err_code code, int sys_errno,
                                       const char *fmt, va_list ap)
{
    e->code = code;
    e->sys_errno = sys_errno;
    vsnprintf(e->msg, sizeof(e->msg), fmt, ap);

    size_t used = strlen(e->msg);
    const char *why = strerrordesc_np(sys_errno); /* unlike strerror(): no locale, no allocation */
    snprintf(e->msg + used, sizeof(e->msg) - used, ": %s", why != NULL ? why : "unknown error");
    return -1;
}

int err_sys(struct err *e, int sys_errno, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int r = set_errno(e, out_of(sys_errno) ? ERR_LIMIT : ERR_SYSTEM, sys_errno, fmt, ap);
    va_end(ap);
    return r;
}

int err_disk(struct err *e, int sys_errno, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int r = set_errno(e, ERR_STORAGE, sys_errno, fmt, ap);
    va_end(ap);
    return r;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    char old[sizeof(e->msg)];
    va_list ap;

    memcpy(old, e->msg, sizeof(old));
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
    va_end(ap);

    size_t used = strlen(e->msg);
    snprintf(e->msg + used, sizeof(e->msg) - used, ": %s", old);
    return -1;
}

const char *err_type(enum err_code code)
{
    return (unsigned)code < ERR_CODES ? codes[code].type : "unknown";
}

int err_http(enum err_code code)
{
    return (unsigned)code < ERR_CODES ? codes[code].http : 500;
}

enum err_code err_find(const char *type)
{
    for (unsigned i = 0; i < ERR_CODES; i++) {
        if (strcmp(codes[i].type, type) == 0) {
            return (enum err_code)i;
        }
    }
    return ERR_SYSTEM;
}
