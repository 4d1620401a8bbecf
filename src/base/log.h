/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One event, one line on stderr: "time level event key=value ...: text". Only the top of a stack
 * logs; library code returns errors. Untrusted text goes through str_printable() first, or is the
 * last thing behind a colon.
 *
 * As JSON each key=value at the start is a field of its own, a number where the value is one; the
 * rest is `message`. A value with spaces is quoted: key="some words".
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level level); /* LOG_WARN until set */
void log_set_json(bool on);               /* lines of JSON instead of text */
bool log_is_json(void);
bool log_is_on(enum log_level level); /* for what costs something to find out */
void log_event(enum log_level level, const char *event, const char *fmt, ...) PRINTF_LIKE(3, 4);

#define log_debug(event, ...) log_event(LOG_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_event(LOG_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) log_event(LOG_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_event(LOG_ERROR, event, __VA_ARGS__)
