/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benchmarks share. docs/performance.md defines what is measured; each function below
 * carries out those of its file and adds rows to the report.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "base/err.h"
#include "race.h"
#include "report.h"

#define CODE "print(1+1)"
#define CODE_OUTPUT "2\n"

/* Where things are. Owned by main(), read-only elsewhere, except the report. */
struct world {
    char build[PATH_MAX];   /* the build folder, staged */
    char source[PATH_MAX];  /* bench/ of the source tree: the Python peers */
    char scratch[PATH_MAX]; /* ours to fill; bench/run made the templates in it and removes it */
    const char *runsc;      /* gVisor's runtime, or NULL */
    const char *runsc_platform;
    const char *docker_image; /* an empty image, or NULL when no engine answers */
    int cores;
    struct report report;
};

int bench_warm(struct world *w, struct err *e);                /* P1: latency.c */
int bench_cold(struct world *w, struct err *e);                /* P2 */
int bench_data(struct world *w, struct err *e);                /* P3 */
int bench_size_flat(struct world *w, struct err *e);           /* P4 */
int bench_rate(struct world *w, struct err *e);                /* P5: load.c */
int bench_cpu(struct world *w, struct err *e);                 /* P6 */
int bench_fan_out(struct world *w, struct err *e);             /* P7: density.c */
int bench_density(struct world *w, struct err *e);             /* P8 */
int bench_tail(struct world *w, struct err *e);                /* P9: tail.c */
int bench_session_exec(struct world *w, struct err *e);        /* P10: session_exec.c */
int bench_api_tax(struct world *w, struct err *e);             /* P11: http_latency.c */
int bench_branch(struct world *w, struct err *e);              /* P12: branch.c */
int bench_tax(struct world *w, struct err *e);                 /* P13: tax.c */
int bench_steady(struct world *w, struct err *e);              /* P14: steady.c */
int bench_debt(struct world *w, struct err *e);                /* P15: debt.c */
int bench_http_run(struct world *w, struct err *e);            /* H1: http_latency.c */
int bench_http_cell(struct world *w, struct err *e);           /* H2 */
int bench_http_rate(struct world *w, struct err *e);           /* H3: http_rate.c */
int bench_session_memory(struct world *w, struct err *e);      /* H4: sessions.c */
int bench_session_burst(struct world *w, struct err *e);       /* H5 */
int sessions_come_and_go(uint16_t port, int n, struct err *e); /* so many at a time, then none */
int bench_http_debt(struct world *w, struct err *e);           /* H6: http_debt.c */
int bench_tool_call(struct world *w, struct err *e);           /* S1: sdk.c */
int bench_sandbox_client(struct world *w, struct err *e);      /* S2 */
int bench_gateway(struct world *w, struct err *e);             /* S3: gateway.c */
