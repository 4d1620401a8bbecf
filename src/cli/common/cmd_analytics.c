/* SPDX-License-Identifier: Apache-2.0 */
/* husk analytics, and the counting itself; see analytics.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/dirs.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/common/analytics.h"
#include "cli/common/commands.h"
#include "cli/common/hostfile.h"
#include "cli/common/term.h"

#define FILE_MAX ((size_t)64 << 10)

struct analytics_options {
    int json;
};

#define FIELD(name) offsetof(struct analytics_options, name)

static const struct option_row rows[] = {
    {OPTION_GROUP, 0, "Options", NULL, 0, 0, NULL},
    {OPTION_FLAG, 0, "json", NULL, FIELD(json), 1, "status: print a JSON object"},
    {OPTION_HELP, 'h', "help", NULL, 0, 0, "show the help text"},
};

const struct option_table analytics_table = {
    .usage = PROGRAM " analytics [on|off|status] [--json]",
    .about =
        "Counts in a local file which commands and frameworks you use. Off until you turn it on. "
        "Nothing is ever sent anywhere; 'status', or no word, shows the file and its content. "
        "RAYAI_DO_NOT_TRACK=1 or DO_NOT_TRACK=1 keeps it off.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .examples = PROGRAM " analytics status\n" PROGRAM " analytics on",
    .anywhere = true,
};

/* ---- the file ---- */

/* The variable that forbids it; NULL: none. */
static const char *forbidden_by(void)
{
    static const char *const names[] = {"RAYAI_DO_NOT_TRACK", "DO_NOT_TRACK"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);

        if (value != NULL && value[0] != '\0' && !str_eq(value, "0") && !str_eq(value, "false")) {
            return names[i];
        }
    }
    return NULL;
}

static int file_path(char *ret, size_t size, struct err *e)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int r = -1;

    if (state != NULL && state[0] == '/') {
        r = str_format(ret, size, "%s/husk/analytics.json", state);
    } else if (home != NULL && home[0] == '/') {
        r = str_format(ret, size, "%s/.local/state/husk/analytics.json", home);
    }
    return r < 0 ? err_set(e, ERR_NOT_FOUND, "analytics: neither XDG_STATE_HOME nor HOME is set")
                 : 0;
}

/* The open, locked file and its content. ERR_NOT_FOUND: there is none. */
static int open_file(const char *path, int flags, int *ret_fd, json_t **ret, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | flags, 0600);

    if (fd < 0 || flock(fd, LOCK_EX) < 0) {
        int why = errno;
        err_sys(e, why, "cannot open %s", path);
        if (why == ENOENT || why == ENOTDIR) {
            e->code = ERR_NOT_FOUND;
        }
        return -1;
    }
    if (hostfile_read_fd(fd, path, &text, e) < 0) {
        return -1;
    }
    json_t *found = text.len == 0
                        ? json_pack("{s:b, s:{}, s:{}}", "on", 0, "commands", "frameworks")
                        : json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_boolean(json_object_get(found, "on")) ||
        !json_is_object(json_object_get(found, "commands")) ||
        !json_is_object(json_object_get(found, "frameworks"))) {
        json_decref(found);
        return err_set(e, ERR_INVALID, "%s does not have the form that husk writes: remove it",
                       path);
    }
    *ret = found;
    *ret_fd = take_fd(&fd);
    return 0;
}

static int write_file(int fd, const char *path, const json_t *value, struct err *e)
{
    AUTO_FREE char *text = json_dumps(value, JSON_INDENT(2) | JSON_SORT_KEYS);

    if (text == NULL) {
        return err_sys(e, ENOMEM, "cannot write %s", path);
    }
    if (lseek(fd, 0, SEEK_SET) < 0 || ftruncate(fd, 0) < 0) {
        return err_sys(e, errno, "cannot write %s", path);
    }
    int r = fd_write_all(fd, text, strlen(text));
    r = r < 0 ? r : fd_write_all(fd, "\n", 1);
    return r < 0 ? err_sys(e, -r, "cannot write %s", path) : 0;
}

/* ---- counting ---- */

static void add_one(json_t *value, const char *group, const char *name)
{
    json_t *counts = json_object_get(value, group);

    if (name != NULL) {
        json_int_t n = json_integer_value(json_object_get(counts, name));
        (void)json_object_set_new(counts, name, json_integer(n + 1));
    }
}

void analytics_count(const char *command, const char *framework)
{
    AUTO_CLOSE int fd = -1;
    json_t *value = NULL;
    char path[PATH_MAX];
    struct err e = {0};

    if (forbidden_by() != NULL || file_path(path, sizeof(path), &e) < 0) {
        return;
    }
    int r = open_file(path, 0, &fd, &value, &e);
    if (r == 0 && json_is_true(json_object_get(value, "on"))) {
        add_one(value, "commands", command);
        add_one(value, "frameworks", framework);
        r = write_file(fd, path, value, &e);
    }
    /* No permission, as in another user's home after su: this user has turned nothing on there. */
    if (r < 0 && e.code != ERR_NOT_FOUND && e.sys_errno != EACCES) {
        term_say(PROGRAM, "warning: not counted: %s", e.msg);
    }
    json_decref(value);
}

/* ---- the command ---- */

static int turn(const char *path, bool on, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    json_t *value = NULL;

    const char *why = forbidden_by();
    if (on && why != NULL) {
        return err_set(e, ERR_CONFLICT, "analytics stay off: %s is set", why);
    }
    int r = on ? dirs_make_parents(path, 0700) : 0;
    if (r < 0) {
        return err_sys(e, -r, "cannot create the folder of %s", path);
    }
    r = open_file(path, on ? O_CREAT : 0, &fd, &value, e);
    if (r == 0) {
        (void)json_object_set_new(value, "on", json_boolean(on));
        r = write_file(fd, path, value, e);
        json_decref(value);
    } else if (!on && e->code == ERR_NOT_FOUND) {
        r = 0;
    }
    if (r == 0 && on) {
        printf("analytics are on: counted in %s, sent nowhere\n", path);
    } else if (r == 0) {
        puts("analytics are off");
    }
    return r;
}

static void print_counts(const json_t *counts)
{
    const char *name;
    json_t *n;

    json_object_foreach(drop_const(counts), name, n)
    {
        printf("  %-14s %lld\n", name, (long long)json_integer_value(n));
    }
}

static int show(const char *path, bool as_json, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    json_t *value = NULL;
    const char *why = forbidden_by();

    if (open_file(path, 0, &fd, &value, e) < 0 && e->code != ERR_NOT_FOUND) {
        return -1;
    }
    bool on = why == NULL && json_is_true(json_object_get(value, "on"));
    if (as_json) {
        int r = print_json(json_pack("{s:b, s:s, s:s?, s:O*, s:O*}", "on", (int)on, "file", path,
                                     "forbidden_by", why, "commands",
                                     json_object_get(value, "commands"), "frameworks",
                                     json_object_get(value, "frameworks")));
        json_decref(value);
        return r == 0 ? 0 : err_set(e, ERR_SYSTEM, "cannot show the status");
    }
    printf("analytics are %s%s%s%s\n", on ? "on" : "off", why != NULL ? " (" : "",
           why != NULL ? why : "", why != NULL ? " is set)" : "");
    printf("file: %s%s\n", path, value == NULL ? " (does not exist)" : "; it is never sent");
    print_counts(json_object_get(value, "commands"));
    print_counts(json_object_get(value, "frameworks"));
    json_decref(value);
    return 0;
}

int cmd_analytics(int argc, char **argv)
{
    struct analytics_options o = {0};
    struct option_rest rest;
    char path[PATH_MAX];
    struct err e = {0};

    int code = command_parse("analytics", &analytics_table, argc, argv, &o, &rest);
    if (code != COMMAND_GOES_ON) {
        return code;
    }
    const char *verb = rest.n == 0 ? "status" : rest.n == 1 ? rest.args[0] : "";
    bool is_status = str_eq(verb, "status");
    if (!is_status && !str_eq(verb, "on") && !str_eq(verb, "off")) {
        err_set(&e, ERR_INVALID, "analytics needs one of on, off, status");
        return usage_error("analytics", &e);
    }
    if (o.json && !is_status) {
        err_set(&e, ERR_INVALID, "--json is an option of 'analytics status' only");
        return usage_error("analytics", &e);
    }
    if (file_path(path, sizeof(path), &e) < 0 ||
        (is_status ? show(path, o.json != 0, &e) : turn(path, str_eq(verb, "on"), &e)) < 0) {
        term_say(PROGRAM, "%s", e.msg);
        return EXIT_HUSK;
    }
    return 0;
}
