/* SPDX-License-Identifier: Apache-2.0 */
/* The option table of `husk run`. */
#include <stddef.h>

#include "cli/common/commands.h"
#include "cli/husk/run_request.h"

#define FIELD(name) offsetof(struct run_options, name)

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "What to run", NULL, 0, 0, NULL},
    {OPTION_TEXT, 'l', "lang", "LANGUAGE", FIELD(lang), 0,
     "python (py), shell (sh, bash) or javascript (js, node); default: by the script's "
     "extension, else python"},
    {OPTION_TEXT, 0, "template", "NAME", FIELD(template_name), 0,
     "template of the sandbox, for the same language as the code; `husk template list` shows all "
     "(default: the language's own)"},
    {OPTION_LIST, 'e', "env", "NAME[=VALUE]", FIELD(env), 0,
     "set an environment variable; without =VALUE it is copied from the caller, where it must "
     "exist; may be repeated"},

    {OPTION_GROUP, 0, "Limits", NULL, 0, 0, NULL},
    {OPTION_DURATION, 't', "timeout", "TIME", FIELD(limits.timeout_ms), 0,
     "wall-clock time: 5, 500ms, 2m, 1h; 1ms to 7 days (default 30s)"},
    {OPTION_SIZE, 'm', "memory", "SIZE", FIELD(limits.memory_bytes), 0,
     "memory of the whole sandbox: 256M, 1G; 16M to 1T (default 1G)"},
    {OPTION_MILLI, 0, "cpus", "NUMBER", FIELD(limits.cpu_milli), 0,
     "processor cores: 2, 0.5; 0.01 to 1024 (default 1)"},
    {OPTION_COUNT, 0, "pids", "NUMBER", FIELD(limits.pids), 0,
     "processes and threads at once; 1 to 32768 (default 128)"},
    {OPTION_SIZE, 0, "disk", "SIZE", FIELD(limits.disk_bytes), 0,
     "total size of what the program writes; it is kept in memory and can take three quarters of "
     "it at most (default 256M, less when the memory is small)"},
    {OPTION_SIZE, 0, "max-output", "SIZE", FIELD(limits.output_bytes), 0,
     "limit for each of stdout and stderr; more ends the program (default 64M)"},
    {OPTION_TEXT, 0, "min-isolation", "LEVEL", FIELD(min_isolation), 0,
     OPTION_TEXT_ISOLATION "; --receipt shows what is missing"},

    {OPTION_GROUP, 0, "Files", NULL, 0, 0, NULL},
    {OPTION_LIST, 'f', "file", "HOST[:BOX]", FIELD(files), 0,
     "copy a file into the workspace before the run, under its own name or as BOX; may be "
     "repeated, 256 MiB in total"},
    {OPTION_LIST, 'o', "out", "BOX[:HOST]", FIELD(outs), 0,
     "copy a file of the workspace back after the run, into the current directory or to HOST; may "
     "be repeated"},
    {OPTION_LIST, 0, "mount", "HOST:BOX[:ro]", FIELD(mounts), 0,
     "show a file or directory of this machine at an absolute path of the sandbox; without :ro it "
     "is writable, which is refused if it belongs to root (user or group) or, unless you are "
     "root, to another user; may be repeated"},

    {OPTION_GROUP, 0, "Output", NULL, 0, 0, NULL},
    {OPTION_FLAG, 0, "json", NULL, FIELD(json), 1,
     "print the whole result as one JSON object instead of the program's output; keeps 1 MiB of "
     "each stream unless --max-output is given"},
    {OPTION_FLAG, 0, "receipt", NULL, FIELD(receipt), 1,
     "after the run, print on stderr what it cost and which layers were enforced"},
    {OPTION_FLAG, 0, "value", NULL, FIELD(value), VALUE_ON,
     "print the value of the last expression (python and javascript; default for code, not for "
     "scripts)"},
    {OPTION_FLAG, 0, "no-value", NULL, FIELD(value), VALUE_OFF,
     "do not print the value of the last expression"},
    {OPTION_FLAG, 0, "raw", NULL, FIELD(raw), 1,
     "pass control characters through to a terminal (default: show them as \\xNN)"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
};

const struct option_table run_table = {
    .usage = "husk run [options] CODE [ARGUMENT...]\n"
             "husk run [options] SCRIPT [ARGUMENT...]\n"
             "husk run [options] - [ARGUMENT...]",
    .about =
        "Runs code, a script file, or code from standard input (-) in a fresh sandbox without "
        "network. Arguments after the code belong to the program. husk exits with the program's "
        "exit code; 124 means time limit, 137 memory limit, 125 that husk itself failed.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = "husk run 'sum(range(10))'\n"
                "husk run --memory 256M --timeout 10 script.py first second\n"
                "husk run --lang shell 'ls -la'\n"
                "husk run --file data.csv --out plot.png plot.py\n"
                "echo 'print(input())' > ask.py; echo hello | husk run ask.py\n"
                "husk run --json 'print(1)' | jq .status",
};
