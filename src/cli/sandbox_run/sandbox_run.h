/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox-run: calls handler(event[, context]) of a Python file in a fresh box.
 *
 *   sandbox_options.c   the command line
 *   sandbox_config.c    .sandboxrc.json
 *   sandbox_event.c     event, context, and the time limit from all three sources
 *   sandbox_output.c    prints the result in three formats
 *   sandbox_run.c       the sequence of steps and the exit code
 */
#pragma once

#include <husk/husk.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/common/options.h"
#include "cli/common/term.h"

#define SANDBOX_PROGRAM "sandbox-run"
#define SANDBOX_SECONDS_MAX (7 * 24 * 3600) /* of a time limit */

enum sandbox_exit {
    SANDBOX_OK = 0,
    SANDBOX_ERROR = 1, /* the handler failed, or the command line is wrong */
    SANDBOX_FILE = 2,  /* a file is missing or unreadable, JSON or configuration is wrong */
    SANDBOX_CODE = 3,  /* syntax error, or no handler */
    SANDBOX_TIMEOUT = 4,
    SANDBOX_NO_START = 5, /* the sandbox could not be started */
};

enum sandbox_format { SANDBOX_PRETTY, SANDBOX_JSON, SANDBOX_YAML };

/* ---- command line ---- */

struct sandbox_options {
    char *script;
    char *event;
    char *event_file;
    char *context;
    char *context_file;
    char *handler;    /* the function's own name, once parsed */
    uint32_t timeout; /* seconds; 0: not given */
    int verbose;
    int quiet;
    int profile;
    char *output;
    char *format;
    char *log_level;
    char *min_isolation;
    int version;
};

extern const struct option_table sandbox_table;

/* Returns 0, 1 if --help was given, or -1. */
int sandbox_options_parse(struct sandbox_options *o, int argc, char **argv, struct err *e);

/* Words used both on the command line and in the file; -1 if unknown. */
int sandbox_format_parse(const char *word, enum sandbox_format *ret);
int sandbox_level_parse(const char *word, enum log_level *ret);

/* ---- configuration ---- */

struct sandbox_config {
    uint64_t memory_bytes;
    uint32_t cpu_milli;
    uint32_t pids; /* 0: husk's default */
    uint64_t timeout_ms;
    enum sandbox_format format;
    enum log_level level;
    bool colors;
    bool show_profile;
};

struct sandbox_config sandbox_config_default(void);

/*
 * Overwrites the values that the JSON text has. Unknown keys and wrong types are errors that name
 * the key.
 */
int sandbox_config_parse(struct sandbox_config *c, const char *text, size_t n, struct err *e);

/* Reads .sandboxrc.json of the working directory, else of the home directory, else nothing. */
int sandbox_config_load(struct sandbox_config *c, struct err *e);

/* ---- event and context ---- */

struct sandbox_input {
    struct buf event;
    struct buf context;
    double event_timeout; /* seconds from __timeout; 0: not given */
};

/* The context gets the memory of the box as memory_limit_in_mb, unless it has that field. */
int sandbox_input_read(struct sandbox_input *in, const struct sandbox_options *o,
                       const struct sandbox_config *c, struct err *e);
void sandbox_input_release(struct sandbox_input *in);

/* The time limit: see docs/cli.md. */
uint64_t sandbox_timeout_ms(const struct sandbox_options *o, const struct sandbox_config *c,
                            const struct sandbox_input *in);

/* ---- output ---- */

struct sandbox_outcome {
    enum sandbox_exit code;
    const struct husk_result *run; /* borrowed */
    const char *value_json;        /* borrowed; NULL: there is none */
    char error_type[64];           /* empty: no error */
    const char *error_message;     /* borrowed */
};

struct sandbox_outcome sandbox_outcome_of(const struct husk_result *run);

/* Prints the outcome on stdout, or writes it to o->output. */
int sandbox_show(const struct sandbox_outcome *outcome, const struct sandbox_options *o,
                 const struct sandbox_config *c, struct term_out *out, struct err *e);
