/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/config and its tests. */
#pragma once

#include <sys/types.h>

#include "config/config.h"

/* One call of config_load(). All borrowed. */
struct config_loader {
    const struct config_input *in;
    struct config *c;
    struct config_report *report;
    bool file_unread; /* the file could not be read, so its `data` is unknown */
    bool data_wrong;  /* `data` of the strongest source was refused */
};

/* ---- report (config.c) ---- */

void config_error(struct config_report *report, const char *fmt, ...) PRINTF_LIKE(2, 3);
void config_warning(struct config_report *report, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Sets a value; line is that of the file. Errors go to the report. */
void config_apply(struct config_loader *l, enum config_key key, const char *value,
                  struct config_origin origin);

/* ---- sources ---- */

void config_read_seed(struct config_loader *l);
void config_read_env(struct config_loader *l); /* warns of unknown HUSK_* variables */
void config_read_file(struct config_loader *l);
void config_file_text(struct config_loader *l, const char *text, size_t n);

/* After all sources: fills computed defaults, then checks settings against each other. */
void config_default_rest(struct config_loader *l);
void config_check(const struct config *c, struct config_report *report);

/* ---- values ---- */

/*
 * Parses into the row's field. A list grows if the same source gave it entries before. *e is the
 * end of a sentence that starts with the place: "'x' is not a size such as 64M or 1G".
 */
int config_value_set(struct config *c, enum config_key key, const char *value,
                     enum config_source source, struct err *e);
int config_text_set(char **field, const char *value, struct err *e); /* keeps a copy */
int config_text_path(char **field, const struct config_row *row, const char *value,
                     enum config_source source, struct err *e);
int config_text_account(char **field, const char *value, struct err *e);
int config_account_find(const char *name, uid_t *ret); /* 0, -ENOENT or -errno */
void config_value_release(struct config *c, enum config_key key);
int config_number_text(const struct config_row *row, uint64_t v, char *dst, size_t size);

#define CONFIG_QUOTED_MAX 128

/* Text from outside for a message: one line, without control characters, cut to fit. */
const char *config_quote(const char *text, char dst[CONFIG_QUOTED_MAX]);

/* Adds all entries of the value or none. */
int config_list_add(struct config_list *list, const struct config_row *row, const char *value,
                    struct err *e);
void config_list_release(struct config_list *list);

/* ---- rows ---- */

int config_find_key(const char *name);                                       /* -1: there is none */
const char *config_env_get(const struct config_input *in, const char *name); /* NULL: not set */
const char *config_group_prefix(enum config_group group); /* may be left out in the section */

static inline void *config_field(struct config *c, enum config_key key)
{
    return (char *)c + config_rows[key].offset;
}

static inline const void *config_field_const(const struct config *c, enum config_key key)
{
    return (const char *)c + config_rows[key].offset;
}
