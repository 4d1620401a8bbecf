/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox-run: the sequence of steps and the exit code; see sandbox_run.h. */
#include "cli/sandbox_run/sandbox_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/common/ctrl_c.h"
#include "cli/common/hostfile.h"

#define SCRIPT_MAX ((size_t)1 << 20)
#define OUTPUT_MAX ((uint64_t)16 << 20) /* per stream, which is kept whole: more ends the run */

struct session {
    struct sandbox_options opt;
    struct sandbox_config config;
    struct sandbox_input input;
    struct buf script;
    struct term_out out;
    struct term_out err;
    bool live_out; /* the handler's output is streamed */
    bool live_err;
};

static void on_output(void *user, enum husk_stream stream, const char *data, size_t n)
{
    struct session *s = user;

    if (stream == HUSK_STDOUT && s->live_out) {
        term_out_write(&s->out, data, n);
    } else if (stream == HUSK_STDERR && s->live_err) {
        term_out_write(&s->err, data, n);
    }
    if (s->out.error != 0) {
        ctrl_c_raise(); /* the reader is gone */
    }
}

/* Options override the configuration file. */
static int settle_config(struct session *s, struct err *e)
{
    s->config = sandbox_config_default();
    if (sandbox_config_load(&s->config, e) < 0) {
        return -1;
    }
    if (s->opt.format != NULL) {
        (void)sandbox_format_parse(s->opt.format, &s->config.format); /* checked before */
    }
    if (s->opt.log_level != NULL) {
        (void)sandbox_level_parse(s->opt.log_level, &s->config.level);
    }
    s->config.show_profile |= s->opt.profile != 0;
    log_set_level(s->config.level);
    return 0;
}

/*
 * Why Python cannot compile it; NULL: it is text. Versions of Python raise different exceptions for
 * a NUL byte.
 */
static const char *why_not_text(const struct buf *b)
{
    for (size_t i = 0; i < b->len;) {
        size_t n = str_utf8_len(b->data + i, b->len - i);

        if (n == 0) {
            return "is not UTF-8 text";
        }
        if (b->data[i] == '\0') {
            return "has a NUL byte, which Python does not compile";
        }
        i += n;
    }
    return NULL;
}

/* Checks all that can be checked before a sandbox is started. */
static int prepare(struct session *s, struct err *e)
{
    s->script = BUF_INIT(SCRIPT_MAX);
    if (settle_config(s, e) < 0 || hostfile_read_script(s->opt.script, &s->script, e) < 0 ||
        sandbox_input_read(&s->input, &s->opt, &s->config, e) < 0) {
        return -1;
    }
    if (s->opt.output != NULL && hostfile_check_target(s->opt.output, e) < 0) {
        return err_wrap(e, "--output");
    }
    s->live_err = s->config.format == SANDBOX_PRETTY && !s->opt.quiet;
    s->live_out = s->live_err && s->opt.output == NULL;
    term_out_init(&s->out, STDOUT_FILENO, false);
    term_out_init(&s->err, STDERR_FILENO, false);
    return ctrl_c_install(e);
}

static void fill_spec(struct session *s, struct husk_spec *spec)
{
    *spec = (struct husk_spec){
        .template_name = "python",
        .kind = HUSK_HANDLER,
        .code = s->script.data != NULL ? s->script.data : "",
        .code_len = s->script.len,
        .name = s->opt.script,
        .event = s->input.event.data,
        .context = s->input.context.data,
        .handler = s->opt.handler,
        .limits =
            {
                .memory_bytes = s->config.memory_bytes,
                .cpu_milli = s->config.cpu_milli,
                .pids = s->config.pids,
                .timeout_ms = sandbox_timeout_ms(&s->opt, &s->config, &s->input),
                .output_bytes = OUTPUT_MAX,
            },
        .keep_bytes = OUTPUT_MAX,
        .no_pool = true,
        .cancel_fd = ctrl_c_fd(),
        .on_output = on_output,
        .user = s,
    };
}

static int report(struct session *s, const struct husk_result *run)
{
    struct sandbox_outcome outcome = sandbox_outcome_of(run);
    struct err e;

    log_info("run.end", "status=%s cause=%s exit=%d ms=%.1f", husk_status_name(run->status),
             husk_cause_name(run->termination.cause), (int)outcome.code, run->metrics.duration_ms);
    term_out_end(&s->err);
    if (sandbox_show(&outcome, &s->opt, &s->config, &s->out, &e) < 0) {
        term_say(SANDBOX_PROGRAM, "%s", e.msg);
        return outcome.code == SANDBOX_OK ? SANDBOX_ERROR : (int)outcome.code;
    }
    return (int)outcome.code;
}

static int fail(const struct husk_error *why)
{
    if (ctrl_c_seen()) {
        return EXIT_INTERRUPTED;
    }
    term_say(SANDBOX_PROGRAM, "%s", why->message);
    return str_eq(why->type, "invalid_argument") ? SANDBOX_FILE : SANDBOX_NO_START;
}

static int run(struct session *s)
{
    struct husk_engine *engine = NULL;
    struct husk_result *result = NULL;
    struct husk_options options = {0};
    struct husk_error why;
    struct husk_spec spec;
    struct err ignored; /* checked before */
    int code = 0;

    (void)option_isolation(s->opt.min_isolation, &options.min_isolation, &ignored);
    fill_spec(s, &spec);
    log_debug(
        "run.start", "script_bytes=%zu timeout_ms=%" PRIu64 " memory=%" PRIu64 " cpu_milli=%u",
        s->script.len, spec.limits.timeout_ms, spec.limits.memory_bytes, spec.limits.cpu_milli);
    fd_raise_limit();
    if (husk_open(&options, &engine, &why) < 0) {
        return fail(&why);
    }
    if (husk_run(engine, &spec, &result, &why) < 0) {
        code = fail(&why);
    } else if (result->status == HUSK_CANCELLED && ctrl_c_seen()) {
        term_out_end(&s->out);
        term_say(SANDBOX_PROGRAM, "interrupted");
        code = EXIT_INTERRUPTED;
    } else if (result->status == HUSK_CANCELLED && s->out.error != 0) {
        term_say(SANDBOX_PROGRAM, "cannot write output: %s", strerrordesc_np(-s->out.error));
        code = SANDBOX_ERROR;
    } else {
        code = report(s, result);
    }
    husk_result_free(result);
    husk_close(engine);
    return code;
}

/* A failed write of printf() must not look like success. */
static int delivered(void)
{
    if (fflush(stdout) != 0) {
        term_say(SANDBOX_PROGRAM, "cannot write output");
        return SANDBOX_ERROR;
    }
    return SANDBOX_OK;
}

int main(int argc, char **argv)
{
    struct session s = {0};
    struct err e;

    if (term_guard_stdio() < 0) {
        return SANDBOX_NO_START; /* stderr may be closed */
    }
    int parsed = sandbox_options_parse(&s.opt, argc, argv, &e);
    if (parsed < 0) {
        term_say(SANDBOX_PROGRAM, "%s ('sandbox-run --help' lists the options)", e.msg);
        return SANDBOX_ERROR;
    }
    if (parsed > 0) {
        options_print_help(&sandbox_table, stdout);
        return delivered();
    }
    if (s.opt.version) {
        printf("sandbox-run %s\n", husk_version());
        return delivered();
    }

    int code = SANDBOX_FILE;
    if (prepare(&s, &e) < 0) {
        term_say(SANDBOX_PROGRAM, "%s", e.msg);
    } else if (why_not_text(&s.script) != NULL) {
        term_say(SANDBOX_PROGRAM, "%s %s", s.opt.script, why_not_text(&s.script));
        code = SANDBOX_CODE;
    } else {
        code = run(&s);
    }
    buf_release(&s.script);
    sandbox_input_release(&s.input);
    return code;
}
