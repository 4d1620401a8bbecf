/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of sandbox-run; see sandbox_run.h.
 *
 * json and yaml are one document, built as JSON text. pretty is the handler's output and then its
 * value; errors and metrics go to stderr, so that stdout has nothing else.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/common/hostfile.h"
#include "cli/common/json_text.h"
#include "cli/sandbox_run/sandbox_run.h"
#include "cli/sandbox_run/yaml.h"

#define DOCUMENT_MAX ((size_t)1 << 30)
#define RED "\033[31m"
#define PLAIN "\033[0m"

static void now_text(char *dst, size_t size)
{
    time_t now = time(NULL);
    struct tm tm;

    gmtime_r(&now, &tm);
    strftime(dst, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

/* The Python type that a JSON value comes from. */
static const char *python_type(const char *json)
{
    switch (json[strspn(json, " \t\r\n")]) {
    case '{':
        return "dict";
    case '[':
        return "list";
    case '"':
        return "str";
    case 't':
    case 'f':
        return "bool";
    case 'n':
        return "NoneType";
    default:
        return strpbrk(json, ".eE") != NULL ? "float" : "int";
    }
}

/* Adds ,"key":"text" */
static int add_member(struct buf *b, const char *key, const char *text, size_t n)
{
    int r = buf_printf(b, ",\"%s\":", key);

    return r < 0 ? r : json_text_add_string(b, text, n);
}

static int add_error(struct buf *b, const struct sandbox_outcome *o)
{
    const char *traceback = o->run->error.traceback;

    int r = buf_add_str(b, ",\"error\":{\"type\":");
    r = r < 0 ? r : json_text_add_string(b, o->error_type, strlen(o->error_type));
    r = r < 0 ? r : add_member(b, "message", o->error_message, strlen(o->error_message));
    if (traceback != NULL) {
        r = r < 0 ? r : add_member(b, "traceback", traceback, strlen(traceback));
    }
    return r < 0 ? r : buf_add_str(b, "}");
}

static int add_verbose(struct buf *b, const struct sandbox_outcome *o)
{
    char when[40];

    now_text(when, sizeof(when));
    int r = add_member(b, "timestamp", when, strlen(when));
    if (o->value_json != NULL) {
        const char *type = python_type(o->value_json);
        r = r < 0 ? r : add_member(b, "result_type", type, strlen(type));
    }
    return r;
}

static int build_document(struct buf *b, const struct sandbox_outcome *o, bool verbose)
{
    const struct husk_result *run = o->run;

    int r = buf_printf(b, "{\"exit_code\":%d", (int)o->code);
    r = r < 0 ? r : add_member(b, "stdout", run->out, run->out_len);
    r = r < 0 ? r : add_member(b, "stderr", run->err, run->err_len);
    r = r < 0 ? r : buf_add_str(b, ",\"result\":");
    r = r < 0 ? r : buf_add_str(b, o->value_json != NULL ? o->value_json : "null");
    r = r < 0 ? r
              : buf_printf(b,
                           ",\"metrics\":{\"duration_ms\":%.3f,\"cpu_time_ms\":%.3f,"
                           "\"memory_peak_mb\":%.3f}",
                           run->metrics.duration_ms, run->metrics.cpu_time_ms,
                           run->metrics.peak_memory_mb);
    if (o->error_type[0] != '\0') {
        r = r < 0 ? r : add_error(b, o);
    }
    if (verbose) {
        r = r < 0 ? r : add_verbose(b, o);
    }
    return r < 0 ? r : buf_add_str(b, "}");
}

static int add_document(struct buf *b, const struct sandbox_outcome *o, enum sandbox_format format,
                        bool verbose)
{
    AUTO_BUF struct buf json = BUF_INIT(DOCUMENT_MAX);

    int r = build_document(&json, o, verbose);
    if (r < 0) {
        return r;
    }
    if (format == SANDBOX_YAML) {
        return yaml_add(b, json.data, json.len);
    }
    r = json_text_add_indented(b, json.data, json.len);
    return r < 0 ? r : buf_add(b, "\n", 1);
}

/* The handler's output, unless it was shown while it ran, and then its value. */
static int add_pretty(struct buf *b, const struct sandbox_outcome *o, bool with_stdout)
{
    const struct husk_result *run = o->run;
    int r = 0;

    if (with_stdout && run->out_len > 0) {
        r = buf_add(b, run->out, run->out_len);
        if (run->out[run->out_len - 1] != '\n') {
            r = r < 0 ? r : buf_add(b, "\n", 1);
        }
    }
    if (o->value_json != NULL) {
        r = r < 0 ? r : json_text_add_indented(b, o->value_json, strlen(o->value_json));
        r = r < 0 ? r : buf_add(b, "\n", 1);
    }
    return r;
}

static void show_error(const struct sandbox_outcome *o, bool quiet, bool colors)
{
    const char *traceback = o->run->error.traceback;
    bool paint = colors && term_has_color(STDERR_FILENO);
    struct term_out err;

    term_out_init(&err, STDERR_FILENO, false);
    if (paint) {
        term_out_code(&err, RED);
    }
    if (traceback != NULL && !quiet) {
        term_out_write(&err, traceback, strlen(traceback));
        term_out_line_end(&err);
    } else {
        term_say(SANDBOX_PROGRAM, "%s: %s", o->error_type, o->error_message);
    }
    if (paint) {
        term_out_code(&err, PLAIN);
    }
}

static void show_extras(const struct sandbox_outcome *o, bool verbose, bool profile)
{
    char when[40];

    if (verbose) {
        now_text(when, sizeof(when));
        fprintf(stderr, "Finished:    %s\n", when);
        fprintf(stderr, "Result type: %s\n",
                o->value_json != NULL ? python_type(o->value_json) : "none");
    }
    if (profile) {
        fprintf(stderr, "Duration:    %.1f ms\nCPU time:    %.1f ms\nPeak memory: %.1f MiB\n",
                o->run->metrics.duration_ms, o->run->metrics.cpu_time_ms,
                o->run->metrics.peak_memory_mb);
    }
}

static int deliver(const struct buf *b, const char *path, struct term_out *out, struct err *e)
{
    const char *data = b->data != NULL ? b->data : "";

    if (path != NULL) {
        return hostfile_write(path, data, b->len, e);
    }
    term_out_line_end(out);
    term_out_write(out, data, b->len);
    term_out_end(out);
    return out->error != 0 ? err_sys(e, -out->error, "cannot write output") : 0;
}

int sandbox_show(const struct sandbox_outcome *outcome, const struct sandbox_options *o,
                 const struct sandbox_config *c, struct term_out *out, struct err *e)
{
    AUTO_BUF struct buf b = BUF_INIT(DOCUMENT_MAX);
    bool pretty = c->format == SANDBOX_PRETTY;

    int r = pretty ? add_pretty(&b, outcome, o->output != NULL && !o->quiet)
                   : add_document(&b, outcome, c->format, o->verbose != 0);
    if (r < 0) {
        return err_sys(e, -r, "cannot show the result");
    }
    r = deliver(&b, o->output, out, e);
    if (pretty && outcome->error_type[0] != '\0') {
        show_error(outcome, o->quiet != 0, c->colors);
    }
    if (pretty && !o->quiet) {
        show_extras(outcome, o->verbose != 0, c->show_profile);
    }
    return r;
}
