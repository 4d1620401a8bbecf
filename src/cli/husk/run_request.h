/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of `husk run` turned into a husk_spec: options, code, language, and what goes
 * in and out. All of it is checked here, before anything is started.
 *
 * A request owns what it read; strings are borrowed from argv and the environment, so argv must
 * stay and may be cut at its colons.
 */
#pragma once

#include <husk/husk.h>
#include <stdbool.h>

#include "base/buf.h"
#include "cli/common/options.h"

#define CODE_MAX ((size_t)1 << 20)
#define FILES_MAX ((size_t)256 << 20) /* all files handed in, together */

enum value_choice { VALUE_DEFAULT = 0, VALUE_ON, VALUE_OFF };

struct run_options {
    char *template_name;
    char *lang;
    char *min_isolation;
    struct husk_limits limits;
    struct option_list env;
    struct option_list mounts;
    struct option_list files;
    struct option_list outs;
    int json;
    int receipt;
    int value; /* enum value_choice */
    int raw;
};

struct run_request {
    struct run_options opt;
    struct buf code;
    const char *name; /* for tracebacks; NULL: inline code */
    const char *const *args;
    bool code_from_stdin;
    bool has_language; /* known from --lang or the extension, or python for inline code */
    enum husk_language language;
    enum husk_isolation min_isolation;

    const char **env; /* NULL-terminated; owned array */
    struct husk_mount *mounts;
    size_t n_mounts;
    struct buf *file_data;
    struct husk_file *files;
    size_t n_files;
    const char **outputs;   /* NULL-terminated workspace paths; owned array */
    const char **out_paths; /* where each goes on the host; owned array */
};

/* Options and code. 0, 1 when only the help text is asked for, or -1 and *e. */
int run_request_parse(struct run_request *r, int argc, char **argv, struct err *e);
void run_request_release(struct run_request *r);

/* Env, mounts, files and outputs (run_attach.c). */
int run_request_attach(struct run_request *r, struct err *e);

/* The language of a template that was named must be the one of the code. */
int run_request_check_template(struct run_request *r, struct husk_engine *engine, struct err *e);

/* Fills in everything but descriptors and callbacks. Borrows from the request. */
void run_request_spec(const struct run_request *r, struct husk_spec *spec);
