/* SPDX-License-Identifier: Apache-2.0 */
/* P14: what system calls cost inside a box, beside the same program on the host. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "peers.h"
#include "subject.h"

#define ROUNDS 12
#define PROGRAM_MAX ((size_t)4 << 20)

static const char *const names[] = {"getppid", "pread", "stat", "fork"};

/* The figures of one place, loop by loop. */
struct place {
    struct samples loops[ARRAY_LEN(names)];
};

/* Takes "name nanoseconds" lines apart. */
static int take_figures(struct place *place, const char *text, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *line = strstr(text, names[i]);
        double ns = line != NULL ? strtod(line + strlen(names[i]), NULL) : 0;
        if (ns <= 0) {
            return err_set(e, ERR_PROTOCOL, "no figure for %s in \"%.100s\"", names[i], text);
        }
        if (samples_add(&place->loops[i], ns) < 0) {
            return err_sys(e, ENOMEM, "samples");
        }
    }
    return 0;
}

static int run_inside(struct subject *s, const struct husk_file *program, struct place *place,
                      struct err *e)
{
    static const char code[] = "./loops";
    struct husk_result *result;
    struct husk_spec spec = {.template_name = "shell",
                             .code = code,
                             .code_len = sizeof(code) - 1,
                             .files = program,
                             .n_files = 1};

    if (subject_run(s, &spec, &result, e) < 0) {
        return err_wrap(e, "in a box");
    }
    int r = take_figures(place, result->out, e);
    husk_result_free(result);
    return r;
}

static int run_outside(const struct peer *host, struct place *place, struct err *e)
{
    char text[512];

    if (peer_capture(host, text, sizeof(text), e) < 0) {
        return err_wrap(e, "on the host");
    }
    return take_figures(place, text, e);
}

static void report(struct world *w, struct place *inside, struct place *outside)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct row row = {.id = "P14",
                          .unit = "ns",
                          .peer_name = "host",
                          .ours = samples_summary(&inside->loops[i]),
                          .peer = samples_summary(&outside->loops[i]),
                          .bar = AT_MOST(1.3, 1.1)};
        (void)str_format(row.what, sizeof(row.what), "%s inside", names[i]);
        report_add(&w->report, &row);
        fprintf(stderr, "    %-10s inside %9.0f  host %9.0f ns\n", names[i], row.ours.p50,
                row.peer.p50);
    }
}

static int alternate(struct subject *s, const struct husk_file *program, const struct peer *host,
                     struct world *w, struct err *e)
{
    struct place inside = {0};
    struct place outside = {0};
    int r = 0;

    for (int round = 0; round < ROUNDS && r == 0; round++) {
        r = run_inside(s, program, &inside, e);
        if (r == 0) {
            r = run_outside(host, &outside, e);
        }
    }
    if (r == 0) {
        report(w, &inside, &outside);
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        samples_release(&inside.loops[i]);
        samples_release(&outside.loops[i]);
    }
    return r;
}

int bench_steady(struct world *w, struct err *e)
{
    static struct peer host;
    AUTO_FREE char *data = malloc(PROGRAM_MAX);
    char path[PATH_MAX + 16];
    char dir[] = "/dev/shm/husk-bench-XXXXXX"; /* a tmpfs, as a box's workspace is */
    struct subject s = {.world = w, .template_name = "shell"};

    (void)str_format(path, sizeof(path), "%s/bench/loops", w->build);
    ssize_t n = data != NULL ? fd_read_file(AT_FDCWD, path, data, PROGRAM_MAX) : -ENOMEM;
    if (n < 0 || mkdtemp(dir) == NULL) {
        return err_sys(e, n < 0 ? (int)-n : errno, "prepare %s", path);
    }
    const struct husk_file program = {.name = "loops", .data = data, .len = (size_t)n};
    peer_begin(&host, "host", 0, "figures");
    peer_add(&host, (const char *const[]){path, dir, NULL});
    int r = subject_open(&s, 0, e);
    if (r == 0) {
        r = alternate(&s, &program, &host, w, e);
    }
    subject_close(&s);
    (void)rmdir(dir);
    return r;
}
