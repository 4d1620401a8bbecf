/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of huskd from one table, config.def.
 *
 * Sources in rising precedence: default, variable of the original Sandbox Runtime (only
 * /workspace/se settings have one), file, HUSK_* variable, flag. A list from one source replaces
 * the list of weaker sources. The struct records the source of every value.
 *
 *     struct config_input in = config_input_here();
 *     AUTO(config_release) struct config c = {0};
 *     AUTO(config_report_release) struct config_report report = {0};
 *     if (config_load(&in, &c, &report, &e) < 0) { ... show report.errors.data, do not start ... }
 *     listen_on(c.listen.items[0]); set_timer(c.head_timeout_ms);
 *
 * A plain value. Knows nothing of HTTP, JSON, the store or the engine. Reads the given environment,
 * one file and the account database, and changes nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"

#define CONFIG_SYSTEM_FILE "/etc/husk/husk.conf"

/*
 * The part of the data directory that huskd owns and writes. The rest belongs to the supervisor,
 * and huskd cannot change it.
 */
#define CONFIG_STORE "store"
#define CONFIG_STORE_PATH_MAX 512 /* end included */

struct config_list {
    char **items; /* owned, as are the strings; NULL at the end */
    size_t n;
};

/* The field of a key: its unit is part of the name. */
#define CONFIG_FIELD_ADDRESSES(key) struct config_list key; /* see config_address() */
#define CONFIG_FIELD_HOSTS(key) struct config_list key;     /* lower case, no port */
#define CONFIG_FIELD_ORIGINS(key) struct config_list key;   /* lower case */
#define CONFIG_FIELD_NAMES(key) struct config_list key;
/* Owned, absolute, never NULL; "" only if that is the default. */
#define CONFIG_FIELD_PATH(key) char *key;
#define CONFIG_FIELD_ACCOUNT(key) char *key; /* owned, never NULL; "": do not switch */
#define CONFIG_FIELD_MODE(key) uint64_t key;
#define CONFIG_FIELD_COUNT(key) uint64_t key;
#define CONFIG_FIELD_SIZE(key) uint64_t key##_bytes;
#define CONFIG_FIELD_DURATION(key) uint64_t key##_ms;
#define CONFIG_FIELD_CPU(key) uint64_t key##_milli; /* 1000 is one core */
#define CONFIG_FIELD_BOOL(key) bool key;
#define CONFIG_FIELD_CHOICE(key) int key; /* index in .choices */

/* Names of values in help texts. */
#define CONFIG_ARG_ADDRESSES "ADDRESS"
#define CONFIG_ARG_HOSTS "HOST"
#define CONFIG_ARG_ORIGINS "ORIGIN"
#define CONFIG_ARG_NAMES "NAME"
#define CONFIG_ARG_PATH "PATH"
#define CONFIG_ARG_ACCOUNT "ACCOUNT"
#define CONFIG_ARG_MODE "MODE"
#define CONFIG_ARG_COUNT "COUNT"
#define CONFIG_ARG_SIZE "SIZE"
#define CONFIG_ARG_DURATION "TIME"
#define CONFIG_ARG_CPU "CORES"
#define CONFIG_ARG_BOOL "BOOL"
#define CONFIG_ARG_CHOICE "WORD"

/* CONFIG_listen, CONFIG_socket, ...: the index of a row. */
enum config_key {
#define SETTING(group, type, key, ...) CONFIG_##key,
#include "config/config.def"
    CONFIG_KEYS
};

enum config_source {
    CONFIG_FROM_DEFAULT,
    CONFIG_FROM_SEED, /* SANDBOX_* and WORKSPACE_* variables */
    CONFIG_FROM_FILE,
    CONFIG_FROM_ENV,
    CONFIG_FROM_FLAG,
};

struct config_origin {
    enum config_source source;
    unsigned line; /* of the file; 0 elsewhere */
};

struct config {
#define SETTING(group, type, key, ...) CONFIG_FIELD_##type(key)
#include "config/config.def"
    struct config_origin origin[CONFIG_KEYS];
    char *file; /* owned; the file that was read, or NULL */
};

/*
 * Choices in the order of config.def; log_level follows enum log_level, min_isolation enum
 * husk_isolation.
 */
enum config_log_format { CONFIG_LOG_TEXT, CONFIG_LOG_JSON };

/* ---- loading ---- */

struct config_flag {
    enum config_key key;
    const char *value; /* borrowed */
};

struct config_input {
    char *const *env;        /* "NAME=value", NULL at the end; borrowed */
    const char *file;        /* --config; NULL: $HUSK_CONFIG, else system_file if it exists */
    const char *system_file; /* NULL: none */
    const struct config_flag *flags;
    size_t n_flags;
    bool is_root;
    bool again; /* a reload: a configuration file that is a pipe is an error */
    /*
     * For commands that do not serve: only `data` is needed. Mistakes in other settings are
     * warnings, and their fields may be missing.
     */
    bool only_data;
};

/* Errors and warnings: lines that end with a newline. Owned. */
struct config_report {
    struct buf errors;
    struct buf warnings; /* do not prevent the start */
    unsigned n_errors;
    unsigned n_warnings;
};

struct config_input config_input_here(void); /* environment and rights of this process */

/*
 * Fills *c, which must be zeroed. On -1 *e has a summary, *report every error with its place, and
 * *c is empty again. There can be warnings on success.
 */
int config_load(const struct config_input *in, struct config *c, struct config_report *report,
                struct err *e);
void config_release(struct config *c);
void config_report_release(struct config_report *report);

/*
 * Moves the values that can change at run time from fresh to live, and adds a warning for every
 * other difference. Afterwards fresh has the old values; the caller still releases it.
 */
void config_reload(struct config *live, struct config *fresh, struct config_report *report);

/* Appends all settings but `user` as text, for a process that reads no settings itself. */
int config_pack(const struct config *c, struct buf *text, struct err *e);
/* *c must be zeroed, and is empty again on -1. */
int config_unpack(const char *text, size_t n, struct config *c, struct err *e);

/* ---- the table ---- */

enum config_group {
#define GROUP(name, title, prefix) CONFIG_GROUP_##name,
#include "config/config.def"
    CONFIG_GROUPS
};

enum config_type {
    CONFIG_TYPE_ADDRESSES,
    CONFIG_TYPE_HOSTS,
    CONFIG_TYPE_ORIGINS,
    CONFIG_TYPE_NAMES,
    CONFIG_TYPE_PATH,
    CONFIG_TYPE_ACCOUNT,
    CONFIG_TYPE_MODE,
    CONFIG_TYPE_COUNT,
    CONFIG_TYPE_SIZE,
    CONFIG_TYPE_DURATION,
    CONFIG_TYPE_CPU,
    CONFIG_TYPE_BOOL,
    CONFIG_TYPE_CHOICE,
};

struct config_row {
    const char *key;
    const char *flag; /* without dashes */
    const char *arg;  /* the value's name in help texts */
    enum config_group group;
    enum config_type type;
    size_t offset;        /* of the field in struct config */
    const char *fallback; /* the default as text; NULL: computed in config_default.c */
    uint64_t least;
    uint64_t most;
    const char *choices; /* CHOICE: words */
    const char *seed;    /* variable, or NULL */
    uint64_t seed_unit;  /* 0: written as in the file */
    bool reload;
    const char *help;
};

extern const struct config_row config_rows[CONFIG_KEYS];

#define CONFIG_NAME_MAX 64 /* of a variable, end included */

const char *config_group_name(enum config_group group);  /* the section's name */
const char *config_group_title(enum config_group group); /* heading in help texts */
bool config_type_is_list(enum config_type type);
void config_env_name(const struct config_row *row, char dst[CONFIG_NAME_MAX]); /* "HUSK_LISTEN" */

/* ---- showing ---- */

/* The value as it would be written in the file. *text is emptied first. */
int config_value_text(const struct config *c, enum config_key key, struct buf *text, struct err *e);

/* "default", "SANDBOX_POOL_SIZE", "/etc/husk/husk.conf:12", "HUSK_LISTEN" or "--listen". */
void config_origin_text(const struct config *c, enum config_key key, char *dst, size_t size);

/* The whole reference as Markdown: docs/config.md. */
void config_print_markdown(FILE *to);

/* Parses an address such as an entry of c.listen. */
int config_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len,
                   struct err *e);
/* Whether it is a loopback address. */
bool config_is_loopback(const struct sockaddr_storage *address);

/* DATA/CONFIG_STORE. -1: the path of the data directory is too long. */
int config_store_path(const struct config *c, char ret[CONFIG_STORE_PATH_MAX], struct err *e);
