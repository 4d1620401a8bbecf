/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's template and the operator's one that it is made from; see template.h.
 *
 * Everything that decides what runs in a zygote is the base's. The client chooses modules from the
 * list that the base offers: they become bits of a number, and the starter of the zygote looks the
 * names up again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "core/template.h"

int template_each_module(const char *names, int (*fn)(void *user, const char *name, size_t index),
                         void *user)
{
    char name[256];
    size_t index = 0;

    for (const char *p = names; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (n > 0) {
            int r = str_format(name, sizeof(name), "%.*s", (int)n, p) < 0 ? -1
                                                                          : fn(user, name, index++);
            if (r != 0) {
                return r;
            }
        }
        p += n + (p[n] == ' ');
    }
    return 0;
}

struct search {
    const char *name;
    size_t found;
};

static int compare(void *user, const char *name, size_t index)
{
    struct search *s = user;

    s->found = index;
    return str_eq(s->name, name);
}

static bool find_module(const char *names, const char *name, size_t *ret_index)
{
    struct search s = {.name = name};
    bool found = template_each_module(names, compare, &s) == 1;

    *ret_index = s.found;
    return found;
}

struct choice {
    const struct template_def *base;
    uint64_t modules;
    struct err *e;
};

static int choose(void *user, const char *name, size_t index)
{
    struct choice *c = user;
    size_t bit;

    (void)index;
    if (find_module(c->base->offers, name, &bit)) {
        c->modules |= (uint64_t)1 << bit;
        return 0;
    }
    if (find_module(c->base->info.preload, name, &bit) ||
        find_module(c->base->info.preload_optional, name, &bit)) {
        return 0; /* it is there in any case */
    }
    return err_set(c->e, ERR_INVALID,
                   "preload: template %s does not offer module %.60s; it offers: %.150s%s. The "
                   "operator can add modules to \"offers\" in a template file",
                   c->base->info.name, name, c->base->offers[0] != '\0' ? c->base->offers : "none",
                   strlen(c->base->offers) > 150 ? "..." : "");
}

static void inherit_limits(struct husk_limits *own, const struct husk_limits *base)
{
#define INHERIT(field) own->field = own->field != 0 ? own->field : base->field
    INHERIT(memory_bytes);
    INHERIT(timeout_ms);
    INHERIT(output_bytes);
    INHERIT(cpu_milli);
    INHERIT(pids);
    INHERIT(inodes);
    INHERIT(open_files);
    INHERIT(process_bytes);
    if (own->memory_bytes == base->memory_bytes) { /* else a disk may not fit any more */
        INHERIT(disk_bytes);
    }
#undef INHERIT
}

int template_derive(struct template_def *def, const struct template_def *base, struct err *e)
{
    struct choice c = {.base = base, .e = e};

    if (template_each_module(def->info.preload, choose, &c) != 0) {
        return -1;
    }
    def->modules = c.modules;
    def->info.language = base->info.language;
    memcpy(def->info.runtime, base->info.runtime, sizeof(def->info.runtime));
    inherit_limits(&def->info.limits, &base->info.limits);
    def->host_root = base->host_root;
    memcpy(def->root, base->root, sizeof(def->root));
    memcpy(def->seccomp, base->seccomp, sizeof(def->seccomp));
    memcpy(def->offers, base->offers, sizeof(def->offers));
    memcpy(def->info.missing, base->info.missing, sizeof(def->info.missing));
    def->most = base->most;
    def->fingerprint ^= base->fingerprint * 31;
    return 0;
}
