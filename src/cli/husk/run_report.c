/* SPDX-License-Identifier: Apache-2.0 */
/* After the run; see run_report.h. Text from the box reaches a terminal only through term_out. */
#include "cli/husk/run_report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "base/units.h"
#include "cli/common/commands.h"
#include "cli/common/ctrl_c.h"
#include "cli/common/hostfile.h"
#include "cli/common/json_text.h"

#define JSON_MAX ((size_t)1 << 30)
#define NOT_STARTED 126 /* exit code of a run that the box could not start */

/* An error of the program itself has a traceback. */
static bool is_refused(const struct husk_result *result)
{
    return result->status == HUSK_FAILED && result->exit_code == NOT_STARTED &&
           result->error.message != NULL && result->error.traceback == NULL;
}

static int exit_code_of(const struct husk_result *result)
{
    switch (result->status) {
    case HUSK_COMPLETED:
        return 0;
    case HUSK_TIMEOUT:
        return EXIT_TIMEOUT;
    case HUSK_MEMORY_EXCEEDED:
        return EXIT_MEMORY;
    case HUSK_CANCELLED:
        return EXIT_INTERRUPTED;
    case HUSK_FAILED:
    case HUSK_CRASHED:
        break;
    }
    if (result->termination.cause == HUSK_CAUSE_INTERNAL || is_refused(result)) {
        return EXIT_HUSK;
    }
    return result->exit_code != 0 ? result->exit_code : 1;
}

static void show_value(const struct husk_spec *spec, const struct husk_result *result,
                       struct run_streams *s)
{
    if (spec->kind != HUSK_CELL || result->value == NULL) {
        return;
    }
    term_out_line_end(&s->out);
    term_out_write(&s->out, result->value, strlen(result->value));
    term_out_line_end(&s->out);
}

/* A script writes its traceback to stderr, as an interpreter does; a cell only reports it. */
static void show_traceback(const struct husk_spec *spec, const struct husk_result *result,
                           struct run_streams *s)
{
    const char *text = result->error.traceback;

    if (spec->kind != HUSK_CELL || text == NULL) {
        return;
    }
    term_out_line_end(&s->err);
    term_out_write(&s->err, text, strlen(text));
    term_out_line_end(&s->err);
}

/* Displays were not requested, so the dropped part belongs to the value. */
static void say_cut(const struct husk_spec *spec, const struct husk_result *result)
{
    if (spec->kind == HUSK_CELL && result->value != NULL && result->displays_dropped) {
        term_say(PROGRAM, "the value is longer than 1 MiB and was cut");
    }
}

/* What ended a program that did not end by itself, and the option that raises the limit. */
static void say_ending(const struct husk_result *result)
{
    static const struct {
        const char *text;
        const char *option;
    } endings[] = {
        [HUSK_CAUSE_TIMEOUT] = {"stopped: the time limit was reached", "--timeout"},
        [HUSK_CAUSE_OOM] = {"killed: out of memory", "--memory"},
        [HUSK_CAUSE_SIGNAL] = {"the program was", NULL},
        [HUSK_CAUSE_SECCOMP] = {"killed: the program", NULL},
        [HUSK_CAUSE_DISK] = {"failed: the disk of the sandbox is full", "--disk"},
        [HUSK_CAUSE_OUTPUT_LIMIT] = {"stopped: too much output", "--max-output"},
        [HUSK_CAUSE_INTERNAL] = {"the sandbox failed:", NULL},
    };
    const char *detail = result->termination.detail;
    const char *limit = result->termination.limit;
    size_t cause = (size_t)result->termination.cause;

    if (result->status == HUSK_CANCELLED) {
        term_say(PROGRAM, "interrupted");
        return;
    }
    if (result->termination.cause == HUSK_CAUSE_EXIT && is_refused(result)) {
        term_say(PROGRAM, "%s", result->error.message);
        return;
    }
    if (cause >= ARRAY_LEN(endings) || endings[cause].text == NULL) {
        return;
    }
    if (endings[cause].option == NULL) {
        term_say(PROGRAM, "%s %s", endings[cause].text, detail[0] != '\0' ? detail : "ended");
        return;
    }
    term_say(PROGRAM, "%s%s%s%s; %s raises the limit", endings[cause].text,
             limit[0] != '\0' ? " (" : "", limit, limit[0] != '\0' ? ")" : "",
             endings[cause].option);
}

static void say_receipt(const struct husk_result *result)
{
    const struct husk_receipt *c = &result->receipt;
    const struct husk_metrics *m = &result->metrics;

    term_say(PROGRAM, "cost: %.1f ms, CPU %.1f ms, peak memory %.1f MiB, %" PRIu32 " processes",
             m->duration_ms, m->cpu_time_ms, m->peak_memory_mb, m->processes);
    term_say(PROGRAM, "isolation: %s%s%s%s, %s backend, namespaces %s, network %s", c->isolation,
             c->missing[0] != '\0' ? " (missing: " : "", c->missing,
             c->missing[0] != '\0' ? ")" : "", c->backend, c->namespaces, c->network);
    term_say(PROGRAM,
             "enforced by: seccomp %s, Landlock ABI %d, cgroup %s, ids %" PRIu64 "+%" PRIu64,
             c->seccomp, c->landlock_abi, c->cgroup, c->id_block_start, c->id_block_size);
    term_say(PROGRAM,
             "limits: %" PRIu64 " MiB memory, %" PRIu64 " MiB disk, %" PRIu64
             " ms, %.3g cores, %" PRIu32 " processes",
             c->limits.memory_bytes / MIB, c->limits.disk_bytes / MIB, c->limits.timeout_ms,
             c->limits.cpu_milli / 1000.0, c->limits.pids);
}

static const struct husk_output_file *find_output(const struct husk_result *result,
                                                  const char *name)
{
    for (size_t i = 0; i < result->n_files; i++) {
        if (str_eq(result->files[i].name, name)) {
            return &result->files[i];
        }
    }
    return NULL;
}

/* Returns the number of files that could not be copied back. */
static int save_outputs(const struct run_request *r, const struct husk_result *result)
{
    int lost = 0;

    for (size_t i = 0; r->outputs[i] != NULL; i++) {
        const struct husk_output_file *f = find_output(result, r->outputs[i]);
        struct err e;

        if (f == NULL || f->data == NULL) {
            term_say(PROGRAM, "--out %s: %s", r->outputs[i],
                     f != NULL && f->error != NULL ? f->error
                                                   : "the run ended before the file was read");
            lost++;
        } else if (hostfile_write(r->out_paths[i], f->data, f->len, &e) < 0) {
            term_say(PROGRAM, "--out %s: %s", r->outputs[i], e.msg);
            lost++;
        }
    }
    return lost;
}

static int show_json(const struct husk_result *result, struct run_streams *s)
{
    AUTO_FREE char *text = NULL;
    AUTO_BUF struct buf b = BUF_INIT(JSON_MAX);

    text = husk_result_json(result);
    if (text == NULL || json_text_add_harmless(&b, text, strlen(text)) < 0 ||
        buf_add(&b, "\n", 1) < 0) {
        term_say(PROGRAM, "cannot write the result: out of memory");
        return -1;
    }
    term_out_write(&s->out, b.data, b.len);
    return 0;
}

/* The program was stopped because its output could not be passed on. */
static int output_lost(int error)
{
    if (error == -EPIPE) {
        return EXIT_BROKEN_PIPE; /* the reader is gone, as in "husk run ... | head" */
    }
    term_say(PROGRAM, "cannot write output: %s", strerrordesc_np(-error));
    return EXIT_HUSK;
}

int run_report(const struct run_request *r, const struct husk_spec *spec,
               const struct husk_result *result, struct run_streams *s)
{
    int code = exit_code_of(result);
    int failed = 0;

    term_out_end(&s->out);
    term_out_end(&s->err);
    if (r->opt.json) {
        failed = show_json(result, s) < 0;
    } else {
        show_value(spec, result, s);
        show_traceback(spec, result, s);
    }
    if (s->out.error != 0 && !ctrl_c_seen()) {
        return output_lost(s->out.error);
    }
    if (!r->opt.json) {
        say_cut(spec, result);
        say_ending(result);
    }
    failed += save_outputs(r, result);
    if (r->opt.receipt) {
        say_receipt(result);
    }
    return failed > 0 && code == 0 ? EXIT_HUSK : code;
}
