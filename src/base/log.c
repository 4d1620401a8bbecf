/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines; see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

static enum log_level threshold = LOG_WARN;

void log_set_level(enum log_level level)
{
    threshold = level;
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char line[1024];
    struct timespec now;
    struct tm tm;
    va_list ap;

    if (level < threshold) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    int n = snprintf(line, sizeof(line), "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %s %s ",
                     tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                     now.tv_nsec / 1000000, names[level], event);
    size_t len = MIN((size_t)MAX(n, 0), sizeof(line) - 2); /* a newline and a NUL stay possible */
    va_start(ap, fmt);
    int m = vsnprintf(line + len, sizeof(line) - 1 - len, fmt, ap);
    va_end(ap);
    len += MIN((size_t)MAX(m, 0), sizeof(line) - 2 - len);

    /* One event, one line: text from outside must not be able to forge a second one. */
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '\n' || line[i] == '\r') {
            line[i] = ' ';
        }
    }
    line[len++] = '\n';
    (void)fd_write_all(STDERR_FILENO, line, len); /* nobody to tell when stderr is gone */
}
