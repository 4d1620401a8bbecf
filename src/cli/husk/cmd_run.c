/* SPDX-License-Identifier: Apache-2.0 */
/*
 * husk run: one program in one box.
 *
 * The command line is checked completely (run_request.c) before an engine is opened, so that a
 * mistake starts nothing. Output is streamed; Ctrl-C cancels the run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/common/commands.h"
#include "cli/common/ctrl_c.h"
#include "cli/husk/run_report.h"
#include "cli/husk/run_request.h"

#define KEEP_NOTHING 1 /* output is streamed, not kept; 0 would mean the default */

static void on_output(void *user, enum husk_stream stream, const char *data, size_t n)
{
    struct run_streams *s = user;

    if (s->quiet) {
        return;
    }
    term_out_write(stream == HUSK_STDOUT ? &s->out : &s->err, data, n);
    if (s->out.error != 0) {
        ctrl_c_raise(); /* the reader is gone: stop the program as a broken pipe would */
    }
}

/* Our stdin for the program, as a descriptor other than 0; -1 if there is none. */
static int stdin_for_box(const struct run_request *r)
{
    if (r->code_from_stdin) {
        return -1; /* the code was read from it */
    }
    return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

static int run_in_engine(struct run_request *r, struct husk_engine *engine)
{
    AUTO_CLOSE int stdin_fd = -1;
    struct run_streams s = {.quiet = r->opt.json != 0};
    struct husk_spec spec;
    struct husk_result *result = NULL;
    struct husk_error why;
    struct err e;

    if (r->opt.template_name != NULL && run_request_check_template(r, engine, &e) < 0) {
        return usage_error("run", &e);
    }
    run_request_spec(r, &spec);
    term_out_init(&s.out, STDOUT_FILENO, r->opt.raw != 0);
    term_out_init(&s.err, STDERR_FILENO, r->opt.raw != 0);
    stdin_fd = stdin_for_box(r);
    spec.stdin_fd = stdin_fd > 0 ? stdin_fd : 0;
    spec.cancel_fd = ctrl_c_fd();
    spec.on_output = on_output;
    spec.user = &s;
    spec.keep_bytes = s.quiet ? r->opt.limits.output_bytes : KEEP_NOTHING;

    if (husk_run(engine, &spec, &result, &why) < 0) {
        return ctrl_c_seen() ? EXIT_INTERRUPTED : engine_error(&why);
    }
    int code = run_report(r, &spec, result, &s);
    husk_result_free(result);
    return code;
}

static int run_request(struct run_request *r)
{
    struct husk_options options = {.min_isolation = r->min_isolation};
    struct husk_engine *engine = NULL;
    struct husk_error why;
    struct err e;

    if (ctrl_c_install(&e) < 0) {
        return usage_error("run", &e);
    }
    fd_raise_limit();
    if (husk_open(&options, &engine, &why) < 0) {
        return ctrl_c_seen() ? EXIT_INTERRUPTED : engine_error(&why);
    }
    int code = run_in_engine(r, engine);
    husk_close(engine);
    return code;
}

int cmd_run(int argc, char **argv)
{
    struct run_request r = {0};
    struct err e;
    int code = 0;

    int parsed = run_request_parse(&r, argc, argv, &e);
    if (parsed < 0) {
        code = usage_error("run", &e);
    } else if (parsed > 0) {
        options_print_help(&run_table, stdout);
    } else {
        code = run_request(&r);
    }
    run_request_release(&r);
    return code;
}
