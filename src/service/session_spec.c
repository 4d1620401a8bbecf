/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spec in the record of a session: what was asked for, as it was asked, and beside it, under
 * names with an underscore, what a later daemon needs to go on with the session.
 */
#include <stdlib.h>

#include "base/str.h"
#include "service/service_impl.h"

char *session_spec_text(const struct session_ask *ask)
{
    const struct husk_limits *l = &ask->limits;
    json_t *spec = ask->spec != NULL ? json_deep_copy(ask->spec) : json_object();
    json_t *env = json_array();

    for (size_t i = 0; ask->env != NULL && ask->env[i] != NULL; i++) {
        json_array_append_new(env, json_string(ask->env[i]));
    }
    json_object_set_new(spec, "_env", env);
    if (ask->language != NULL) {
        json_object_set_new(spec, "_language", json_string(ask->language));
    }
    json_object_set_new(spec, "_keyed", json_boolean(ask->idempotency.key != NULL));
    json_object_set_new(spec, "_lifetime_ms", json_integer((json_int_t)ask->lifetime_ms));
    json_object_set_new(spec, "_limits",
                        json_pack("{s:I, s:I, s:I, s:I, s:I}", "memory_bytes",
                                  (json_int_t)l->memory_bytes, "process_bytes",
                                  (json_int_t)l->process_bytes, "disk_bytes",
                                  (json_int_t)l->disk_bytes, "cpu_milli", (json_int_t)l->cpu_milli,
                                  "pids", (json_int_t)l->pids));
    char *text = json_dumps(spec, JSON_COMPACT);
    json_decref(spec);
    return text;
}

void session_spec_read(struct session *s)
{
    json_t *spec = json_loads(s->record.spec, 0, NULL);
    const json_t *limits = json_object_get(spec, "_limits");
    const json_t *env = json_object_get(spec, "_env");
    size_t i;
    json_t *value;

    s->limits = (struct husk_limits){
        .memory_bytes = (uint64_t)json_integer_value(json_object_get(limits, "memory_bytes")),
        .process_bytes = (uint64_t)json_integer_value(json_object_get(limits, "process_bytes")),
        .disk_bytes = (uint64_t)json_integer_value(json_object_get(limits, "disk_bytes")),
        .cpu_milli = (uint32_t)json_integer_value(json_object_get(limits, "cpu_milli")),
        .pids = (uint32_t)json_integer_value(json_object_get(limits, "pids")),
    };
    s->lifetime_ms = (uint64_t)json_integer_value(json_object_get(spec, "_lifetime_ms"));
    const char *language = json_string_value(json_object_get(spec, "_language"));
    if (language != NULL) {
        (void)str_copy(s->language, sizeof(s->language), language);
    }
    s->keyed = json_is_true(json_object_get(spec, "_keyed"));
    s->env = json_array_size(env) > 0 ? calloc(json_array_size(env) + 1, sizeof(*s->env)) : NULL;
    json_array_foreach(env, i, value)
    {
        if (s->env == NULL || (s->env[i] = text_copy(json_string_value(value))) == NULL) {
            break;
        }
    }
    json_decref(spec);
}
