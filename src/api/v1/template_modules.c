/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a template says about its modules: those that it preloads, those that it has to do without,
 * and whether it can start at all.
 *
 * A zygote that runs has said what it could not import. For another one the Python of its base is
 * asked what is installed.
 */
#include <stdlib.h>
#include <string.h>

#include "api/v1/shape.h"
#include "base/str.h"
#include "core/core.h"

#define NAMES_MAX 4096 /* more than a definition has */

/* The parts between separators, without the spaces behind one. */
static json_t *list_json(const char *text, const char *separator)
{
    json_t *list = json_array();

    for (const char *at = text; *at != '\0';) {
        size_t n = strcspn(at, separator);
        if (n > 0) {
            json_array_append_new(list, api_text_json(at, n));
        }
        at += n + (at[n] != '\0');
        at += strspn(at, " ");
    }
    return list;
}

/* What was asked for is in the list of what is there. */
static bool has_module(const json_t *there, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach(there, i, one)
    {
        if (json_is_string(one) && str_eq(json_string_value(one), name)) {
            return true;
        }
    }
    return false;
}

/* All that the base could be asked about, so that one answer serves all templates made from it. */
static json_t *ask_base(struct service *svc, const char *name, struct err *e)
{
    const struct template_dirs *dirs = engine_dirs(service_engine(svc));
    AUTO_FREE struct template_def *def = malloc(sizeof(*def)); /* large, for a fiber's stack */
    char base[sizeof(def->base)];
    char names[NAMES_MAX];

    if (def == NULL || template_find(dirs, name, def, e) < 0) {
        return NULL;
    }
    (void)str_copy(base, sizeof(base), def->base[0] != '\0' ? def->base : name);
    if (def->base[0] != '\0' && template_find(dirs, base, def, e) < 0) {
        return NULL;
    }
    if (str_format(names, sizeof(names), "%s %s %s", def->info.preload, def->info.preload_optional,
                   def->offers) < 0) {
        return NULL;
    }
    return service_modules(svc, base, names, e);
}

static void say_missing(json_t *to, const char *text)
{
    char shown[256];

    api_error_text(shown, sizeof(shown), text);
    json_object_set_new(to, "is_active", json_false());
    json_object_set_new(to, "missing", api_text_json(shown, strlen(shown)));
}

/* By what is installed: it does not run. */
static json_t *compare(const json_t *there, const json_t *wanted, const json_t *optional,
                       json_t *to)
{
    json_t *without = json_array();
    const json_t *name;
    char text[256];
    size_t i;

    json_array_foreach(wanted, i, name)
    {
        if (!has_module(there, json_string_value(name)) &&
            str_format(text, sizeof(text), "module %s is not installed", json_string_value(name)) ==
                0) {
            say_missing(to, text);
        }
    }
    json_array_foreach(optional, i, name)
    {
        if (!has_module(there, json_string_value(name)) &&
            str_format(text, sizeof(text), "%s: it is not installed", json_string_value(name)) ==
                0) {
            json_array_append_new(without, json_string(text));
        }
    }
    return without;
}

void template_modules_json(struct service *svc, const struct husk_template_info *info, json_t *to)
{
    json_t *wanted = list_json(info->preload, " ");
    json_t *optional = list_json(info->preload_optional, " ");
    json_t *without = NULL;
    struct err e = {0};

    if (engine_runs(service_engine(svc), info->name)) {
        without = list_json(engine_note(service_engine(svc), info->name), ";");
    } else if (info->missing[0] == '\0' &&
               json_array_size(wanted) + json_array_size(optional) > 0) {
        json_t *there = ask_base(svc, info->name, &e);
        if (there != NULL) {
            without = compare(there, wanted, optional, to);
        } else if (e.code == ERR_TEMPLATE && e.sys_errno == 0) {
            say_missing(to, e.msg);
        }
        json_decref(there);
    }
    json_object_set_new(to, "not_preloaded", without != NULL ? without : json_array());
    json_array_extend(wanted, optional);
    json_object_set_new(to, "preload", wanted);
    json_decref(optional);
}
