/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the supervisor: the output of its children. Their descriptors 1 and 2 are a pipe,
 * never the terminal or the log file; the supervisor writes what it reads from it to its own
 * stderr, line by line.
 *
 * A compromised child can print anything. So each line is cut at OUTPUT_LINE_MAX bytes, its control
 * characters are shown as text, and it counts against a rate: lines beyond it are dropped, and
 * their number is logged. While stderr is full nothing is read, and the child blocks; the
 * supervisor never does. A log file is renamed at OUTPUT_LOG_MAX bytes, and one older part is kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"

#define OUTPUT_LINE_MAX ((size_t)2048)
#define OUTPUT_READ_MAX ((size_t)16 << 10) /* per call, so that other children get their turn */
#define OUTPUT_RATE ((uint64_t)1 << 20)    /* bytes per second */
#define OUTPUT_BURST ((uint64_t)4 << 20)   /* bytes at once */
#define OUTPUT_LOG_MAX ((uint64_t)16 << 20)

/* The destination of lines: our stderr. */
struct output_sink {
    int folder; /* borrowed; stderr is its husk.log. -1: stderr is something else */
    const struct config *config; /* borrowed */
    uint64_t unchecked;          /* bytes since the log's size was checked */
};

/* A source of lines. Zeroed, it has no pipe yet. */
struct output {
    const char *name;            /* of the process that prints, for the log */
    int ours;                    /* owned, as is theirs */
    int theirs;                  /* for the child */
    char bytes[OUTPUT_READ_MAX]; /* read; from `at` on not written yet */
    size_t at;
    size_t have;
    char line[OUTPUT_LINE_MAX]; /* so far */
    size_t n;
    bool skips;      /* skip to the end of a line that was too long */
    uint64_t budget; /* bytes that may be written now */
    uint64_t filled; /* when the budget was last filled, ms */
    uint64_t dropped;
};

int output_open(struct output *o, const char *name, struct err *e);
void output_close(struct output *o);

/* False: wait for POLLOUT of stderr. */
bool output_sink_takes(void);
/*
 * Passes on what can be read now, up to a bound; returns whether there may be more. Does not block.
 */
bool output_pump(struct output *o, struct output_sink *sink);
/* The child has ended: passes on the rest. */
void output_finish(struct output *o, struct output_sink *sink);
