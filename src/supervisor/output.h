/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: what its children print. They have a pipe as descriptors 1 and 2,
 * never the terminal or the log file; what comes out of it is written to our own stderr, line by
 * line.
 *
 * A child that was taken over can print what it wants, so each line is cut at OUTPUT_LINE_MAX
 * bytes, has its control characters shown as text, and counts against a rate: lines beyond it are
 * dropped, and their number is logged. When stderr takes nothing, nothing is read, and the child
 * waits; the supervisor never does. A log file is renamed at OUTPUT_LOG_MAX bytes, and one older
 * part is kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"

#define OUTPUT_LINE_MAX ((size_t)2048)
#define OUTPUT_READ_MAX ((size_t)16 << 10) /* at once, so that others get their turn */
#define OUTPUT_RATE ((uint64_t)1 << 20)    /* bytes per second */
#define OUTPUT_BURST ((uint64_t)4 << 20)   /* bytes at once */
#define OUTPUT_LOG_MAX ((uint64_t)16 << 20)

/* Where lines go: our stderr. */
struct output_sink {
    int folder; /* borrowed; stderr is its husk.log. -1: stderr is something else */
    const struct config *config; /* borrowed */
    uint64_t unchecked;          /* bytes since the log's size was looked at */
};

/* Where they come from. Zeroed, it has no pipe yet. */
struct output {
    const char *name;            /* of the process that prints, for the log */
    int ours;                    /* owned, as is theirs */
    int theirs;                  /* for the child */
    char bytes[OUTPUT_READ_MAX]; /* what was read; from `at` on it waits for stderr */
    size_t at;
    size_t have;
    char line[OUTPUT_LINE_MAX]; /* so far */
    size_t n;
    bool skips;      /* the rest of a line that was too long */
    uint64_t budget; /* bytes that may be written now */
    uint64_t filled; /* when the budget was looked at, ms */
    uint64_t dropped;
};

int output_open(struct output *o, const char *name, struct err *e);
void output_close(struct output *o);

/* False: wait for POLLOUT of stderr. */
bool output_sink_takes(void);
/* Passes on what is there, up to a bound; returns whether there may be more. Does not wait. */
bool output_pump(struct output *o, struct output_sink *sink);
/* The child has ended: what is left, too. */
void output_finish(struct output *o, struct output_sink *sink);
