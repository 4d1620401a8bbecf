/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: what a box is made from, as a description. Built-in ones and files that users write.
 *
 * A template file is lines of "key = value"; see docs/templates.md. Reads untrusted text, starts
 * nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "husk/husk.h"

#define TEMPLATE_LIST_MAX 32 /* mounts, variables */
#define TEMPLATE_PATH_MAX 512
#define TEMPLATE_FILE_MAX 65536

struct template_mount {
    char host[TEMPLATE_PATH_MAX];
    char box[256];
};

struct template_def {
    struct husk_template_info info;
    bool host_root;               /* /usr and friends of this host; else root is used */
    char root[TEMPLATE_PATH_MAX]; /* an unpacked root file system */
    char seccomp[32];             /* profile name */
    char warm[512];               /* code that each box runs before it is parked; may be empty */
    struct template_mount mounts[TEMPLATE_LIST_MAX];
    size_t n_mounts;
    char env[TEMPLATE_LIST_MAX][256];
    size_t n_env;
    uint64_t fingerprint; /* of its text */
};

const char *template_language_name(enum husk_language language); /* python, shell, javascript */
bool template_language_find(const char *name, enum husk_language *ret); /* false: it is none */

/* Parses a template file's text. name and origin are for the result and for messages. */
int template_parse(const char *name, const char *origin, const char *text, size_t n,
                   struct template_def *ret, struct err *e);

/* Looks in dir (NULL: none), then among the built-in ones. ERR_NOT_FOUND lists what there is. */
int template_find(const char *dir, const char *name, struct template_def *ret, struct err *e);

/*
 * Calls fn for every template, built-in ones first. A file that does not parse is given with
 * info.missing set.
 */
int template_each(const char *dir, int (*fn)(void *user, const struct template_def *def),
                  void *user, struct err *e);

/*
 * Where user templates live: $HUSK_TEMPLATE_DIR, else ~/.config/husk/templates, for root
 * /etc/husk/templates.
 */
int template_default_dir(char *ret, size_t size, struct err *e);
