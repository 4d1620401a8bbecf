/* SPDX-License-Identifier: Apache-2.0 */
/* Loads configurations from text, variables and flags, apart from the machine's own. */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "config/config.h"
#include "tap.h"

#define WORDS(...) ((char *[]){__VA_ARGS__, NULL})

struct loaded {
    struct config c;
    struct config_report report;
    int result;
    struct err e;
};

/* The file's text goes through a descriptor, so that its name is short and always the same. */
#define CONF_NAME "husk.conf"

static inline void write_conf(const char *text, size_t n)
{
    AUTO_CLOSE int fd = -1;

    fd = open(CONF_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(fd_write_all(fd, text, n), 0);
}

/* Each test is a process of its own, so it may move into a directory of its own. */
static inline void enter_temporary_directory(char name[32])
{
    (void)snprintf(name, 32, "/tmp/husk-config-XXXXXX");
    CHECK(mkdtemp(name) != NULL);
    CHECK_INT(chdir(name), 0);
}

static inline void leave_temporary_directory(const char *name)
{
    (void)unlink(CONF_NAME);
    CHECK_INT(chdir("/"), 0);
    CHECK_INT(rmdir(name), 0);
}

/* Any of file, env and flags ("--key", "value", ...) may be NULL. */
static inline void load(struct loaded *l, const char *file, char **env, char **flags)
{
    struct config_input in = {.env = env, .is_root = true};
    struct config_flag *owned = NULL;
    char *argv[64] = {"huskd"};
    char dir[32];
    int argc = 1;

    memset(l, 0, sizeof(*l));
    for (; flags != NULL && flags[argc - 1] != NULL; argc++) {
        argv[argc] = flags[argc - 1];
    }
    CHECK_INT(config_args(argc, argv, &in, &owned, &l->e), 0);
    if (file == NULL) {
        l->result = config_load(&in, &l->c, &l->report, &l->e);
    } else {
        enter_temporary_directory(dir);
        write_conf(file, strlen(file));
        in.file = CONF_NAME;
        l->result = config_load(&in, &l->c, &l->report, &l->e);
        leave_temporary_directory(dir);
    }
    free(owned);
}

static inline void unload(struct loaded *l)
{
    config_release(&l->c);
    config_report_release(&l->report);
}

static inline const char *errors_of(const struct loaded *l)
{
    return l->report.errors.data != NULL ? l->report.errors.data : "";
}

static inline const char *warnings_of(const struct loaded *l)
{
    return l->report.warnings.data != NULL ? l->report.warnings.data : "";
}

static inline void check_has(const char *text, const char *part)
{
    CASE("'%s' in '%s'", part, text);
    CHECK(strstr(text, part) != NULL);
}
