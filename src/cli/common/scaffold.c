/* SPDX-License-Identifier: Apache-2.0 */
/* Creates files from scaffold/; see scaffold.h. */
#include "cli/common/scaffold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/common/flavour.h"
#include "cli/common/hostfile.h"
#include "core/paths.h"

#define SUFFIX ".in"
#define FILE_MAX ((size_t)256 << 10)
#define DEPTH_MAX 8
#define NAME_LENGTH_MAX 63

/* ---- names ---- */

bool scaffold_is_keyword(const char *name)
{
    static const char *const keywords[] = {
        "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
        "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
        "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
        "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",
    };

    for (size_t i = 0; i < ARRAY_LEN(keywords); i++) {
        if (str_eq(keywords[i], name)) {
            return true;
        }
    }
    return false;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool scaffold_is_identifier(const char *name)
{
    size_t n = 0;

    for (; name[n] != '\0'; n++) {
        if (!is_letter(name[n]) && name[n] != '_' && (n == 0 || !is_digit(name[n]))) {
            return false;
        }
    }
    return n > 0 && n <= NAME_LENGTH_MAX && !scaffold_is_keyword(name);
}

static char change_case(char c, bool upper)
{
    return (char)(!is_letter(c) ? c : upper ? c & ~0x20 : c | 0x20);
}

void scaffold_class_name(const char *name, char ret[SCAFFOLD_CLASS_MAX])
{
    bool upper = true;
    size_t n = 0;

    for (const char *p = name; *p != '\0' && n + 1 < SCAFFOLD_CLASS_MAX; p++) {
        if (*p != '_') {
            ret[n++] = change_case(*p, upper);
        }
        upper = !is_letter(*p);
    }
    ret[n] = '\0';
    if (!is_letter(ret[0])) { /* "_1" */
        (void)str_format(ret, SCAFFOLD_CLASS_MAX, "Agent%s", name);
    }
}

/* ---- text ---- */

static const char *value_of(const struct scaffold *s, const char *key, size_t n)
{
    const struct {
        const char *key;
        const char *value;
    } table[] = {
        {"name", s->name},    {"class_name", s->class_name},  {"package", PACKAGE},
        {"program", PROGRAM}, {"up", PROGRAM " " UP_COMMAND},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (strlen(table[i].key) == n && strncmp(table[i].key, key, n) == 0) {
            return table[i].value;
        }
    }
    return NULL;
}

static int fill_in(const struct scaffold *s, const char *text, struct buf *ret, struct err *e)
{
    while (*text != '\0') {
        const char *open = strstr(text, "{{");
        const char *close = open != NULL ? strstr(open, "}}") : NULL;
        size_t plain = open != NULL ? (size_t)(open - text) : strlen(text);
        const char *value = close != NULL ? value_of(s, open + 2, (size_t)(close - open - 2)) : "";

        if (value == NULL || (open != NULL && close == NULL)) {
            return err_set(e, ERR_INVALID, "the scaffold '%s' has an unknown {{placeholder}}",
                           s->kind);
        }
        if (buf_add(ret, text, plain) < 0 || buf_add_str(ret, value) < 0) {
            return err_sys(e, ENOMEM, "cannot fill in a scaffold");
        }
        text = close != NULL ? close + 2 : text + plain;
    }
    return 0;
}

/* ---- files ---- */

static int write_new(const char *path, const struct buf *text, struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);

    if (fd < 0) {
        return err_sys(e, errno, "cannot create %s", path);
    }
    int r = fd_write_all(fd, text->len > 0 ? text->data : "", text->len);
    return r < 0 ? err_sys(e, -r, "cannot write %s", path) : 0;
}

static int copy_file(const struct scaffold *s, const char *from, const char *to, struct err *e)
{
    AUTO_BUF struct buf text = BUF_INIT(FILE_MAX);
    AUTO_BUF struct buf filled = BUF_INIT(FILE_MAX);

    if (hostfile_read(from, &text, e) < 0 ||
        fill_in(s, text.len > 0 ? text.data : "", &filled, e) < 0 ||
        write_new(to, &filled, e) < 0) {
        return -1;
    }
    printf("  %s\n", to);
    return 0;
}

static int copy_folder(const struct scaffold *s, const char *from, const char *to, int depth,
                       struct err *e);

static int copy_entry(const struct scaffold *s, const char *from, const char *into, int depth,
                      struct err *e)
{
    AUTO_BUF struct buf name = BUF_INIT(NAME_MAX);
    char to[PATH_MAX];
    struct stat st;

    if (fill_in(s, strrchr(from, '/') + 1, &name, e) < 0) {
        return -1;
    }
    if (str_format(to, sizeof(to), "%s%s%s", str_eq(into, ".") ? "" : into,
                   str_eq(into, ".") ? "" : "/", name.data) < 0) {
        return err_set(e, ERR_INVALID, "a path below %s is too long", into);
    }
    if (stat(from, &st) < 0) {
        return err_sys(e, errno, "cannot open %s", from);
    }
    if (S_ISDIR(st.st_mode)) {
        if (mkdir(to, 0777) < 0 && errno != EEXIST) {
            return err_sys(e, errno, "cannot create %s", to);
        }
        return copy_folder(s, from, to, depth + 1, e);
    }
    size_t n = strlen(to);
    if (n <= strlen(SUFFIX) || !str_eq(to + n - strlen(SUFFIX), SUFFIX)) {
        return err_set(e, ERR_INVALID, "%s does not end in " SUFFIX, from);
    }
    to[n - strlen(SUFFIX)] = '\0';
    return copy_file(s, from, to, e);
}

static int copy_folder(const struct scaffold *s, const char *from, const char *to, int depth,
                       struct err *e)
{
    struct dirent **entries = NULL;
    char path[PATH_MAX];
    int r = 0;

    if (depth > DEPTH_MAX) {
        return err_set(e, ERR_INVALID, "%s is nested too deeply", from);
    }
    int n = scandir(from, &entries, NULL, alphasort);
    if (n < 0) {
        return err_sys(e, errno, "cannot open %s", from);
    }
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;

        if (r == 0 && !str_eq(name, ".") && !str_eq(name, "..")) {
            r = str_format(path, sizeof(path), "%s/%s", from, name) < 0
                    ? err_set(e, ERR_INVALID, "a path below %s is too long", from)
                    : copy_entry(s, path, to, depth, e);
        }
        free(entries[i]);
    }
    free(entries);
    return r;
}

int scaffold_copy(const struct scaffold *s, const char *into, struct err *e)
{
    char name[NAME_MAX];
    char from[PATH_MAX];

    if (str_format(name, sizeof(name), "scaffold/%s", s->kind) < 0) {
        return err_set(e, ERR_INVALID, "there is no scaffold '%s'", s->kind);
    }
    if (paths_lib(name, from, sizeof(from), e) < 0) {
        return -1;
    }
    return copy_folder(s, from, into, 0, e);
}
