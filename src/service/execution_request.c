/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client asked for, from its JSON: when it asks, and again when the server has restarted and
 * the execution is still in line.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "service/service_impl.h"

#define HANDLER_TIMEOUT_MS 300000 /* of an event without a usable __timeout */

/* In ms. `__timeout` of an event wins over `timeout`; both may be absent. */
static uint64_t timeout_of(const struct service *svc, const json_t *body, bool is_handler)
{
    const json_t *own = json_object_get(json_object_get(body, "event"), "__timeout");
    const json_t *asked = json_object_get(body, "timeout");

    if (is_handler && json_is_number(own)) {
        double ms = json_number_value(own) * 1000.0;
        if (!(ms > 0)) {
            return HANDLER_TIMEOUT_MS;
        }
        return ms > HANDLER_TIMEOUT_MAX_MS ? HANDLER_TIMEOUT_MAX_MS
                                           : MAX((uint64_t)ms, (uint64_t)1);
    }
    if (asked != NULL) {
        return (uint64_t)json_integer_value(asked) * 1000;
    }
    return is_handler ? HANDLER_TIMEOUT_MS : svc->config->execution_timeout_ms;
}

static void set_kind(const json_t *body, struct execution_ask *ask)
{
    static const struct {
        const char *field;
        enum execution_kind kind;
    } kinds[] = {
        {"code", EXECUTE_CODE}, {"command", EXECUTE_COMMAND}, {"handler_code", EXECUTE_HANDLER}};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        json_t *code = json_object_get(body, kinds[i].field);
        if (code != NULL) {
            ask->kind = kinds[i].kind;
            ask->code = json_string_value(code);
            ask->code_len = json_string_length(code);
        }
    }
    if (ask->kind == EXECUTE_CODE && json_object_get(body, "event") != NULL) {
        ask->kind = EXECUTE_HANDLER;
    }
}

/* Strings borrowed from the array; the list itself is owned. NULL for an empty one. */
static const char **args_of(const json_t *array)
{
    size_t n = json_array_size(array);
    const char **list = n > 0 ? calloc(n + 1, sizeof(*list)) : NULL;

    for (size_t i = 0; i < n && list != NULL; i++) {
        list[i] = json_string_value(json_array_get(array, i));
    }
    return list;
}

char **request_env(const json_t *vars, struct err *e)
{
    json_t *object = (json_t *)vars; /* iterating changes nothing */
    size_t n = json_object_size(vars);
    size_t bytes = (n + 1) * sizeof(char *);
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        bytes += strlen(name) + json_string_length(value) + 2;
    }
    char **list = malloc(bytes);
    if (list == NULL) {
        (void)err_sys(e, ENOMEM, "environment");
        return NULL;
    }
    char *to = (char *)(list + n + 1);
    size_t i = 0;
    json_object_foreach(object, name, value)
    {
        size_t room = strlen(name) + json_string_length(value) + 2;
        (void)str_format(to, room, "%s=%s", name, json_string_value(value));
        list[i++] = to;
        to += room;
    }
    list[i] = NULL;
    return list;
}

/* As it is kept: with the time limit that applies, rounded up to seconds. */
static json_t *kept_of(const json_t *body, uint64_t timeout_ms)
{
    json_t *request = json_copy((json_t *)body); /* shares the values */

    json_object_set_new(request, "timeout", json_integer((json_int_t)((timeout_ms + 999) / 1000)));
    return request;
}

int execution_request_read(const struct service *svc, const json_t *body, const char *language,
                           struct execution_request *ret, struct err *e)
{
    const json_t *event = json_object_get(body, "event");
    const json_t *context = json_object_get(body, "context");
    struct execution_ask *ask = &ret->ask;

    set_kind(body, ask);
    ask->timeout_ms = timeout_of(svc, body, ask->kind == EXECUTE_HANDLER);
    ret->kept = kept_of(body, ask->timeout_ms);
    ret->env = request_env(json_object_get(body, "env_vars"), e);
    ret->args = args_of(json_object_get(body, "args"));
    ret->event = event != NULL ? json_dumps(event, JSON_COMPACT) : NULL;
    ret->context = context != NULL ? json_dumps(context, JSON_COMPACT) : NULL;
    if (ret->env == NULL || ret->kept == NULL || (event != NULL && ret->event == NULL) ||
        (context != NULL && ret->context == NULL)) {
        return err_sys(e, ENOMEM, "take the request");
    }
    ask->language = json_string_value(json_object_get(body, "language"));
    if (ask->language == NULL && ask->kind != EXECUTE_COMMAND) {
        ask->language = language;
    }
    ask->env = (const char *const *)ret->env;
    ask->args = ret->args;
    ask->stdin_data = json_string_value(json_object_get(body, "stdin"));
    ask->stdin_len = json_string_length(json_object_get(body, "stdin"));
    ask->event = ret->event;
    ask->context_json = ret->context;
    ask->context = (uint32_t)json_integer_value(json_object_get(body, "context_id"));
    ask->rich = ask->kind == EXECUTE_CODE;
    ask->request = ret->kept;
    return 0;
}

void execution_request_release(struct execution_request *r)
{
    free(r->env);
    free(r->args);
    free(r->event);
    free(r->context);
    json_decref(r->kept);
}
