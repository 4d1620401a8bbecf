/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Served agents: their list, their health, and questions to them that are answered whole. The words
 * are rayai's where it has some.
 */
#include <string.h>

#include "api/agents/gateway.h"
#include "base/str.h"

#define NAMES_SHOWN 20
#define DETAIL_MAX 4096
#define DEFAULT_SESSION "default" /* of clients that name none: any worker may have it */

static const char *const health_words[] = {
    [AGENT_STARTING] = "starting", [AGENT_HEALTHY] = "healthy", [AGENT_UNHEALTHY] = "unhealthy"};

const struct err agents_bad_answer = {
    .code = ERR_WORKER, .msg = "BadAnswer: the agent's worker sent what was not asked for"};

/* ---- which agent ---- */

static void reply_unknown(struct api_call *call, const char *name, enum agent_kind kind)
{
    const struct agents *agents = call->api->agents;
    const struct agents_plan *plan = agents != NULL ? agents_plan_of(agents) : NULL;
    struct buf b = BUF_INIT(DETAIL_MAX);
    char shown[AGENT_NAME_MAX];
    size_t n = 0;

    str_printable(shown, sizeof(shown), name, strlen(name));
    (void)buf_printf(&b, "there is no %s \"%s\"", kind == AGENT_KIND_MCP ? "MCP server" : "agent",
                     shown);
    for (size_t i = 0; plan != NULL && i < plan->n_agents && n < NAMES_SHOWN; i++) {
        if (plan->agents[i].kind == kind) {
            (void)buf_printf(&b, "%s%s", n++ == 0 ? "; there are: " : ", ", plan->agents[i].name);
        }
    }
    (void)buf_add_str(&b, n == 0 ? "; none is served" : "");
    call_reply_error(call, 404, NULL, NULL, b.data != NULL ? b.data : "there is no such agent",
                     NULL);
    buf_release(&b);
}

static struct agent *find_agent(struct api_call *call)
{
    struct agents *agents = call->api->agents;
    const char *name = call_text(call, "agent_name");
    char path[AGENT_PREFIX_MAX];
    const char *rest;

    if (agents == NULL) {
        return NULL;
    }
    struct agent *agent = agents_find(agents, name);
    if (agent == NULL && str_format(path, sizeof(path), "/agents/%s", name) == 0) {
        agent = agents_find_path(agents, path, &rest);
        agent = agent != NULL && rest[0] == '\0' ? agent : NULL;
    }
    return agent;
}

struct agent *agents_of_call(struct api_call *call, enum agent_kind kind)
{
    struct agent *agent = find_agent(call);

    if (agent == NULL || agent_plan_of(agent)->kind != kind) {
        reply_unknown(call, call_text(call, "agent_name"), kind);
        return NULL;
    }
    return agent;
}

/* ---- about agents ---- */

static json_t *streams_json(uint32_t streams)
{
    json_t *list = json_array();

    if ((streams & AGENT_STREAM_TEXT) != 0) {
        json_array_append_new(list, json_string("text"));
    }
    if ((streams & AGENT_STREAM_EVENTS) != 0) {
        json_array_append_new(list, json_string("events"));
    }
    return list;
}

static json_t *agent_json(const struct agent *agent)
{
    const struct agent_plan *plan = agent_plan_of(agent);
    struct agent_figures f;

    agent_figures(agent, &f);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "name",
        plan->name, "kind", plan->kind == AGENT_KIND_MCP ? "mcp" : "agent", "framework",
        plan->framework, "route_prefix", plan->route_prefix, "status", health_words[f.health],
        "streams", streams_json(plan->streams), "chat", (int)plan->chat, "replicas",
        (json_int_t)plan->replicas, "ready", (json_int_t)f.ready, "in_flight",
        (json_int_t)f.in_flight, "queued", (json_int_t)f.queued, "requests", (json_int_t)f.requests,
        "errors", (json_int_t)f.errors, "restarts", (json_int_t)f.restarts, "detail",
        f.failure[0] != '\0' ? api_text_json(f.failure, strlen(f.failure)) : json_null());
}

/* Of a path of the host, clients see only the part inside the project. */
static const char *inside(const char *folder, const char *file)
{
    size_t n = strlen(folder);
    const char *name = strrchr(file, '/');

    if (strncmp(folder, file, n) == 0 && file[n] == '/') {
        return file + n + 1;
    }
    return name != NULL ? name + 1 : file;
}

void api_agents_list(struct api_call *call)
{
    struct agents *agents = call->api->agents;
    const struct agents_plan *plan = agents != NULL ? agents_plan_of(agents) : NULL;
    json_t *list = json_array();
    json_t *failed = json_array();

    for (size_t i = 0; plan != NULL && i < plan->n_agents; i++) {
        json_array_append_new(list, agent_json(agents_at(agents, i)));
    }
    for (size_t i = 0; plan != NULL && i < plan->n_failed; i++) {
        const struct agent_failure *f = &plan->failed[i];
        json_array_append_new(failed, json_pack("{s:s, s:s}", "file", inside(plan->folder, f->file),
                                                "error", f->error));
    }
    call_reply_json(call, 200, json_pack("{s:o, s:o}", "agents", list, "failed", failed));
}

void api_agent_health(struct api_call *call)
{
    const struct agent *agent = find_agent(call);
    struct agent_figures f;

    if (agent == NULL) {
        reply_unknown(call, call_text(call, "agent_name"), AGENT_KIND_AGENT);
        return;
    }
    agent_figures(agent, &f);
    json_t *body = json_pack("{s:s, s:s}", "status", health_words[f.health], "agent",
                             agent_plan_of(agent)->name);
    if (f.health != AGENT_HEALTHY && body != NULL) {
        const char *why = f.failure[0] != '\0' ? f.failure : "its first worker is starting";
        json_object_set_new(body, "detail", api_text_json(why, strlen(why)));
    }
    call_reply_json(call, f.health == AGENT_HEALTHY ? 200 : 503, body);
}

/* ---- questions ---- */

static bool has_left(void *user)
{
    return call_has_left(user);
}

void agents_reply_err(struct api_call *call, const struct err *e)
{
    call_reply_error(call, err_http(e->code), NULL, NULL, e->msg, NULL);
}

int agents_error_status(const struct agent_answer *answer)
{
    return (int)json_integer_value(json_object_get(answer->value, "status"));
}

void agents_error_text(const struct agent_answer *answer, char dst[static AGENTS_ERROR_MAX])
{
    const json_t *message = json_object_get(answer->value, "message");
    bool is_silent = json_string_length(message) == 0; /* some exceptions have only their name */
    const json_t *text = is_silent ? json_object_get(answer->value, "type") : message;

    str_printable(dst, AGENTS_ERROR_MAX, json_string_value(text), json_string_length(text));
}

void agents_reply_error(struct api_call *call, const struct agent_answer *answer)
{
    char text[AGENTS_ERROR_MAX];

    agents_error_text(answer, text);
    call_reply_error(call, agents_error_status(answer), NULL, NULL, text, NULL);
}

struct agent_call *agents_begin(struct api_call *call, struct agent *agent,
                                enum agent_frame_type type, const json_t *payload)
{
    struct err e = {.code = ERR_UNAVAILABLE, .msg = "the server has no memory for the request"};
    struct agent_call *asked = NULL;
    AUTO_FREE char *text = payload != NULL ? json_dumps(payload, JSON_COMPACT) : NULL;

    if (text != NULL) {
        const char *session = json_string_value(json_object_get(payload, "session_id"));
        bool has_session = session != NULL && !str_eq(session, DEFAULT_SESSION);
        struct agent_request request = {.type = type,
                                        .payload = text,
                                        .len = strlen(text),
                                        .session = has_session ? session : NULL,
                                        .is_gone = has_left,
                                        .user = call};
        call_watch(call);
        asked = agent_call_open(agent, &request, &e);
    }
    if (asked == NULL) {
        if (e.code == ERR_NONE) { /* a client that only closed its sending side may still read */
            err_set(&e, ERR_UNAVAILABLE, "the client has hung up");
        }
        agents_reply_err(call, &e);
    }
    return asked;
}

static __attribute__((noinline)) void reply_bad_stream(struct api_call *call)
{
    struct api_violations v;

    v.n = 0;
    v.total = 0;
    (void)api_violation_add(&v, "body", "stream", "literal_error",
                            "stream must be false, \"text\" or \"events\"");
    call_reply_invalid(call, &v);
}

/* The mode that is asked for: 0 for none, else one of enum agent_streams. -1: answered. */
static int stream_mode(struct api_call *call, const struct agent_plan *plan)
{
    const json_t *asked = json_object_get(call_body(call), "stream");
    const char *word = json_string_value(asked);
    char text[256];

    if (json_is_false(asked)) {
        return 0;
    }
    int mode = word == NULL             ? -1
               : str_eq(word, "text")   ? AGENT_STREAM_TEXT
               : str_eq(word, "events") ? AGENT_STREAM_EVENTS
                                        : -1;
    if (mode < 0) {
        reply_bad_stream(call);
        return -1;
    }
    if ((plan->streams & (uint32_t)mode) == 0) {
        (void)str_format(text, sizeof(text), "the agent \"%s\" does not stream \"%s\"", plan->name,
                         word);
        call_reply_error(call, 400, NULL, NULL, text, NULL);
        return -1;
    }
    return mode;
}

/*
 * The worker's own text with the session behind it: checked to be an object with just that member.
 */
static void reply_done(struct api_call *call, const struct agent_answer *done)
{
    AUTO_FREE char *session =
        json_dumps(json_object_get(call_body(call), "session_id"), JSON_ENCODE_ANY);
    AUTO_BUF struct buf b = BUF_INIT(2 * AGENT_PAYLOAD_MAX);

    if (session == NULL || buf_reserve(&b, done->len + strlen(session) + 32) < 0 ||
        buf_add(&b, done->data, done->len - 1) < 0 ||
        buf_printf(&b, ",\"session_id\":%s}", session) < 0) {
        call_reply_error(call, 503, NULL, NULL, "the server has no memory for the answer", NULL);
        return;
    }
    call_reply_text(call, 200, "application/json", b.data, b.len);
}

static void reply_whole(struct api_call *call, struct agent_call *asked, const char *member)
{
    struct agent_answer *answer = NULL;
    struct err e;

    switch (agent_call_next(asked, -1, &answer, &e)) {
    case AGENT_STEP_ANSWER:
        if (answer->type == AGENT_DONE && json_object_get(answer->value, member) != NULL) {
            reply_done(call, answer);
        } else if (answer->type == AGENT_ERROR) {
            agents_reply_error(call, answer);
        } else {
            agents_reply_err(call, &agents_bad_answer);
        }
        break;
    case AGENT_STEP_FAILED:
        agents_reply_err(call, &e);
        break;
    case AGENT_STEP_QUIET:
    case AGENT_STEP_GONE:
        call_reply_error(call, 503, NULL, NULL, "the client has hung up", NULL);
        break;
    }
    agent_answer_free(answer);
}

static void ask(struct api_call *call, enum agent_frame_type type, const char *question,
                const char *member)
{
    struct agent *agent = agents_of_call(call, AGENT_KIND_AGENT);
    const json_t *body = call_body(call);

    if (agent == NULL) {
        return;
    }
    if (type == AGENT_CHAT && !agent_plan_of(agent)->chat) {
        call_reply_error(call, 404, NULL, NULL, "the agent has no run(data): ask it with a query",
                         NULL);
        return;
    }
    int mode = stream_mode(call, agent_plan_of(agent));
    if (mode < 0) {
        return;
    }
    json_t *payload =
        json_pack("{s:O, s:O, s:O}", question, json_object_get(body, question), "session_id",
                  json_object_get(body, "session_id"), "stream", json_object_get(body, "stream"));
    struct agent_call *asked = agents_begin(call, agent, type, payload);
    json_decref(payload);
    if (asked == NULL) {
        return;
    }
    if (mode != 0) {
        agents_stream(call, asked, (uint32_t)mode);
    } else {
        reply_whole(call, asked, member);
    }
    agent_call_close(asked);
}

void api_agent_call(struct api_call *call)
{
    ask(call, AGENT_CALL, "query", "response");
}

void api_agent_chat(struct api_call *call)
{
    ask(call, AGENT_CHAT, "data", "result");
}
