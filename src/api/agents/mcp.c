/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MCP servers: requests and answers of any method pass through as they are, bodies piece by piece.
 * Only what concerns one connection stays behind (RFC 9110, 7.6.1).
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/agents/gateway.h"
#include "base/attr.h"
#include "base/str.h"
#include "http/field.h"
#include "http/target.h"

#define PIECE_SIZE ((size_t)16 << 10)

/* True: a field of this connection only, or one that huskd writes itself. */
static bool stays_here(const char *name)
{
    static const char *const names[] = {"connection",
                                        "keep-alive",
                                        "proxy-authenticate",
                                        "proxy-authorization",
                                        "proxy-connection",
                                        "te",
                                        "trailer",
                                        "transfer-encoding",
                                        "upgrade",
                                        "expect"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcasecmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- the request ---- */

static json_t *headers_json(const struct http_request *req)
{
    const char *connection = http_header(req, "connection");
    json_t *list = json_array();
    const char *name;
    const char *value;
    size_t at = 0;

    while (http_header_next(req, &at, &name, &value)) {
        bool is_named = connection != NULL && http_list_has(connection, name);
        if (!stays_here(name) && !is_named) {
            json_array_append_new(list,
                                  json_pack("[s, o]", name, api_text_json(value, strlen(value))));
        }
    }
    return list;
}

/*
 * The path as it is below the server's own prefix, by whatever address it was asked for; decoded to
 * its end.
 */
static json_t *path_json(struct api_call *call, const struct agent *agent)
{
    const char *path = http_path(call_request(call));
    const char *rest;

    if (agents_find_path(call->api->agents, path, &rest) == agent) {
        AUTO_FREE char *decoded = strdup(path);
        if (decoded == NULL) {
            return NULL;
        }
        for (char *at = decoded; *at != '\0'; at++) {
            if (*at == HTTP_ENCODED_SLASH) {
                *at = '/';
            }
        }
        return api_text_json(decoded, strlen(decoded));
    }
    return json_sprintf("%s/mcp", agent_plan_of(agent)->route_prefix);
}

static json_t *request_json(struct api_call *call, const struct agent *agent)
{
    const struct http_request *req = call_request(call);
    const char *query = strchr(http_target(req), '?');

    return json_pack("{s:s, s:o, s:o, s:o}", "method", http_method_name(http_method(req)), "path",
                     path_json(call, agent), "query",
                     query != NULL ? api_text_json(query + 1, strlen(query + 1)) : json_string(""),
                     "headers", headers_json(req));
}

/* The body, until its end or until the server answers. -1: answered, or the client is gone. */
static int pass_body(struct api_call *call, struct agent_call *asked)
{
    char piece[PIECE_SIZE];
    ssize_t n = 0;

    if (call_request(call) != NULL && http_has_body(call_request(call))) {
        while ((n = call_read(call, piece, sizeof(piece))) > 0) {
            if (agent_call_has_answer(asked) ||
                agent_call_send(asked, AGENT_BODY, piece, (size_t)n) < 0) {
                return 0; /* agent_call_next() knows */
            }
        }
    }
    if (n == 0) {
        (void)agent_call_send(asked, AGENT_END, NULL, 0);
    }
    return n < 0 ? -1 : 0;
}

/* ---- the answer ---- */

/* -1: a header that must not be passed on. */
static int begin(struct api_call *call, const json_t *head)
{
    static const char *const ours[] = {"content-length", "date", "x-request-id", "x-process-time"};
    const json_t *headers = json_object_get(head, "headers");
    const char *type = NULL;

    for (size_t i = 0; i < json_array_size(headers); i++) {
        const json_t *pair = json_array_get(headers, i);
        const char *name = json_string_value(json_array_get(pair, 0));
        const char *value = json_string_value(json_array_get(pair, 1));
        if (!http_is_token(name, json_string_length(json_array_get(pair, 0))) ||
            !http_is_value(value, json_string_length(json_array_get(pair, 1)))) {
            return -1;
        }
        bool is_ours = stays_here(name);
        for (size_t k = 0; k < ARRAY_LEN(ours); k++) {
            is_ours = is_ours || strcasecmp(name, ours[k]) == 0;
        }
        if (strcasecmp(name, "content-type") == 0) {
            type = value;
        } else if (!is_ours) {
            call_add_header(call, name, value);
        }
    }
    call_begin(call, (int)json_integer_value(json_object_get(head, "status")), type,
               HTTP_LENGTH_UNKNOWN);
    return 0;
}

/*
 * False: the answer is over, or cannot go on: then the connection is dropped when the handler
 * returns.
 */
static bool take(struct api_call *call, const struct agent_answer *answer, bool *has_begun)
{
    if (!*has_begun) {
        *has_begun = true;
        if (answer->type == AGENT_HTTP_HEAD && begin(call, answer->value) == 0) {
            return true;
        }
        if (answer->type == AGENT_ERROR) {
            agents_reply_error(call, answer);
        } else {
            agents_reply_err(call, &agents_bad_answer);
        }
        return false;
    }
    if (answer->type == AGENT_HTTP_BODY) {
        return call_write(call, answer->data, answer->len) == 0;
    }
    if (answer->type == AGENT_HTTP_END) {
        call_end(call);
    }
    return false;
}

static void pass_answer(struct api_call *call, struct agent_call *asked)
{
    struct err e;
    bool has_begun = false;
    bool goes_on = true;

    while (goes_on) {
        struct agent_answer *answer = NULL;
        switch (agent_call_next(asked, -1, &answer, &e)) {
        case AGENT_STEP_ANSWER:
            goes_on = take(call, answer, &has_begun);
            break;
        case AGENT_STEP_FAILED:
            if (!has_begun) {
                agents_reply_err(call, &e);
            }
            goes_on = false;
            break;
        case AGENT_STEP_QUIET:
        case AGENT_STEP_GONE:
            if (!has_begun) {
                call_reply_error(call, 503, NULL, NULL, "the client has hung up", NULL);
            }
            goes_on = false;
            break;
        }
        agent_answer_free(answer);
    }
}

void api_agent_mcp(struct api_call *call)
{
    struct agent *agent = agents_of_call(call, AGENT_KIND_MCP);

    if (agent == NULL) {
        return;
    }
    json_t *head = call_request(call) != NULL ? request_json(call, agent) : NULL;
    struct agent_call *asked = agents_begin(call, agent, AGENT_HTTP, head);
    json_decref(head);
    if (asked == NULL) {
        return;
    }
    if (pass_body(call, asked) == 0) {
        pass_answer(call, asked);
    }
    agent_call_close(asked);
}
