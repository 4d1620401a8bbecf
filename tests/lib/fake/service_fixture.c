/* SPDX-License-Identifier: Apache-2.0 */
/* A service for tests; see service_fixture.h. */
#include "service_fixture.h"

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

static void load(struct fixture *f, const char *const *settings)
{
    char store[128];
    char *env[24] = {NULL};
    char texts[24][160];
    size_t n = 0;
    struct config_report report = {0};
    struct config_input in = {.env = env, .is_root = true};
    struct err e = {0};

    const char *const always[] = {"templates_preload=", "pool_min=0",         "pool_max=0",
                                  "session_pool_min=0", "session_pool_max=0", "drain_timeout=0s"};
    CHECK(mkdtemp(f->dir) != NULL);
    CHECK_INT(str_format(store, sizeof(store), "%s/store", f->dir), 0);
    CHECK_INT(mkdir(store, 0700), 0);
    CHECK_INT(str_format(texts[n], sizeof(texts[n]), "HUSK_DATA=%s", f->dir), 0);
    env[n] = texts[n];
    n++;
    for (size_t list = 0; list < 2; list++) {
        const char *const *rows = list == 0 ? always : settings;
        size_t most = list == 0 ? ARRAY_LEN(always) : SIZE_MAX;
        for (size_t i = 0; rows != NULL && i < most && rows[i] != NULL; i++, n++) {
            CHECK_INT(str_format(texts[n], sizeof(texts[n]), "HUSK_%s", rows[i]), 0);
            for (char *c = texts[n]; *c != '\0' && *c != '='; c++) {
                *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
            }
            env[n] = texts[n];
        }
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
    bool existed;

    if (session_create(f->svc, &ask, &s, &existed, &e) < 0) {
        tap_fail(__FILE__, __LINE__, "session_create: %s", e.msg);
    }
    CHECK(!existed);
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
