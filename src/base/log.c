/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines; see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/units.h"

#define TEXT_MAX 900
#define EVENT_MAX 64
#define LINE_MAX_TEXT 1024

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

bool log_is_json(void)
{
    return as_json;
}

bool log_is_on(enum log_level level)
{
    return level >= threshold;
}

static void write_line(char *line, size_t len)
{
    line[len++] = '\n';
    (void)fd_write_all(STDERR_FILENO, line, len); /* a closed stderr cannot be reported */
}

/* ---- JSON ---- */

#define JSON_LINE 2048 /* as much as the supervisor passes on of a line (supervisor/output.h) */
#define FIELD_ROOM 32  /* more than a field has beside its key and a string */
#define JSON_TAIL 16   /* always left for what closes a line */

struct json_line {
    char text[JSON_LINE];
    size_t len;
    bool full; /* something was left out: nothing follows */
};

static bool json_has_room(struct json_line *j, size_t n)
{
    j->full = j->full || n > sizeof(j->text) - JSON_TAIL - j->len;
    return !j->full;
}

static void json_add(struct json_line *j, const char *text, size_t n)
{
    if (json_has_room(j, n)) {
        memcpy(j->text + j->len, text, n);
        j->len += n;
    }
}

/* A string. A byte that is no UTF-8 becomes U+FFFD: readers refuse a line with such a byte. */
static void json_string(struct json_line *j, const char *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";

    json_add(j, "\"", 1);
    while (n > 0) {
        unsigned char c = (unsigned char)*text;
        size_t len = str_utf8_len(text, n);
        if (len == 0) {
            json_add(j, "\\ufffd", 6);
        } else if (c == '"' || c == '\\') {
            json_add(j, (const char[]){'\\', (char)c}, 2);
        } else if (c < 0x20 || c == 0x7f) {
            json_add(j, (const char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
        } else {
            json_add(j, text, len);
        }
        text += MAX(len, (size_t)1);
        n -= MAX(len, (size_t)1);
    }
    j->text[j->len++] = '"'; /* there is room: JSON_TAIL */
}

static bool is_number(const char *text, size_t n)
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 15 || (digits > 1 && text[0] == '0')) {
        return false;
    }
    if (digits < n && text[digits] == '.') {
        size_t more = strspn(text + digits + 1, "0123456789");
        return more > 0 && digits + 1 + more == n;
    }
    return digits == n;
}

/* What every line has: text from outside must not take its place. */
static bool is_reserved(const char *key, size_t n)
{
    static const char *const names[] = {"time", "level", "event"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strlen(names[i]) == n && strncmp(names[i], key, n) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * One "key=value" at the start of text. The value ends at a space, or is quoted; a colon or
 * semicolon behind it ends the fields. Returns what is left of the text; NULL: there is no field.
 */
static const char *take_field(const char *text, struct json_line *j)
{
    size_t key = strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const char *value = text + key + 1;
    size_t n;
    const char *rest;

    if (key == 0 || text[key] != '=' || is_reserved(text, key)) {
        return NULL;
    }
    if (*value == '"') {
        value++;
        n = strcspn(value, "\"");
        rest = value + n + (value[n] == '"');
    } else {
        n = strcspn(value, " ");
        rest = value + n;
        n -= n > 0 && (value[n - 1] == ':' || value[n - 1] == ';');
        if (rest > value + n) {
            rest = value + n;
        }
    }
    if (!json_has_room(j, key + FIELD_ROOM)) {
        return rest;
    }
    json_add(j, ",\"", 2);
    json_add(j, text, key);
    json_add(j, "\":", 2);
    if (rest == value + n && is_number(value, n)) {
        json_add(j, value, n);
    } else {
        json_string(j, value, n);
    }
    return rest;
}

static void write_json(const char *stamp, const char *level, const char *event, const char *text)
{
    struct json_line j = {.len = 0};

    json_add(&j, "{\"time\":", 8);
    json_string(&j, stamp, strlen(stamp));
    json_add(&j, ",\"level\":", 9);
    json_string(&j, level, strlen(level));
    json_add(&j, ",\"event\":", 9);
    json_string(&j, event, strnlen(event, EVENT_MAX));
    for (const char *rest = text; (rest = take_field(text, &j)) != NULL;) {
        text = rest + (*rest == ' ');
        if (*rest != ' ') {
            break;
        }
    }
    text += strspn(text, ":; ");
    if (*text != '\0' && json_has_room(&j, FIELD_ROOM)) {
        json_add(&j, ",\"message\":", 11);
        json_string(&j, text, strlen(text));
    }
    j.text[j.len++] = '}';
    write_line(j.text, j.len);
}

static void write_text(const char *stamp, const char *level, const char *event, const char *text)
{
    char line[LINE_MAX_TEXT];

    int n = snprintf(line, sizeof(line) - 1, "%s %s %s %s", stamp, level, event, text);
    size_t len = MIN((size_t)MAX(n, 0), sizeof(line) - 2);
    /* One event, one line: text from outside must not forge a second one. */
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '\n' || line[i] == '\r') {
            line[i] = ' ';
        }
    }
    write_line(line, len);
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char stamp[32];
    char text[TEXT_MAX];
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
    } else {
        write_text(stamp, names[level], event, text);
    }
}
