/* SPDX-License-Identifier: Apache-2.0 */
/*
 * husk-bench: measures husk beside its peers and reports which floors and goals it reaches.
 *
 * Called by bench/run, which prepares what is needed. Measures, prints and writes; never changes
 * how anything behaves.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "bench.h"

static const struct benchmark {
    const char *id;
    const char *about;
    int (*run)(struct world *w, struct err *e);
} benchmarks[] = {
    {"P1", "warm exec", bench_warm},
    {"P2", "cold exec", bench_cold},
    {"P3", "data exec", bench_data},
    {"P4", "size-flat fork", bench_size_flat},
    {"P5", "throughput", bench_rate},
    {"P6", "CPU per exec", bench_cpu},
    {"P7", "fan-out", bench_fan_out},
    {"P8", "density", bench_density},
    {"P9", "tail beside bad neighbours", bench_tail},
    {"P10", "session exec", bench_session_exec},
    {"P11", "API tax", bench_api_tax},
    {"P12", "branch of a live session", bench_branch},
    {"P13", "isolation tax", bench_tax},
    {"P14", "steady state", bench_steady},
    {"P15", "no debt", bench_debt},
    {"H1", "POST /run", bench_http_run},
    {"H2", "cells over HTTP", bench_http_cell},
    {"H3", "requests per second", bench_http_rate},
    {"H4", "memory of idle sessions", bench_session_memory},
    {"H5", "burst of sessions", bench_session_burst},
    {"H6", "no debt of the server", bench_http_debt},
    {"S1", "Python: tool call", bench_tool_call},
    {"S2", "Python: the client's own time", bench_sandbox_client},
    {"S3", "Python: served agents", bench_gateway},
};

struct options {
    const char *build;
    const char *source;
    const char *scratch;
    char **ids; /* NULL-terminated; empty: all */
};

static bool is_wanted(const struct options *o, const char *id)
{
    for (char **p = o->ids; *p != NULL; p++) {
        if (str_eq(*p, id)) {
            return true;
        }
    }
    return o->ids[0] == NULL;
}

static bool ids_are_known(const struct options *o)
{
    for (char **p = o->ids; *p != NULL; p++) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_LEN(benchmarks); i++) {
            known = known || str_eq(*p, benchmarks[i].id);
        }
        if (!known) {
            fprintf(stderr, "husk-bench: there is no benchmark %s\n", *p);
            return false;
        }
    }
    return true;
}

static bool parse(int argc, char **argv, struct options *o, struct world *w)
{
    static const struct option known[] = {
        {"build", required_argument, NULL, 'b'},
        {"source", required_argument, NULL, 's'},
        {"scratch", required_argument, NULL, 't'},
        {"runsc", required_argument, NULL, 'r'},
        {"platform", required_argument, NULL, 'p'},
        {"docker", required_argument, NULL, 'd'},
        {NULL, 0, NULL, 0},
    };
    const char **texts[] = {
        ['b'] = &o->build, ['s'] = &o->source,         ['t'] = &o->scratch,
        ['r'] = &w->runsc, ['p'] = &w->runsc_platform, ['d'] = &w->docker_image};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0) {
        if (c == '?') {
            return false;
        }
        *texts[c] = optarg;
    }
    o->ids = argv + optind;
    return o->build != NULL && o->source != NULL && o->scratch != NULL;
}

static void run_all(const struct options *o, struct world *w)
{
    for (size_t i = 0; i < ARRAY_LEN(benchmarks); i++) {
        const struct benchmark *b = &benchmarks[i];
        struct err e = {0};
        if (!is_wanted(o, b->id)) {
            continue;
        }
        uint64_t begun = clock_ms();
        fprintf(stderr, "==> %s %s\n", b->id, b->about);
        if (b->run(w, &e) < 0) {
            fprintf(stderr, "    FAILED: %s\n", e.msg);
            w->report.failed++;
        }
        fprintf(stderr, "    took %.1f s\n", (double)(clock_ms() - begun) / 1e3);
    }
}

/* BUILD/bench.json and BUILD/bench.md. */
static int write_files(const struct world *w, struct err *e)
{
    char path[PATH_MAX + 16];

    (void)str_format(path, sizeof(path), "%s/bench.md", w->build);
    FILE *markdown = fopen(path, "we");
    if (markdown == NULL) {
        return err_sys(e, errno, "write %s", path);
    }
    report_table(&w->report, markdown, true);
    (void)fclose(markdown);
    (void)str_format(path, sizeof(path), "%s/bench.json", w->build);
    return report_json(&w->report, path, e);
}

int main(int argc, char **argv)
{
    static struct world w = {.runsc_platform = "systrap"};
    struct options o = {0};
    struct err e = {0};

    if (!parse(argc, argv, &o, &w) || !ids_are_known(&o)) {
        fprintf(stderr, "husk-bench is started by bench/run; see there\n");
        return 2;
    }
    /* Absolute: peers run in other mount namespaces, where no working directory is kept. */
    if (realpath(o.build, w.build) == NULL || realpath(o.source, w.source) == NULL ||
        realpath(o.scratch, w.scratch) == NULL) {
        perror("husk-bench: a folder that bench/run names");
        return 2;
    }
    w.cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    run_all(&o, &w);
    int status = report_conclude(&w.report, stdout);
    if (write_files(&w, &e) < 0) {
        fprintf(stderr, "husk-bench: %s\n", e.msg);
        return 2;
    }
    return status;
}
