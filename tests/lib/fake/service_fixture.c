/* SPDX-License-Identifier: Apache-2.0 */
/* A service for tests; see service_fixture.h. */
#include "service_fixture.h"

#include <ctype.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fiber.h"
#include "base/log.h"
#include "base/str.h"
#include "core/core.h"
#include "tap.h"

#define PATIENCE_MS 20000

#define SETTINGS_MAX 24

struct environment {
    char *list[SETTINGS_MAX + 1];
    char texts[SETTINGS_MAX][160];
    size_t n;
};

/* "max_sessions=1" as HUSK_MAX_SESSIONS=1. */
static void add_setting(struct environment *env, const char *setting)
{
    char *text = env->texts[env->n];

    CHECK(env->n < SETTINGS_MAX);
    CHECK_INT(str_format(text, sizeof(env->texts[0]), "HUSK_%s", setting), 0);
    for (char *c = text; *c != '\0' && *c != '='; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    env->list[env->n++] = text;
}

static void load(struct fixture *f, const char *const *settings)
{
    static const char *const always[] = {"templates_preload=", "pool_min=0",
                                         "pool_max=0",         "session_pool_min=0",
                                         "session_pool_max=0", "drain_timeout=0s"};
    struct environment env = {.n = 0};
    struct config_report report = {0};
    struct config_input in = {.env = env.list, .is_root = true};
    char text[128];
    struct err e = {0};

    CHECK(mkdtemp(f->dir) != NULL);
    CHECK_INT(str_format(text, sizeof(text), "%s/store", f->dir), 0);
    CHECK_INT(mkdir(text, 0700), 0);
    CHECK_INT(str_format(text, sizeof(text), "data=%s", f->dir), 0);
    add_setting(&env, text);
    for (size_t i = 0; i < ARRAY_LEN(always); i++) {
        add_setting(&env, always[i]);
    }
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        add_setting(&env, settings[i]);
    }
    if (config_load(&in, &f->config, &report, &e) < 0) {
        tap_fail(__FILE__, __LINE__, "%s: %s", e.msg, report.errors.data);
    }
    config_report_release(&report);
}

struct driven {
    struct fixture *f;
    void (*fn)(struct fixture *f);
    bool done;
};

static void drive(void *user)
{
    struct driven *d = user;

    d->fn(d->f);
    d->done = true;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

void fixture_serve(const char *const *settings, void (*fn)(struct fixture *f))
{
    struct fixture f = {.dir = "/tmp/husk-service-XXXXXX"};
    struct driven d = {.f = &f, .fn = fn};
    struct err e = {0};

    CHECK_INT(setenv("HUSK_LIB_DIR", SOURCE_DIR, 1), 0);
    log_set_level(LOG_ERROR);
    load(&f, settings);
    f.fake = fake_new();
    struct service_options options = {.config = &f.config, .backend = fake_backend(f.fake)};
    if (service_open(&options, &f.svc, &e) < 0) {
        tap_fail(__FILE__, __LINE__, "service_open: %s", e.msg);
    }
    CHECK_INT(fiber_start(drive, &d), 0);
    while (!d.done) {
        struct pollfd p = {.fd = fiber_fd(), .events = POLLIN};
        (void)poll(&p, 1, fiber_timeout());
        fiber_run();
    }
    service_close(f.svc);
    fiber_run_all();
    fiber_release();
    config_release(&f.config);
    CHECK_INT(nftw(f.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

struct session *fixture_create(struct fixture *f)
{
    const struct session_ask ask = {.persistent = true, .dialect = "v1"};
    struct session *s = NULL;
    struct err e = {0};
    enum session_origin origin;

    if (session_create(f->svc, &ask, &s, &origin, &e) < 0) {
        tap_fail(__FILE__, __LINE__, "session_create: %s", e.msg);
    }
    CHECK_INT(origin, SESSION_NEW);
    return s;
}

void fixture_end(struct fixture *f, struct session *s)
{
    struct err e = {0};

    if (session_end(f->svc, session_id(s), SESSION_TERMINATED, "by a client", &e) < 0) {
        tap_fail(__FILE__, __LINE__, "session_end: %s", e.msg);
    }
    session_release(s);
}

struct execution *fixture_start(struct session *s, uint32_t context, const char *code,
                                struct err *e)
{
    const struct execution_ask ask = {.code = code, .code_len = strlen(code), .context = context};
    struct execution *x = NULL;
    bool existed;

    return execution_start(s, &ask, &x, &existed, e) == 0 ? x : NULL;
}

struct execution *fixture_begin(struct session *s, const char *code)
{
    struct err e = {0};
    struct execution *x = fixture_start(s, 0, code, &e);

    if (x == NULL) {
        tap_fail(__FILE__, __LINE__, "execution_start: %s", e.msg);
    }
    return x;
}

const char *fixture_state(struct execution *x)
{
    const struct execution_entry entry = {.live = x};

    return execution_state_word(execution_view(&entry).state);
}

void fixture_check_end(struct execution *x, int state, int exit_code)
{
    CHECK_INT(execution_wait(x, PATIENCE_MS), 0);
    CHECK_STR(fixture_state(x), execution_state_word(state));
    const struct husk_result *r = execution_result(x);
    CHECK(r != NULL);
    CHECK_INT(r->exit_code, exit_code);
    execution_release(x);
}
