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

static inline enum config_key key_of_flag(const char *flag)
{
    enum config_key key = 0;

    while (key < CONFIG_KEYS && strcmp(config_rows[key].flag, flag + strlen("--")) != 0) {
        key++;
    }
    CHECK(key < CONFIG_KEYS);
    return key;
}

/* Any of file, env and flags ("--key", "value", ...) may be NULL. */
static inline void load(struct loaded *l, const char *file, char **env, char **flags)
{
    struct config_flag parsed[32];
    struct config_input in = {.env = env, .is_root = true, .flags = parsed};
    char dir[32];

    memset(l, 0, sizeof(*l));
    for (char **f = flags; f != NULL && f[0] != NULL; f += 2) {
        CHECK(in.n_flags < ARRAY_LEN(parsed));
        parsed[in.n_flags++] = (struct config_flag){key_of_flag(f[0]), f[1]};
    }
    if (file == NULL) {
        l->result = config_load(&in, &l->c, &l->report, &l->e);
    } else {
        enter_temporary_directory(dir);
        write_conf(file, strlen(file));
        in.file = CONF_NAME;
        l->result = config_load(&in, &l->c, &l->report, &l->e);
        leave_temporary_directory(dir);
    }
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
