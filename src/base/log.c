/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines; see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/units.h"

static enum log_level threshold = LOG_WARN;
static bool as_json;

void log_set_level(enum log_level level)
{
    threshold = level;
}

void log_set_json(bool on)
{
    as_json = on;
}

/* Appends a JSON string. */
static size_t add_quoted(char *line, size_t size, size_t len, const char *text)
{
    if (len < size) {
        line[len++] = '"';
    }
    for (const char *p = text; *p != '\0' && len + 8 < size; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\') {
            line[len++] = '\\';
            line[len++] = (char)c;
        } else if (c < 0x20 || c == 0x7f) {
            len += (size_t)snprintf(line + len, size - len, "\\u%04x", c);
        } else {
            line[len++] = (char)c;
        }
    }
    if (len < size) {
        line[len++] = '"';
    }
    return len;
}

static void write_line(char *line, size_t len)
{
    line[len++] = '\n';
    (void)fd_write_all(STDERR_FILENO, line, len); /* a closed stderr cannot be reported */
}

static void write_json(const char *stamp, const char *level, const char *event, const char *text)
{
    char line[2048];
    const size_t size = sizeof(line) - 2;

    int n = snprintf(line, size,
                     "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%s\",\"message\":", stamp,
                     level, event);
    size_t len = add_quoted(line, size, MIN((size_t)MAX(n, 0), size), text);
    line[len++] = '}';
    write_line(line, len);
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char stamp[32];
    char text[900];
    char line[1024];
    struct timespec now;
    struct tm tm;
    va_list ap;

    if (level < threshold) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t used = strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(stamp + used, sizeof(stamp) - used, ".%03ldZ", now.tv_nsec / NS_PER_MS);
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (as_json) {
        write_json(stamp, names[level], event, text);
        return;
    }
    int n = snprintf(line, sizeof(line) - 1, "%s %s %s %s", stamp, names[level], event, text);
    size_t len = MIN((size_t)MAX(n, 0), sizeof(line) - 2);
    /* One event, one line: text from outside must not forge a second one. */
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '\n' || line[i] == '\r') {
            line[i] = ' ';
        }
    }
    write_line(line, len);
}
