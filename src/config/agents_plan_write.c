/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the plan of served agents and writes it as text; see agents_plan_impl.h. */
#include <jansson.h>
#include <string.h>

#include "base/str.h"
#include "config/agents_plan_impl.h"

const char *const agent_kind_names[AGENT_KINDS] = {"agent", "mcp"};
const char *const agent_stream_names[AGENT_STREAMS] = {"text", "events"};

static int wrong(const char *origin, const struct agent_plan *a, const char *what, struct err *e)
{
    char shown[AGENT_NAME_MAX];

    str_printable(shown, sizeof(shown), a->name, strlen(a->name));
    return err_set(e, ERR_INVALID, "%s: agent \"%s\": %s", origin, shown, what);
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_name(const char *s)
{
    if (!is_word_char(s[0])) {
        return false;
    }
    while (is_word_char(*s) || *s == '-') {
        s++;
    }
    return *s == '\0';
}

/* Segments of plain characters, none of them "." or "..". */
static bool is_prefix(const char *s)
{
    if (s[0] != '/') {
        return false;
    }
    while (*s == '/') {
        size_t n = 0;
        bool dots = true;
        for (s++; is_word_char(s[n]) || strchr("-.~", s[n]) != NULL; n++) {
            if (s[n] == '\0') {
                break;
            }
            dots = dots && s[n] == '.';
        }
        if (n == 0 || (dots && n <= 2)) {
            return false;
        }
        s += n;
    }
    return *s == '\0';
}

/* Paths of the server itself, where an agent could not be reached. */
static bool is_reserved(const char *prefix)
{
    static const char *const trees[] = {"/api",     "/workspace", "/run",         "/health",
                                        "/metrics", "/docs",      "/openapi.json"};

    for (size_t i = 0; i < ARRAY_LEN(trees); i++) {
        size_t n = strlen(trees[i]);
        if (strncmp(prefix, trees[i], n) == 0 && (prefix[n] == '\0' || prefix[n] == '/')) {
            return true;
        }
    }
    return str_eq(prefix, "/agents");
}

static bool is_path(const char *path)
{
    return path != NULL && path[0] == '/' && strlen(path) <= AGENTS_PLAN_PATH_MAX;
}

static int check_agent(const struct agent_plan *a, const char *origin, struct err *e)
{
    const struct {
        bool ok;
        const char *what;
    } rules[] = {
        {is_name(a->name), "name must be letters, digits, '_' and '-', at most 63 of them"},
        {is_name(a->framework), "framework must be letters, digits, '_' and '-'"},
        {is_path(a->file), "file must be an absolute path"},
        {is_prefix(a->route_prefix),
         "route_prefix must be like \"/agents/x\": plain segments, no \"/\" at the end"},
        {!is_reserved(a->route_prefix), "route_prefix is a path of the server itself"},
        {a->cpu_milli >= 1 && a->cpu_milli <= 1024000, "num_cpus must be from 0.001 to 1024"},
        {a->gpu_milli <= 1024000, "num_gpus must be from 0 to 1024"},
        {a->memory_bytes >= (uint64_t)16 << 20 && a->memory_bytes <= (uint64_t)1 << 50,
         "memory_bytes must be at least 16 MiB"},
        {a->replicas >= 1 && a->replicas <= AGENTS_PLAN_REPLICAS_MAX,
         "replicas must be from 1 to 64"},
        {a->max_in_flight >= 1 && a->max_in_flight <= 10000,
         "max_in_flight must be from 1 to 10000"},
        {a->queue_length <= 100000, "queue_length must be from 0 to 100000"},
        {a->request_timeout_ms >= 1 && a->request_timeout_ms <= 86400000,
         "request_timeout_ms must be from 1 to 86400000"},
        {a->retries <= 10, "retries must be from 0 to 10"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (!rules[i].ok) {
            return wrong(origin, a, rules[i].what, e);
        }
    }
    return 0;
}

/* An agent can also be reached by its name, unless the prefix of another one is that address. */
static bool takes_address(const struct agent_plan *a, const struct agent_plan *b)
{
    return str_starts(a->route_prefix, "/agents/") &&
           str_eq(a->route_prefix + strlen("/agents/"), b->name);
}

static int check_pair(const struct agent_plan *a, const struct agent_plan *b, const char *origin,
                      struct err *e)
{
    if (str_eq(a->name, b->name)) {
        return err_set(e, ERR_INVALID, "%s: both %s and %s are named \"%s\"", origin, a->file,
                       b->file, a->name);
    }
    if (str_eq(a->route_prefix, b->route_prefix) || takes_address(a, b) || takes_address(b, a)) {
        return err_set(e, ERR_INVALID, "%s: agents \"%s\" and \"%s\" have the same route_prefix",
                       origin, a->name, b->name);
    }
    return 0;
}

int agents_plan_check(const struct agents_plan *plan, bool found, const char *origin, struct err *e)
{
    for (size_t i = 0; i < plan->n_agents; i++) {
        if (check_agent(&plan->agents[i], origin, e) < 0) {
            return -1;
        }
        for (size_t j = 0; j < i; j++) {
            if (check_pair(&plan->agents[j], &plan->agents[i], origin, e) < 0) {
                return -1;
            }
        }
    }
    if (found) {
        return 0;
    }
    if (!is_path(plan->python) || !is_path(plan->folder) || plan->sdk == NULL ||
        (plan->sdk[0] != '\0' && !is_path(plan->sdk))) {
        return err_set(e, ERR_INVALID, "%s: python, folder and sdk must be absolute paths", origin);
    }
    return 0;
}

/* ---- writing ---- */

static json_t *agent_json(const struct agent_plan *a)
{
    json_t *streams = json_array();

    for (size_t i = 0; i < AGENT_STREAMS; i++) {
        if ((a->streams & 1u << i) != 0) {
            json_array_append_new(streams, json_string(agent_stream_names[i]));
        }
    }
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:s, s:f, s:f, s:I, s:I, s:o, s:b, s:I, s:I, s:I, s:I}", "name",
        a->name, "kind", agent_kind_names[a->kind], "framework", a->framework, "file", a->file,
        "main", (int)a->main, "route_prefix", a->route_prefix, "num_cpus", a->cpu_milli / 1000.0,
        "num_gpus", a->gpu_milli / 1000.0, "memory_bytes", (json_int_t)a->memory_bytes, "replicas",
        (json_int_t)a->replicas, "streams", streams, "chat", (int)a->chat, "max_in_flight",
        (json_int_t)a->max_in_flight, "queue_length", (json_int_t)a->queue_length,
        "request_timeout_ms", (json_int_t)a->request_timeout_ms, "retries", (json_int_t)a->retries);
}

char *agents_plan_text(const struct agents_plan *plan)
{
    json_t *agents = json_array();
    json_t *failed = json_array();
    bool ok = true;

    for (size_t i = 0; i < plan->n_agents; i++) {
        ok = json_array_append_new(agents, agent_json(&plan->agents[i])) == 0 && ok;
    }
    for (size_t i = 0; i < plan->n_failed; i++) {
        const struct agent_failure *f = &plan->failed[i];
        ok = json_array_append_new(failed, json_pack("{s:s, s:s, s:s}", "file", f->file, "error",
                                                     f->error, "traceback", f->traceback)) == 0 &&
             ok;
    }
    json_t *top = json_pack("{s:i, s:s, s:s, s:s, s:o, s:o}", "version", AGENTS_PLAN_VERSION,
                            "python", plan->python, "folder", plan->folder, "sdk", plan->sdk,
                            "agents", agents, "failed", failed);
    char *text = ok && top != NULL ? json_dumps(top, JSON_INDENT(2)) : NULL;
    json_decref(top);
    return text;
}
