/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: what a box is made from, as a description. Built-in ones, files that the operator
 * writes, and files that the server writes for its clients.
 *
 * A template file is lines of "key = value"; see docs/templates.md. A client's names one of the
 * operator's as its base and can say nothing about programs, sources or a zygote's variables. Reads
 * untrusted text, starts nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "husk/husk.h"

#define TEMPLATE_LIST_MAX 32 /* mounts, variables */
#define TEMPLATE_PATH_MAX 512
#define TEMPLATE_FILE_MAX 65536
#define TEMPLATE_OFFERS_MAX 64 /* modules: bits of a number */

struct template_mount {
    char host[TEMPLATE_PATH_MAX];
    char box[256];
};

struct template_def {
    struct husk_template_info info;
    bool host_root;                   /* /usr and friends of this host; else root is used */
    char root[TEMPLATE_PATH_MAX];     /* an unpacked root file system */
    char bytecode[TEMPLATE_PATH_MAX]; /* folder of compiled modules; "": none */
    char seccomp[32];                 /* profile name */
    char warm[512]; /* code that each box runs before it is parked; may be empty */
    struct template_mount mounts[TEMPLATE_LIST_MAX];
    size_t n_mounts;
    char env[TEMPLATE_LIST_MAX][256]; /* of the zygote */
    size_t n_env;
    char offers[2048];             /* modules that clients' templates may have imported */
    uint64_t preload_memory_bytes; /* of the zygote; 0: the default */
    uint64_t preload_timeout_ms;   /* until it is ready; 0: the default */
    struct husk_limits most;       /* of one box; a field that is 0 bounds nothing */
    uint64_t fingerprint;          /* of its text, and of its base's */
    /* A client's: */
    char base[64];    /* the operator's template that it is made from; "": it is one itself */
    uint64_t modules; /* of those that the base offers: imported as well */
    char run_env[TEMPLATE_LIST_MAX][256]; /* variables of the user's code, never of the zygote */
    size_t n_run_env;
};

/* Where templates are, beside the built-in ones; NULL: none. */
struct template_dirs {
    const char *operators;
    const char *clients; /* names of the others win */
    /*
     * The operator's files decide what runs with our rights: each must be a plain file of ours or
     * root's, in such a folder, that no other user can write.
     */
    bool must_be_ours;
    /* Another account starts them: what is closed to us may be open to it. */
    bool others_start;
};

const char *template_language_name(enum husk_language language); /* python, shell, javascript */
bool template_language_find(const char *name, enum husk_language *ret); /* false: it is none */

/* Parses a template file's text. name and origin are for the result and for messages. */
int template_parse(const char *name, const char *origin, const char *text, size_t n,
                   struct template_def *ret, struct err *e);
/* The same for a client's, as it is: without what it has of its base. */
int template_parse_client(const char *name, const char *origin, const char *text, size_t n,
                          struct template_def *ret, struct err *e);
/*
 * Fills in what a client's template has of its base. ERR_INVALID: it asks for what is not offered.
 */
int template_derive(struct template_def *def, const struct template_def *base, struct err *e);

/* The same with the base that it names. */
int template_rebase(const struct template_dirs *dirs, struct template_def *def, struct err *e);

/* Calls fn for each word of a list of module names; ends at the first that returns not 0. */
int template_each_module(const char *names, int (*fn)(void *user, const char *name, size_t index),
                         void *user);

/* Looks in the operator's folder, among the built-in ones, in the clients' folder. */
int template_find(const struct template_dirs *dirs, const char *name, struct template_def *ret,
                  struct err *e);

/*
 * Calls fn for every template: clients', built-in ones, the operator's. Of one name the last
 * counts. A file that does not parse is given with info.missing set.
 */
int template_each(const struct template_dirs *dirs,
                  int (*fn)(void *user, const struct template_def *def), void *user, struct err *e);
/* Their descriptions, sorted by name, in an array that the caller frees. */
int template_list(const struct template_dirs *dirs, struct husk_template_info **ret, size_t *n,
                  struct err *e);

/*
 * Where user templates live: $HUSK_TEMPLATE_DIR, else ~/.config/husk/templates, for root
 * /etc/husk/templates.
 */
int template_default_dir(char *ret, size_t size, struct err *e);

/* Writes a template file for an interpreter or its directory; see husk_template_add(). */
int template_add(const char *name, const char *python, const char *const *preload, char *ret_path,
                 size_t path_size, struct err *e);

/* Where template_add() has the compiled modules of a template. */
int template_cache_path(const char *name, char *ret, size_t size, struct err *e);

struct engine;
/*
 * Compiles those modules of a template's mounts that have no .pyc file, in a box, into the folder
 * that its file names. Waits for as long as that takes.
 */
int template_compile(struct engine *engine, const char *name, uint32_t *ret_files, struct err *e);
