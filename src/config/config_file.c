/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file: INI, split by inih.
 *
 * inih tells its callback no line number, reports only the first line that it cannot read, and
 * joins indented lines to the ones above. So next_line() feeds it: it counts lines, removes
 * indentation and reports every line that set nothing. Must not accept a key that is not in the
 * table.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/suggest.h"
#include "config/config_impl.h"

#define FILE_MAX_BYTES ((size_t)1 << 20)

struct reader {
    struct config_loader *l;
    const char *at;
    const char *end;
    unsigned line;
    bool wants_key;   /* the last line should call on_key() */
    char unknown[64]; /* unknown section that was already reported */
};

/* ---- lines ---- */

static const char *why_unreadable(const char *line, size_t n, size_t room)
{
    if (n + 2 > room) {
        return "the line is too long; a list can be split into lines that repeat its key";
    }
    for (size_t i = 0; i < n; i++) {
        if (iscntrl((unsigned char)line[i]) && line[i] != '\t') {
            return "the line has a control character";
        }
    }
    if (line[0] == '[' && memchr(line, ']', n) == NULL) {
        return "expected ']' at the end of the section's name";
    }
    return NULL;
}

static void finish_line(struct reader *r)
{
    if (r->wants_key) {
        config_error(r->l->report, "%s:%u: expected 'key = value'", r->l->c->file, r->line);
    }
    r->wants_key = false;
}

/* Like fgets(). A line that cannot be used arrives empty, so that inih's count stays right. */
static char *next_line(char *dst, int room, void *stream)
{
    struct reader *r = stream;

    finish_line(r);
    if (r->at == r->end) {
        return NULL;
    }
    const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *stop = newline != NULL ? newline : r->end;
    const char *line = r->at;
    size_t n = (size_t)(stop - line);

    r->at = newline != NULL ? newline + 1 : r->end;
    r->line++;
    if (n > 0 && line[n - 1] == '\r') {
        n--;
    }
    while (n > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        n--;
    }
    const char *why = n > 0 ? why_unreadable(line, n, (size_t)room) : NULL;
    if (why != NULL) {
        config_error(r->l->report, "%s:%u: %s", r->l->c->file, r->line, why);
        n = 0;
    }
    r->wants_key = n > 0 && strchr("[;#", line[0]) == NULL;
    memcpy(dst, line, n);
    dst[n] = '\n';
    dst[n + 1] = '\0';
    return dst;
}

/* ---- keys ---- */

static int find_group(const char *section)
{
    for (int group = 0; group < CONFIG_GROUPS; group++) {
        if (str_eq(config_group_name((enum config_group)group), section)) {
            return group;
        }
    }
    return -1;
}

/* In [pool] both "min" and "pool_min" are pool_min. */
static int find_in_group(enum config_group group, const char *name)
{
    char whole[CONFIG_NAME_MAX];
    int key = -1;

    if (str_format(whole, sizeof(whole), "%s%s", config_group_prefix(group), name) == 0) {
        key = config_find_key(whole);
    }
    if (key < 0 || config_rows[key].group != group) {
        key = config_find_key(name);
    }
    return key >= 0 && config_rows[key].group == group ? key : -1;
}

static void unknown_section(struct reader *r, const char *section)
{
    const char *names[CONFIG_GROUPS];
    char shown[CONFIG_QUOTED_MAX];

    if (str_eq(r->unknown, section)) {
        return;
    }
    (void)str_copy(r->unknown, sizeof(r->unknown), section);
    for (int group = 0; group < CONFIG_GROUPS; group++) {
        names[group] = config_group_name((enum config_group)group);
    }
    const char *near = suggest(section, names, CONFIG_GROUPS);
    config_error(r->l->report, "%s:%u: there is no section [%s]%s%s%s", r->l->c->file, r->line,
                 config_quote(section, shown), near != NULL ? "; did you mean [" : "",
                 near != NULL ? near : "", near != NULL ? "]?" : "");
}

static void unknown_key(struct reader *r, int group, const char *name)
{
    const char *names[2 * CONFIG_KEYS];
    char shown[CONFIG_QUOTED_MAX];
    size_t n = 0;

    int elsewhere = config_find_key(name);
    if (group >= 0 && elsewhere >= 0) {
        config_error(r->l->report, "%s:%u: %s belongs to [%s], not to [%s]", r->l->c->file, r->line,
                     name, config_group_name(config_rows[elsewhere].group),
                     config_group_name((enum config_group)group));
        return;
    }
    for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
        const struct config_row *row = &config_rows[key];

        if (group < 0 || (int)row->group == group) {
            const char *prefix = config_group_prefix(row->group);
            names[n++] = row->key;
            if (group >= 0 && str_starts(row->key, prefix)) {
                names[n++] = row->key + strlen(prefix);
            }
        }
    }
    const char *near = suggest(name, names, n);
    config_error(r->l->report, "%s:%u: there is no setting '%s'%s%s%s", r->l->c->file, r->line,
                 config_quote(name, shown), near != NULL ? "; did you mean '" : "",
                 near != NULL ? near : "", near != NULL ? "'?" : "");
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
    struct reader *r = user;
    int group = section[0] != '\0' ? find_group(section) : -1;

    r->wants_key = false;
    if (section[0] != '\0' && group < 0) {
        unknown_section(r, section);
        return 1;
    }
    int key = group < 0 ? config_find_key(name) : find_in_group((enum config_group)group, name);
    if (key < 0) {
        unknown_key(r, group, name);
        return 1;
    }
    const struct config_origin *before = &r->l->c->origin[key];
    if (before->source == CONFIG_FROM_FILE && !config_type_is_list(config_rows[key].type)) {
        config_error(r->l->report, "%s:%u: %s is set twice; line %u has the first", r->l->c->file,
                     r->line, config_rows[key].key, before->line);
        return 1;
    }
    config_apply(r->l, (enum config_key)key, value,
                 (struct config_origin){.source = CONFIG_FROM_FILE, .line = r->line});
    return 1;
}

void config_file_text(struct config_loader *l, const char *text, size_t n)
{
    bool has_bom = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    struct reader r = {.l = l, .at = text + (has_bom ? 3 : 0), .end = text + n};
    unsigned before = l->report->n_errors;

    int bad = ini_parse_stream(next_line, &r, on_key, &r);
    finish_line(&r);
    if (bad != 0 && l->report->n_errors == before) {
        config_error(l->report, "%s:%d: cannot be parsed", l->c->file, MAX(bad, 0));
    }
}

/* ---- the file itself ---- */

/* NULL: there is no file, and none was named. */
static const char *choose(const struct config_input *in)
{
    const char *named = in->file != NULL ? in->file : config_env_get(in, "HUSK_CONFIG");

    if (named != NULL) {
        return named;
    }
    return in->system_file != NULL && access(in->system_file, F_OK) == 0 ? in->system_file : NULL;
}

static int read_whole(const struct config_loader *l, const char *path, char *text, size_t *ret_n,
                      struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (l->in->again ? O_NONBLOCK : 0));
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(e, errno, "cannot open it");
    }
    if (l->in->again && S_ISFIFO(st.st_mode)) {
        return err_set(e, ERR_INVALID, "is a pipe, which can be read only at the start");
    }
    if (l->in->is_root && S_ISREG(st.st_mode) && (st.st_mode & S_IWOTH) != 0) {
        return err_set(e, ERR_INVALID, "everyone can write it: chmod o-w it");
    }
    ssize_t n = fd_read_all(fd, text, FILE_MAX_BYTES);
    if (n < 0) {
        return err_sys(e, (int)-n, "cannot read it");
    }
    if ((size_t)n == FILE_MAX_BYTES) {
        return err_set(e, ERR_INVALID, "is larger than %zu KiB", FILE_MAX_BYTES >> 10);
    }
    *ret_n = (size_t)n;
    return 0;
}

void config_read_file(struct config_loader *l)
{
    AUTO_FREE char *text = NULL;
    const char *path = choose(l->in);
    struct err e;
    size_t n = 0;

    if (path == NULL) {
        return;
    }
    text = malloc(FILE_MAX_BYTES);
    if (text == NULL || config_text_set(&l->c->file, path, &e) < 0) {
        l->file_unread = true;
        config_error(l->report, "%s: out of memory", path);
    } else if (read_whole(l, path, text, &n, &e) < 0) {
        l->file_unread = true;
        config_error(l->report, "%s: %s", path, e.msg);
    } else {
        config_file_text(l, text, n);
    }
}
