/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parser of template files; see template.h and docs/templates.md.
 *
 * One key per line, the rest of the line is its value; '#' starts a comment line. Anything
 * unknown, doubled or out of range is an error that names file, line and key.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "base/parse.h"
#include "base/str.h"
#include "box/root.h"
#include "core/template.h"
#include "wire/launcher_msg.h"

struct parser {
    struct template_def *def;
    const char *origin;
    unsigned line;
    uint32_t seen; /* bit per row of `keys` */
};

static int wrong(const struct parser *p, const char *key, const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID, "%s, line %u: %s: %s", p->origin, p->line, key, what);
}

static int set_text(const struct parser *p, const char *key, char *to, size_t size, const char *v,
                    struct err *e)
{
    return str_copy(to, size, v) < 0 ? wrong(p, key, "is too long", e) : 0;
}

static int key_about(struct parser *p, const char *v, struct err *e)
{
    return set_text(p, "about", p->def->info.about, sizeof(p->def->info.about), v, e);
}

static int key_language(struct parser *p, const char *v, struct err *e)
{
    return template_language_find(v, &p->def->info.language)
               ? 0
               : wrong(p, "language", "must be python, shell or javascript", e);
}

static int key_runtime(struct parser *p, const char *v, struct err *e)
{
    if (!launcher_path_check(v)) {
        return wrong(p, "runtime", "must be an absolute path inside the box", e);
    }
    return set_text(p, "runtime", p->def->info.runtime, sizeof(p->def->info.runtime), v, e);
}

static int key_root(struct parser *p, const char *v, struct err *e)
{
    if (str_eq(v, "host")) {
        p->def->host_root = true;
        return 0;
    }
    if (v[0] != '/') {
        return wrong(p, "root", "must be \"host\" or the absolute path of a root file system", e);
    }
    p->def->host_root = false;
    return set_text(p, "root", p->def->root, sizeof(p->def->root), v, e);
}

static int key_preload(struct parser *p, const char *v, struct err *e)
{
    for (const char *c = v; *c != '\0'; c++) {
        bool ok = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                  (*c >= '0' && *c <= '9') || *c == '_' || *c == '.' || *c == ' ';
        if (!ok) {
            return wrong(p, "preload", "must be module names separated by spaces", e);
        }
    }
    return set_text(p, "preload", p->def->info.preload, sizeof(p->def->info.preload), v, e);
}

static int key_warm(struct parser *p, const char *v, struct err *e)
{
    return set_text(p, "warm", p->def->warm, sizeof(p->def->warm), v, e);
}

static int key_seccomp(struct parser *p, const char *v, struct err *e)
{
    return str_is_name(v) ? set_text(p, "seccomp", p->def->seccomp, sizeof(p->def->seccomp), v, e)
                          : wrong(p, "seccomp", "must be the name of a profile", e);
}

static int key_mount(struct parser *p, const char *v, struct err *e)
{
    struct template_mount *m = &p->def->mounts[p->def->n_mounts];
    size_t n = strcspn(v, " ");

    if (p->def->n_mounts == TEMPLATE_LIST_MAX) {
        return wrong(p, "mount", "too many", e);
    }
    if (n >= sizeof(m->host) || v[0] != '/') {
        return wrong(p, "mount", "must be an absolute host path, then optionally its path inside",
                     e);
    }
    memcpy(m->host, v, n);
    m->host[n] = '\0';
    const char *box = v[n] == ' ' ? v + n + 1 + strspn(v + n + 1, " ") : m->host;
    if (!launcher_path_check(box) || str_copy(m->box, sizeof(m->box), box) < 0) {
        return wrong(p, "mount", "the path inside must be absolute and plain; no path has blanks",
                     e);
    }
    if (root_is_hidden(m->box)) {
        return wrong(p, "mount", "a box has its own /tmp, /workspace, /proc, /dev and /run", e);
    }
    p->def->n_mounts++;
    return 0;
}

static int key_env(struct parser *p, const char *v, struct err *e)
{
    if (p->def->n_env == TEMPLATE_LIST_MAX) {
        return wrong(p, "env", "too many", e);
    }
    if (strchr(v, '=') == NULL || v[0] == '=') {
        return wrong(p, "env", "must be NAME=value", e);
    }
    char *to = p->def->env[p->def->n_env];
    if (set_text(p, "env", to, sizeof(p->def->env[0]), v, e) < 0) {
        return -1;
    }
    p->def->n_env++;
    return 0;
}

static int key_memory(struct parser *p, const char *v, struct err *e)
{
    return parse_size(v, &p->def->info.limits.memory_bytes) < 0
               ? wrong(p, "memory", "must be a size such as 512M", e)
               : 0;
}

static int key_disk(struct parser *p, const char *v, struct err *e)
{
    return parse_size(v, &p->def->info.limits.disk_bytes) < 0
               ? wrong(p, "disk", "must be a size such as 64M", e)
               : 0;
}

static int key_timeout(struct parser *p, const char *v, struct err *e)
{
    return parse_duration_ms(v, &p->def->info.limits.timeout_ms) < 0
               ? wrong(p, "timeout", "must be a duration such as 30s", e)
               : 0;
}

static int key_cpus(struct parser *p, const char *v, struct err *e)
{
    uint64_t milli;

    if (parse_milli(v, &milli) < 0 || milli > UINT32_MAX) {
        return wrong(p, "cpus", "must be a number such as 0.5", e);
    }
    p->def->info.limits.cpu_milli = (uint32_t)milli;
    return 0;
}

static int key_pids(struct parser *p, const char *v, struct err *e)
{
    uint64_t pids;

    if (parse_u64(v, &pids) < 0 || pids > UINT32_MAX) {
        return wrong(p, "pids", "must be a whole number", e);
    }
    p->def->info.limits.pids = (uint32_t)pids;
    return 0;
}

static const struct {
    const char *name;
    int (*set)(struct parser *p, const char *v, struct err *e);
    bool many;
} keys[] = {
    {"about", key_about, false},     {"language", key_language, false},
    {"runtime", key_runtime, false}, {"root", key_root, false},
    {"preload", key_preload, false}, {"seccomp", key_seccomp, false},
    {"warm", key_warm, false},       {"mount", key_mount, true},
    {"env", key_env, true},          {"memory", key_memory, false},
    {"disk", key_disk, false},       {"timeout", key_timeout, false},
    {"cpus", key_cpus, false},       {"pids", key_pids, false},
};

static int take_pair(struct parser *p, const char *key, const char *value, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (!str_eq(key, keys[i].name)) {
            continue;
        }
        if ((p->seen & (1u << i)) != 0 && !keys[i].many) {
            return wrong(p, key, "is given twice", e);
        }
        p->seen |= 1u << i;
        return keys[i].set(p, value, e);
    }
    return err_set(e, ERR_INVALID, "%s, line %u: unknown key \"%.40s\"", p->origin, p->line, key);
}

/* Cuts white space off both ends; text is changed. */
static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1]) != NULL) {
        text[--n] = '\0';
    }
    return text;
}

static int take_line(struct parser *p, char *line, struct err *e)
{
    char *text = trim(line);

    if (text[0] == '\0' || text[0] == '#') {
        return 0;
    }
    char *equals = strchr(text, '=');
    if (equals == NULL) {
        return err_set(e, ERR_INVALID, "%s, line %u: expected key = value", p->origin, p->line);
    }
    *equals = '\0';
    char printable[80];
    char *key = trim(text);
    str_printable(printable, sizeof(printable), key, strlen(key));
    return take_pair(p, printable, trim(equals + 1), e);
}

/* FNV-1a: tells one text from another, not from what somebody has made to look like it. */
static uint64_t fingerprint_of(const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
    }
    return h;
}

int template_parse(const char *name, const char *origin, const char *text, size_t n,
                   struct template_def *ret, struct err *e)
{
    static const char *const runtimes[] = {"/usr/bin/python3", "/bin/bash", "/usr/bin/node"};
    struct template_def def = {
        .host_root = true, .seccomp = "default", .fingerprint = fingerprint_of(text, n)};
    struct parser p = {.def = &def, .origin = origin};
    char line[1400];

    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end != NULL ? (size_t)(end - text) - at : n - at;
        p.line++;
        if (len >= sizeof(line) || memchr(text + at, '\0', len) != NULL ||
            !str_is_utf8(text + at, len)) {
            return err_set(e, ERR_INVALID, "%s, line %u: too long, or not UTF-8 text", origin,
                           p.line);
        }
        memcpy(line, text + at, len);
        line[len] = '\0';
        if (take_line(&p, line, e) < 0) {
            return -1;
        }
        at += len + 1;
    }
    if (str_copy(def.info.name, sizeof(def.info.name), name) < 0 || !str_is_name(name)) {
        return err_set(e, ERR_INVALID,
                       "template name \"%.80s\" must be lower-case letters, digits, - _ .", name);
    }
    (void)str_copy(def.info.origin, sizeof(def.info.origin), origin);
    if (def.info.runtime[0] == '\0') {
        (void)str_copy(def.info.runtime, sizeof(def.info.runtime), runtimes[def.info.language]);
    }
    *ret = def;
    return 0;
}
