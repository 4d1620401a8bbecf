/* SPDX-License-Identifier: Apache-2.0 */
/*
 * husk limited: runs a program with limits on memory, processors and processes; no sandbox. See
 * limited/limited.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/common/commands.h"
#include "cli/common/term.h"
#include "limited/limited.h"

struct limited_command {
    char *name;
    uint64_t memory;
    uint32_t cpu_milli;
    uint32_t pids;
    uint32_t report_fd;
    int best_effort;
    int report; /* our own copy of report_fd; -1: none */
};

#define FIELD(name) offsetof(struct limited_command, name)

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Limits", NULL, 0, 0, NULL},
    {OPTION_SIZE, 'm', "memory", "SIZE", FIELD(memory), 0,
     "memory of the program and all its descendants: 256M, 2G; 16M to 1T; using more kills all of "
     "them (exit code 137)"},
    {OPTION_MILLI, 0, "cpus", "NUMBER", FIELD(cpu_milli), 0,
     "processor cores: 2, 0.5; 0.01 to 1024"},
    {OPTION_COUNT, 0, "pids", "NUMBER", FIELD(pids), 0,
     "processes and threads at once; 1 to 32768"},
    {OPTION_FLAG, 0, "best-effort", NULL, FIELD(best_effort), 1,
     "if cgroups cannot be created, limit the address space of each process and pin them to a "
     "number of processors instead of failing; --pids is not enforced then, and a line on stderr "
     "reports it"},
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_TEXT, 0, "name", "NAME", FIELD(name), 0,
     "name for messages and for the cgroup: lower-case letters, digits, '.', '_' and '-'"},
    {OPTION_COUNT, 0, "report-fd", "NUMBER", FIELD(report_fd), 0,
     "descriptor that gets a line of JSON when the program starts and one when it has ended; the "
     "program does not inherit it"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
};

const struct option_table limited_table = {
    .usage = "husk limited [options] -- PROGRAM [ARGUMENT...]",
    .about =
        "Runs a trusted program of this machine with limits on memory, processors and processes. "
        "The program keeps the rights, environment, directory and open files of its caller: this "
        "is no sandbox. When the program, husk or the parent of husk ends, all descendants of the "
        "program are killed. A limit that is not given is not set.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = "husk limited --memory 2G --cpus 1.5 -- python3 train.py\n"
                "husk limited --pids 64 -- make -j",
};

/* Keeps a copy that the program does not inherit, and closes the caller's descriptor. */
static int take_report(struct limited_command *c, struct err *e)
{
    int given = (int)c->report_fd;

    c->report = -1;
    if (c->report_fd == 0) {
        return 0;
    }
    int flags = fcntl(given, F_GETFL);
    if (flags < 0) {
        return err_set(e, ERR_INVALID, "--report-fd %" PRIu32 " is not open", c->report_fd);
    }
    if ((flags & O_ACCMODE) == O_RDONLY) {
        return err_set(e, ERR_INVALID, "--report-fd %" PRIu32 " is open for reading only",
                       c->report_fd);
    }
    c->report = fcntl(given, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (c->report < 0) {
        return err_sys(e, errno, "cannot keep --report-fd");
    }
    if (given > STDERR_FILENO) {
        close(given);
    }
    return 0;
}

static int check(struct limited_command *c, const struct option_rest *rest, struct err *e)
{
    if (rest->n == 0) {
        return err_set(e, ERR_INVALID, "limited needs a program: %s", limited_table.usage);
    }
    if (c->name == NULL) {
        c->name = "program";
    } else if (!str_is_name(c->name)) {
        return err_set(e, ERR_INVALID,
                       "--name '%s' must be 1 to 63 lower-case letters, digits, '.', '_' and '-', "
                       "and begin with a letter or digit",
                       c->name);
    }
    return take_report(c, e);
}

static void on_start(void *user, pid_t pid, bool weak)
{
    const struct limited_command *c = user;

    if (weak && c->pids != 0) {
        term_say(PROGRAM, "%s: --pids is not enforced, because there is no cgroup", c->name);
    }
    if (c->report >= 0) {
        (void)limited_report_start(c->report, pid, weak); /* a reader that is gone is no failure */
    }
}

static int run(struct limited_command *c, char **argv)
{
    struct limited_options o = {
        .name = c->name,
        .argv = argv,
        .memory_bytes = c->memory,
        .cpu_milli = c->cpu_milli,
        .pids = c->pids,
        .best_effort = c->best_effort != 0,
        .on_start = on_start,
        .user = c,
    };
    struct limited_end end;
    struct err e = {0};

    if (limited_run(&o, &end, &e) < 0) {
        if (e.code == ERR_INVALID) {
            return usage_error("limited", &e);
        }
        term_say(PROGRAM, "%s", e.msg);
        return EXIT_HUSK;
    }
    if (limited_is_out_of_memory(&end)) {
        term_say(PROGRAM,
                 "%s was killed: it reached its memory limit of %" PRIu64
                 " MiB (raise it with --memory)",
                 c->name, c->memory >> 20);
    }
    if (c->report >= 0) {
        (void)limited_report_end(c->report, &end);
    }
    return end.exit_code;
}

int cmd_limited(int argc, char **argv)
{
    struct limited_command c = {.report = -1};
    struct option_rest rest;
    struct err e = {0};

    int code = command_parse("limited", &limited_table, argc, argv, &c, &rest);
    if (code != COMMAND_GOES_ON) {
        return code;
    }
    if (check(&c, &rest, &e) < 0) {
        return usage_error("limited", &e);
    }
    code = run(&c, rest.args);
    fd_close(&c.report);
    return code;
}
