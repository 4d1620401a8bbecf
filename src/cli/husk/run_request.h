/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a husk_spec from the command line of `husk run`: options, code, language, files in and
 * out. All of it is checked here, before anything is started.
 *
 * A request owns what it read. Strings are borrowed from argv and the environment: argv must stay
 * valid, and colons in it are replaced by NULs.
 */
#pragma once

#include <husk/husk.h>
#include <stdbool.h>

#include "base/buf.h"
#include "cli/common/options.h"

#define CODE_MAX ((size_t)1 << 20)
#define FILES_MAX ((size_t)256 << 20) /* total of all --file */

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
    bool has_language; /* from --lang or the extension; python for inline code */
    enum husk_language language;
    enum husk_isolation min_isolation;

    const char **env; /* NULL-terminated; owned array */
    struct husk_mount *mounts;
    size_t n_mounts;
    struct buf *file_data;
    struct husk_file *files;
    size_t n_files;
    const char **outputs;   /* NULL-terminated workspace paths; owned array */
    const char **out_paths; /* destination of each on the host; owned array */
};

/* Options and code. Returns 0, 1 if --help was given, or -1 and *e. */
int run_request_parse(struct run_request *r, int argc, char **argv, struct err *e);
void run_request_release(struct run_request *r);

/* run_attach.c: environment, mounts, files and outputs. */
int run_request_attach(struct run_request *r, struct err *e);

/* Checks that a template given by --template has the language of the code. */
int run_request_check_template(struct run_request *r, struct husk_engine *engine, struct err *e);

/* Fills in all but descriptors and callbacks. Borrows from the request. */
void run_request_spec(const struct run_request *r, struct husk_spec *spec);
