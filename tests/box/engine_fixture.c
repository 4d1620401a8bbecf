/* SPDX-License-Identifier: Apache-2.0 */
/* An engine for tests; see engine_fixture.h. */
#include "engine_fixture.h"

#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/str.h"
#include "tap.h"

static struct {
    void (*act)(void *user);
    void *user;
} at_output;

void fixture_engine_close(struct husk_engine **engine)
{
    husk_close(*engine);
}

void fixture_result_free(struct husk_result **result)
{
    husk_result_free(*result);
}

/* $HUSK_BUILD, or the folder above the one that this program is in. */
static void build_dir(char *ret, size_t size)
{
    const char *given = getenv("HUSK_BUILD");

    if (given != NULL) {
        CHECK_INT(str_copy(ret, size, given), 0);
        return;
    }
    ssize_t n = readlink("/proc/self/exe", ret, size - 1);
    CHECK(n > 0);
    ret[n] = '\0';
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(ret, '/');
        CHECK(slash != NULL);
        *slash = '\0';
    }
}

void fixture_paths(void)
{
    char build[PATH_MAX];
    char path[PATH_MAX];

    build_dir(build, sizeof(build));
    CHECK_INT(str_format(path, sizeof(path), "%s/bin/husk-launcher", build), 0);
    CASE("%s must have been built and staged", path);
    CHECK_INT(access(path, X_OK), 0);
    CASE("%s", "");
    CHECK_INT(setenv("HUSK_LAUNCHER", path, 1), 0);
    CHECK_INT(str_format(path, sizeof(path), "%s/lib/husk", build), 0);
    CHECK_INT(setenv("HUSK_LIB_DIR", path, 1), 0);
    CHECK_INT(setenv("HUSK_TEMPLATE_DIR", "/nonexistent", 1), 0);
}

void fixture_become_nobody(void)
{
    const unsigned nobody = 65534;

    if (geteuid() == 0) {
        CHECK_INT(setgroups(0, NULL), 0);
        CHECK_INT(setresgid(nobody, nobody, nobody), 0);
        CHECK_INT(setresuid(nobody, nobody, nobody), 0);
        CHECK_INT(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    }
    fixture_paths();
}

void fixture_template_dir(char *template)
{
    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    fixture_paths();
    CHECK(mkdtemp(template) != NULL);
    CHECK_INT(setenv("HUSK_TEMPLATE_DIR", template, 1), 0);
}

struct husk_engine *fixture_open(void)
{
    struct husk_engine *engine = NULL;
    struct husk_error e;

    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    fixture_paths();
    CHECK_OK(husk_open(NULL, &engine, &e), &e);
    return engine;
}

struct husk_spec fixture_spec(const char *template_name, enum husk_kind kind, const char *code)
{
    return (struct husk_spec){
        .template_name = template_name,
        .kind = kind,
        .code = code,
        .code_len = strlen(code),
    };
}

struct husk_result *fixture_run(struct husk_engine *engine, const struct husk_spec *spec)
{
    struct husk_result *result = NULL;
    struct husk_error e;

    CHECK_OK(husk_run(engine, spec, &result, &e), &e);
    return result;
}

struct husk_result *fixture_script(struct husk_engine *engine, const char *code)
{
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, code);

    return fixture_run(engine, &spec);
}

struct husk_result *fixture_cell(struct husk_engine *engine, const char *code)
{
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, code);

    return fixture_run(engine, &spec);
}

const char *fixture_refusal(struct husk_engine *engine, const struct husk_spec *spec)
{
    struct husk_result *result = NULL;
    struct husk_error e;

    if (husk_run(engine, spec, &result, &e) == 0) {
        tap_fail(__FILE__, __LINE__, "the run was not refused, it %s",
                 husk_status_name(result->status));
    }
    CHECK(result == NULL);
    CHECK(e.message[0] != '\0');
    CHECK(e.http >= 400 && e.http < 600);
    return e.type;
}

static void act_once(void *user, enum husk_stream stream, const char *data, size_t n)
{
    void (*act)(void *user) = at_output.act;

    (void)user;
    (void)stream;
    (void)data;
    (void)n;
    at_output.act = NULL;
    if (act != NULL) {
        act(at_output.user);
    }
}

void fixture_at_output(struct husk_spec *spec, void (*act)(void *user), void *user)
{
    at_output.act = act;
    at_output.user = user;
    spec->on_output = act_once;
}

void fixture_check_end(const char *file, int line, const struct husk_result *r, const char *want)
{
    AUTO_FREE char *all = NULL;
    char got[200];

    CHECK_INT(str_format(got, sizeof(got), "%s %s %d%s%s", husk_status_name(r->status),
                         husk_cause_name(r->termination.cause), r->exit_code,
                         r->termination.limit[0] != '\0' ? ": " : "", r->termination.limit),
              0);
    if (strcmp(got, want) != 0) {
        all = husk_result_json(r);
        tap_fail(file, line, "it ended as \"%s\", not \"%s\": %.800s", got, want,
                 all != NULL ? all : "");
    }
}

void fixture_check_has(const char *file, int line, const char *text, const char *part)
{
    if (text == NULL || strstr(text, part) == NULL) {
        tap_fail(file, line, "\"%s\" is not in \"%.800s\"", part, text != NULL ? text : "(NULL)");
    }
}

void fixture_session_close(struct husk_session **session)
{
    husk_session_close(*session);
}

struct husk_session *fixture_session(struct husk_engine *engine, const struct husk_limits *limits)
{
    struct husk_spec spec = {.template_name = "python"};
    struct husk_session *session = NULL;
    struct husk_error e;

    if (limits != NULL) {
        spec.limits = *limits;
    }
    CHECK_OK(husk_session_open(engine, &spec, &session, &e), &e);
    return session;
}

struct husk_result *fixture_in(struct husk_session *s, uint32_t context, uint64_t timeout_ms,
                               const char *code)
{
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, code);
    struct husk_result *result = NULL;
    struct husk_error e;

    spec.limits.timeout_ms = timeout_ms;
    CHECK_OK(husk_session_run(s, context, &spec, &result, &e), &e);
    return result;
}
