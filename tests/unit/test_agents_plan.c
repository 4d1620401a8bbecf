/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of served agents: what is sealed can be read, and what is wrong is refused with its
 * place.
 */
#include "config/agents_plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

#define FIELDS                                                                                     \
    "\"framework\":\"callable\",\"main\":false,\"num_cpus\":0.5,\"num_gpus\":0,"                   \
    "\"memory_bytes\":67108864,\"replicas\":2,\"streams\":[\"events\"],\"chat\":true,"             \
    "\"max_in_flight\":8,\"queue_length\":0,\"request_timeout_ms\":1000,\"retries\":0"
#define AGENT(name, prefix)                                                                        \
    "{\"name\":\"" name "\",\"kind\":\"agent\",\"file\":\"/p/agents/" name                         \
    "/agent.py\",\"route_prefix\":\"" prefix "\"," FIELDS "}"
#define FOUND(agents) "{\"version\":1,\"agents\":[" agents "],\"failed\":[]}"
#define PLAN(agents)                                                                               \
    "{\"version\":1,\"python\":\"/usr/bin/python3\",\"folder\":\"/p\",\"sdk\":\"\","               \
    "\"agents\":[" agents "],\"failed\":[]}"

static int parse(const char *text, struct agents_plan *plan, struct err *e)
{
    return agents_plan_parse(text, strlen(text), "plan", plan, e);
}

TEST(every_field_is_read)
{
    AUTO(agents_plan_release) struct agents_plan plan = {0};
    struct err e = {0};

    CHECK_INT(parse(PLAN(AGENT("one", "/agents/one")), &plan, &e), 0);
    CHECK_STR(plan.python, "/usr/bin/python3");
    CHECK_STR(plan.folder, "/p");
    CHECK_STR(plan.sdk, "");
    CHECK_INT(plan.n_agents, 1);
    CHECK_INT(plan.n_failed, 0);
    const struct agent_plan *a = &plan.agents[0];
    CHECK_STR(a->name, "one");
    CHECK_STR(a->framework, "callable");
    CHECK_STR(a->route_prefix, "/agents/one");
    CHECK_STR(a->file, "/p/agents/one/agent.py");
    CHECK_INT(a->kind, AGENT_KIND_AGENT);
    CHECK(!a->main && a->chat);
    CHECK_INT(a->streams, AGENT_STREAM_EVENTS);
    CHECK_INT(a->cpu_milli, 500);
    CHECK_INT(a->gpu_milli, 0);
    CHECK_INT(a->memory_bytes, 64 << 20);
    CHECK_INT(a->replicas, 2);
    CHECK_INT(a->max_in_flight, 8);
    CHECK_INT(a->queue_length, 0);
    CHECK_INT(a->request_timeout_ms, 1000);
}

TEST(what_is_sealed_is_read_back)
{
    AUTO(agents_plan_release) struct agents_plan plan = {0};
    AUTO(agents_plan_release) struct agents_plan again = {0};
    static const char found[] = "{\"version\":1,\"agents\":[" AGENT(
        "one", "/x/y") "],\"failed\":[{\"file\":\"/p/b.py\","
                       "\"error\":\"E: \\u00e4\",\"traceback\":\"a\\nb\"}]}";
    struct err e = {0};

    CHECK_INT(agents_plan_parse_found(found, strlen(found), "found", &plan, &e), 0);
    plan.python = strdup("/venv/bin/python");
    plan.folder = strdup("/p");
    plan.sdk = strdup("/s");
    AUTO_CLOSE int fd = agents_plan_seal(&plan, &e);
    CHECK(fd >= 0);
    CHECK_INT(agents_plan_read_sealed(fd, &again, &e), 0);
    CHECK_STR(again.python, "/venv/bin/python");
    CHECK_STR(again.sdk, "/s");
    CHECK_INT(again.n_agents, 1);
    CHECK_INT(again.agents[0].cpu_milli, 500);
    CHECK_INT(again.agents[0].streams, AGENT_STREAM_EVENTS);
    CHECK_STR(again.agents[0].route_prefix, "/x/y");
    CHECK_INT(again.n_failed, 1);
    CHECK_STR(again.failed[0].error, "E: \xc3\xa4");
    CHECK_STR(again.failed[0].traceback, "a\nb");
}

TEST(a_sealed_plan_cannot_be_changed)
{
    AUTO(agents_plan_release) struct agents_plan plan = {0};
    struct err e = {0};
    char path[32];

    AUTO_CLOSE int fd = agents_plan_seal(NULL, &e);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, "{", 1), -1);
    CHECK_INT(ftruncate(fd, 1), -1);
    CHECK_INT(fcntl(fd, F_ADD_SEALS, 0), -1);
    CHECK_INT(str_format(path, sizeof(path), "/proc/self/fd/%d", fd), 0);
    AUTO_CLOSE int anew = open(path, O_RDWR | O_CLOEXEC);
    CHECK(anew < 0 || write(anew, "{", 1) == -1);
    CHECK_INT(agents_plan_read_sealed(fd, &plan, &e), 0);
    CHECK_INT(plan.n_agents, 0);
}

TEST(a_plan_that_could_change_is_not_read)
{
    static const char text[] = PLAN("");
    struct agents_plan plan = {0};
    struct err e = {0};
    FILE *file = tmpfile();
    AUTO_CLOSE int open_one = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    AUTO_CLOSE int half = memfd_create("half", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    CHECK(file != NULL);
    CHECK_INT(fd_write_all(fileno(file), text, sizeof(text) - 1), 0);
    CHECK_INT(fd_write_all(open_one, text, sizeof(text) - 1), 0);
    CHECK_INT(fd_write_all(half, text, sizeof(text) - 1), 0);
    CHECK_INT(fcntl(half, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW), 0);
    const int fds[] = {fileno(file), open_one, half, -1};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        CASE("descriptor %zu", i);
        CHECK_INT(agents_plan_read_sealed(fds[i], &plan, &e), -1);
        CHECK(strstr(e.msg, "not trusted") != NULL);
    }
    fclose(file);
}

TEST(a_plan_that_could_not_be_read_is_not_sealed)
{
    AUTO(agents_plan_release) struct agents_plan plan = {0};
    static const char found[] = FOUND(AGENT("one", "/x"));
    struct err e = {0};

    CHECK_INT(agents_plan_parse_found(found, strlen(found), "found", &plan, &e), 0);
    CHECK_INT(agents_plan_seal(&plan, &e), -1); /* python is not set */
    CHECK(strstr(e.msg, "python") != NULL);
}

TEST(names_and_prefixes_of_every_form_that_is_allowed)
{
    static const char *const good[] = {
        PLAN(AGENT("A-b_9", "/agents/A-b_9")),
        PLAN(AGENT("9x", "/a.b/~c")),
        PLAN(AGENT("a", "/agents/a") "," AGENT("b", "/agents/a/b")),
        PLAN(AGENT("a", "/agentsx")),
        PLAN(AGENT("a", "/apis/x") "," AGENT("b", "/runs")),
        PLAN(""),
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        AUTO(agents_plan_release) struct agents_plan plan = {0};
        struct err e = {0};
        CASE("%s", good[i]);
        CHECK_INT(parse(good[i], &plan, &e), 0);
    }
}

TEST(what_is_wrong_is_refused_and_named)
{
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"", "line"},
        {"[]", "must be an object"},
        {"{\"version\":2,\"agents\":[],\"failed\":[]}", "version"},
        {"{\"version\":1,\"version\":1,\"agents\":[],\"failed\":[]}", "duplicate"},
        {FOUND(""), "python"}, /* discovery's output is no plan yet */
        {PLAN("{}"), "\"name\" is missing"},
        {PLAN("7"), "agent 1 must be an object"},
        {PLAN(AGENT("", "/x")), "name must be"},
        {PLAN(AGENT("-a", "/x")), "name must be"},
        {PLAN(AGENT("a/b", "/x")), "name must be"},
        {PLAN(AGENT("a\\u0000b", "/x")), "u0000"},
        {PLAN(AGENT("a", "x")), "route_prefix"},
        {PLAN(AGENT("a", "")), "route_prefix"},
        {PLAN(AGENT("a", "/")), "route_prefix"},
        {PLAN(AGENT("a", "/x/")), "route_prefix"},
        {PLAN(AGENT("a", "//x")), "route_prefix"},
        {PLAN(AGENT("a", "/x/../y")), "route_prefix"},
        {PLAN(AGENT("a", "/x y")), "route_prefix"},
        {PLAN(AGENT("a", "/x{y}")), "route_prefix"},
        {PLAN(AGENT("a", "/api/v1/x")), "path of the server"},
        {PLAN(AGENT("a", "/run")), "path of the server"},
        {PLAN(AGENT("a", "/agents")), "path of the server"},
        {PLAN(AGENT("a", "/x") "," AGENT("a", "/y")), "named \"a\""},
        {PLAN(AGENT("a", "/x") "," AGENT("b", "/x")), "same route_prefix"},
        {PLAN(AGENT("a", "/agents/b") "," AGENT("b", "/x")), "same route_prefix"},
        {PLAN("{\"name\":\"a\",\"kind\":\"agent\",\"file\":\"rel.py\",\"route_prefix\":\"/"
              "x\"," FIELDS "}"),
         "absolute"},
        {PLAN("{\"name\":\"a\",\"kind\":\"bot\",\"file\":\"/f\",\"route_prefix\":\"/x\"," FIELDS
              "}"),
         "kind"},
        {PLAN("{\"name\":\"a\",\"kind\":\"mcp\",\"file\":\"/f\",\"route_prefix\":\"/x\",\"extra\":"
              "1," FIELDS "}"),
         "\"extra\" is unknown"},
        {PLAN("{\"name\":\"a\",\"kind\":\"mcp\",\"file\":7,\"route_prefix\":\"/x\"," FIELDS "}"),
         "\"file\" must be a string"},
        {"{\"version\":1,\"python\":\"python3\",\"folder\":\"/p\",\"sdk\":\"\",\"agents\":[],"
         "\"failed\":[]}",
         "absolute"},
        {"{\"version\":1,\"python\":\"/p\",\"folder\":\"/p\",\"sdk\":\"x\",\"agents\":[],"
         "\"failed\":[]}",
         "absolute"},
        {"{\"version\":1,\"python\":\"/p\",\"folder\":\"/p\",\"sdk\":\"\",\"agents\":[],"
         "\"failed\":[{\"file\":\"/f\",\"error\":1,\"traceback\":\"\"}]}",
         "\"error\" must be a string"},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct agents_plan plan = {0};
        struct err e = {0};
        CASE("%s", bad[i].text);
        CHECK_INT(parse(bad[i].text, &plan, &e), -1);
        CHECK_INT(e.code, ERR_INVALID);
        CHECK_INT(plan.n_agents, 0);
        CHECK(plan.agents == NULL && plan.python == NULL);
        if (strstr(e.msg, bad[i].says) == NULL) {
            CHECK_STR(e.msg, bad[i].says);
        }
    }
}

/* One number after the other out of its range, in a plan that is fine otherwise. */
TEST(numbers_have_bounds)
{
    static const struct {
        const char *from;
        const char *to;
    } edits[] = {
        {"\"num_cpus\":0.5", "\"num_cpus\":0"},
        {"\"num_cpus\":0.5", "\"num_cpus\":-1"},
        {"\"num_cpus\":0.5", "\"num_cpus\":1e9"},
        {"\"num_cpus\":0.5", "\"num_cpus\":true"},
        {"\"memory_bytes\":67108864", "\"memory_bytes\":1024"},
        {"\"memory_bytes\":67108864", "\"memory_bytes\":-5"},
        {"\"memory_bytes\":67108864", "\"memory_bytes\":1.5"},
        {"\"replicas\":2", "\"replicas\":0"},
        {"\"replicas\":2", "\"replicas\":65"},
        {"\"replicas\":2", "\"replicas\":4294967297"},
        {"\"max_in_flight\":8", "\"max_in_flight\":0"},
        {"\"max_in_flight\":8", "\"max_in_flight\":10001"},
        {"\"queue_length\":0", "\"queue_length\":100001"},
        {"\"request_timeout_ms\":1000", "\"request_timeout_ms\":0"},
        {"\"streams\":[\"events\"]", "\"streams\":[\"tokens\"]"},
        {"\"streams\":[\"events\"]", "\"streams\":[\"text\",\"text\"]"},
        {"\"streams\":[\"events\"]", "\"streams\":{}"},
        {"\"chat\":true", "\"chat\":1"},
        {"\"main\":false,", ""},
    };
    static const char plan_text[] = PLAN(AGENT("a", "/x"));

    for (size_t i = 0; i < ARRAY_LEN(edits); i++) {
        struct agents_plan plan = {0};
        struct err e = {0};
        char text[2048];
        const char *at = strstr(plan_text, edits[i].from);
        CASE("%s", edits[i].to);
        CHECK(at != NULL);
        CHECK_INT(str_format(text, sizeof(text), "%.*s%s%s", (int)(at - plan_text), plan_text,
                             edits[i].to, at + strlen(edits[i].from)),
                  0);
        CHECK_INT(parse(text, &plan, &e), -1);
        CHECK(strstr(e.msg, "agent \"a\"") != NULL);
    }
}
