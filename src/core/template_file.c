/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parser of template files; see template.h and docs/templates.md.
 *
 * One key per line, the rest of the line is its value; '#' starts a comment line. Anything
 * unknown, doubled or out of range is an error that names file, line and key.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/units.h"
#include "box/root.h"
#include "core/template.h"
#include "wire/launcher_msg.h"

/* Whose file may have a key. */
enum side { OPERATORS = 1 << 0, CLIENTS = 1 << 1, BOTH = OPERATORS | CLIENTS };

#define PRELOAD_TIMEOUT_MAX_MS ((uint64_t)3600 * 1000)

struct parser {
    struct template_def *def;
    const char *origin;
    enum side side;
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

static bool are_modules(const char *v)
{
    for (const char *c = v; *c != '\0'; c++) {
        bool ok = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                  (*c >= '0' && *c <= '9') || *c == '_' || *c == '.' || *c == ' ';
        if (!ok) {
            return false;
        }
    }
    return true;
}

static int key_base(struct parser *p, const char *v, struct err *e)
{
    return str_is_name(v) ? set_text(p, "base", p->def->base, sizeof(p->def->base), v, e)
                          : wrong(p, "base", "must be the name of a template", e);
}

static int beyond_most(void *user, const char *name, size_t index)
{
    (void)user;
    (void)name;
    return index >= TEMPLATE_OFFERS_MAX;
}

static int key_offers(struct parser *p, const char *v, struct err *e)
{
    if (!are_modules(v)) {
        return wrong(p, "offers", "must be module names separated by spaces", e);
    }
    if (template_each_module(v, beyond_most, NULL) != 0) {
        return wrong(p, "offers", "at most 64 modules", e);
    }
    return set_text(p, "offers", p->def->offers, sizeof(p->def->offers), v, e);
}

static int key_preload(struct parser *p, const char *v, struct err *e)
{
    if (!are_modules(v)) {
        return wrong(p, "preload", "must be module names separated by spaces", e);
    }
    return set_text(p, "preload", p->def->info.preload, sizeof(p->def->info.preload), v, e);
}

static int key_preload_optional(struct parser *p, const char *v, struct err *e)
{
    if (!are_modules(v)) {
        return wrong(p, "preload_optional", "must be module names separated by spaces", e);
    }
    return set_text(p, "preload_optional", p->def->info.preload_optional,
                    sizeof(p->def->info.preload_optional), v, e);
}

static int key_warm(struct parser *p, const char *v, struct err *e)
{
    return set_text(p, "warm", p->def->warm, sizeof(p->def->warm), v, e);
}

static int key_bytecode(struct parser *p, const char *v, struct err *e)
{
    return launcher_path_check(v)
               ? set_text(p, "bytecode", p->def->bytecode, sizeof(p->def->bytecode), v, e)
               : wrong(p, "bytecode", "must be the absolute, plain path of a folder", e);
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

/* A client's variables never reach the zygote: some of them make an interpreter run code. */
static int key_env(struct parser *p, const char *v, struct err *e)
{
    bool is_clients = p->side == CLIENTS;
    size_t *n = is_clients ? &p->def->n_run_env : &p->def->n_env;

    if (*n == TEMPLATE_LIST_MAX) {
        return wrong(p, "env", "too many", e);
    }
    if (strchr(v, '=') == NULL || v[0] == '=') {
        return wrong(p, "env", "must be NAME=value", e);
    }
    if (!is_clients && str_starts(v, "HUSK_")) {
        return wrong(p, "env", "names that begin with HUSK_ are husk's own", e);
    }
    char *to = is_clients ? p->def->run_env[*n] : p->def->env[*n];
    if (set_text(p, "env", to, sizeof(p->def->env[0]), v, e) < 0) {
        return -1;
    }
    (*n)++;
    return 0;
}

static int set_size(const struct parser *p, const char *key, const char *v, uint64_t *to,
                    struct err *e)
{
    return parse_size(v, to) < 0 ? wrong(p, key, "must be a size such as 512M", e) : 0;
}

static int set_duration(const struct parser *p, const char *key, const char *v, uint64_t *to,
                        struct err *e)
{
    return parse_duration_ms(v, to) < 0 ? wrong(p, key, "must be a duration such as 30s", e) : 0;
}

static int set_cpus(const struct parser *p, const char *key, const char *v, uint32_t *to,
                    struct err *e)
{
    uint64_t milli;

    if (parse_milli(v, &milli) < 0 || milli > UINT32_MAX) {
        return wrong(p, key, "must be a number such as 0.5", e);
    }
    *to = (uint32_t)milli;
    return 0;
}

static int set_pids(const struct parser *p, const char *key, const char *v, uint32_t *to,
                    struct err *e)
{
    uint64_t pids;

    if (parse_u64(v, &pids) < 0 || pids > UINT32_MAX) {
        return wrong(p, key, "must be a whole number", e);
    }
    *to = (uint32_t)pids;
    return 0;
}

static int key_memory(struct parser *p, const char *v, struct err *e)
{
    return set_size(p, "memory", v, &p->def->info.limits.memory_bytes, e);
}

static int key_disk(struct parser *p, const char *v, struct err *e)
{
    return set_size(p, "disk", v, &p->def->info.limits.disk_bytes, e);
}

static int key_timeout(struct parser *p, const char *v, struct err *e)
{
    return set_duration(p, "timeout", v, &p->def->info.limits.timeout_ms, e);
}

static int key_cpus(struct parser *p, const char *v, struct err *e)
{
    return set_cpus(p, "cpus", v, &p->def->info.limits.cpu_milli, e);
}

static int key_pids(struct parser *p, const char *v, struct err *e)
{
    return set_pids(p, "pids", v, &p->def->info.limits.pids, e);
}

static int key_max_memory(struct parser *p, const char *v, struct err *e)
{
    return set_size(p, "max_memory", v, &p->def->most.memory_bytes, e);
}

static int key_max_cpus(struct parser *p, const char *v, struct err *e)
{
    return set_cpus(p, "max_cpus", v, &p->def->most.cpu_milli, e);
}

static int key_max_pids(struct parser *p, const char *v, struct err *e)
{
    return set_pids(p, "max_pids", v, &p->def->most.pids, e);
}

static int key_preload_memory(struct parser *p, const char *v, struct err *e)
{
    uint64_t *to = &p->def->preload_memory_bytes;

    if (set_size(p, "preload_memory", v, to, e) < 0) {
        return -1;
    }
    return *to < 16 * MIB || *to > LIMITS_MEMORY_MAX
               ? wrong(p, "preload_memory", "must be 16M to 1024G", e)
               : 0;
}

static int key_preload_timeout(struct parser *p, const char *v, struct err *e)
{
    uint64_t *to = &p->def->preload_timeout_ms;

    if (set_duration(p, "preload_timeout", v, to, e) < 0) {
        return -1;
    }
    return *to == 0 || *to > PRELOAD_TIMEOUT_MAX_MS
               ? wrong(p, "preload_timeout", "must be more than nothing and at most 1h", e)
               : 0;
}

static const struct {
    const char *name;
    int (*set)(struct parser *p, const char *v, struct err *e);
    enum side side;
    bool many;
} keys[] = {
    {"about", key_about, BOTH, false},
    {"base", key_base, CLIENTS, false},
    {"language", key_language, OPERATORS, false},
    {"runtime", key_runtime, OPERATORS, false},
    {"root", key_root, OPERATORS, false},
    {"preload", key_preload, BOTH, false},
    {"preload_optional", key_preload_optional, OPERATORS, false},
    {"preload_memory", key_preload_memory, OPERATORS, false},
    {"preload_timeout", key_preload_timeout, OPERATORS, false},
    {"offers", key_offers, OPERATORS, false},
    {"seccomp", key_seccomp, OPERATORS, false},
    {"bytecode", key_bytecode, OPERATORS, false},
    {"warm", key_warm, OPERATORS, false},
    {"mount", key_mount, OPERATORS, true},
    {"env", key_env, BOTH, true},
    {"memory", key_memory, BOTH, false},
    {"disk", key_disk, BOTH, false},
    {"timeout", key_timeout, BOTH, false},
    {"cpus", key_cpus, BOTH, false},
    {"pids", key_pids, BOTH, false},
    {"max_memory", key_max_memory, OPERATORS, false},
    {"max_cpus", key_max_cpus, OPERATORS, false},
    {"max_pids", key_max_pids, OPERATORS, false},
};

static int take_pair(struct parser *p, const char *key, const char *value, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (!str_eq(key, keys[i].name) || (keys[i].side & p->side) == 0) {
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

/* FNV-1a: tells texts apart, unless one was made to collide with another. */
static uint64_t fingerprint_of(const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
    }
    return h;
}

static int parse_lines(struct parser *p, const char *text, size_t n, struct err *e)
{
    char line[1400];

    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end != NULL ? (size_t)(end - text) - at : n - at;
        p->line++;
        if (len >= sizeof(line) || memchr(text + at, '\0', len) != NULL ||
            !str_is_utf8(text + at, len)) {
            return err_set(e, ERR_INVALID, "%s, line %u: too long, or not UTF-8 text", p->origin,
                           p->line);
        }
        memcpy(line, text + at, len);
        line[len] = '\0';
        if (take_line(p, line, e) < 0) {
            return -1;
        }
        at += len + 1;
    }
    return 0;
}

/* What a failure leaves alone is *ret. */
static int parse(struct parser *p, const char *name, const char *text, size_t n,
                 struct template_def *ret, struct err *e)
{
    AUTO_FREE struct template_def *def = calloc(1, sizeof(*def)); /* large, for a fiber's stack */

    if (def == NULL) {
        return err_sys(e, ENOMEM, "read template %s", name);
    }
    p->def = def;
    def->host_root = true;
    def->fingerprint = fingerprint_of(text, n);
    (void)str_copy(def->seccomp, sizeof(def->seccomp), "default");
    if (parse_lines(p, text, n, e) < 0) {
        return -1;
    }
    if (str_copy(def->info.name, sizeof(def->info.name), name) < 0 || !str_is_name(name)) {
        return err_set(e, ERR_INVALID,
                       "template name \"%.80s\" must be lower-case letters, digits, - _ .", name);
    }
    if (p->side == CLIENTS && def->base[0] == '\0') {
        return err_set(e, ERR_INVALID, "%s: it has no base", p->origin);
    }
    (void)str_copy(def->info.origin, sizeof(def->info.origin), p->origin);
    *ret = *def;
    return 0;
}

int template_parse(const char *name, const char *origin, const char *text, size_t n,
                   struct template_def *ret, struct err *e)
{
    static const char *const runtimes[] = {"/usr/bin/python3", "/bin/bash", "/usr/bin/node"};
    struct parser p = {.origin = origin, .side = OPERATORS};

    if (parse(&p, name, text, n, ret, e) < 0) {
        return -1;
    }
    if (ret->info.runtime[0] == '\0') {
        (void)str_copy(ret->info.runtime, sizeof(ret->info.runtime), runtimes[ret->info.language]);
    }
    return 0;
}

int template_parse_client(const char *name, const char *origin, const char *text, size_t n,
                          struct template_def *ret, struct err *e)
{
    struct parser p = {.origin = origin, .side = CLIENTS};

    return parse(&p, name, text, n, ret, e);
}
