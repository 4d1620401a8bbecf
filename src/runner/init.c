/* SPDX-License-Identifier: Apache-2.0 */
/*
 * husk-init: zygote and PID 1 for languages other than Python. Static, so that it runs in any root.
 *
 *   husk-init start INTERPRETER [ARG]...      the interpreter is started with the code
 *   husk-init prestart INTERPRETER [ARG]...   it is started ahead and reads its code from
 *   descriptor 4
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "runner/pid1.h"
#include "runner/program.h"
#include "runner/zygote.h"
#include "wire/launcher_msg.h"

int main(int argc, char **argv)
{
    struct zygote_child child;
    char message[300];

    if (argc < 3 || (!str_eq(argv[1], "start") && !str_eq(argv[1], "prestart"))) {
        fprintf(stderr, "husk-init is started by husk-launcher\n");
        return 2;
    }
    struct program program = {.argv = argv + 2, .prestart = str_eq(argv[1], "prestart")};
    if (access(program.argv[0], X_OK) < 0) {
        (void)str_format(message, sizeof(message), "there is no %s in the template's root",
                         program.argv[0]);
        zygote_broken(message);
    }
    struct pid1_interpreters has = {0};
    if (program.prestart) {
        has.paths.javascript = program.argv[0];
    } else {
        has.paths.shell = program.argv[0];
    }
    zygote_serve(&child);
    if (child.mode == LAUNCHER_SESSION) {
        pid1_serve(&has);
    }
    program_serve(&program);
}
