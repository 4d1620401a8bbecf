/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler can ask about its call; see call.h. */
#include "api/call/call_impl.h"

struct service *call_service(const struct api_call *call)
{
    return call->api->service;
}

const char *call_request_id(const struct api_call *call)
{
    return call->request_id;
}

uint64_t call_client(const struct api_call *call)
{
    return call->client;
}

enum api_op call_op(const struct api_call *call)
{
    return call->op;
}

const struct api_op_info *call_info(const struct api_call *call)
{
    return call->info;
}

bool call_is_head(const struct api_call *call)
{
    return call->match.is_head;
}

const char *call_header(const struct api_call *call, const char *name)
{
    return call->req != NULL ? http_header(call->req, name) : NULL;
}

json_t *call_body(const struct api_call *call)
{
    return call->body;
}

const char *call_text(const struct api_call *call, const char *name)
{
    return json_string_value(json_object_get(call->params, name));
}

int64_t call_int(const struct api_call *call, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(call->params, name);

    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

bool call_bool(const struct api_call *call, const char *name, bool fallback)
{
    const json_t *value = json_object_get(call->params, name);

    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

struct http_request *call_request(struct api_call *call)
{
    return call->req;
}
