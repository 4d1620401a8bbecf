/* SPDX-License-Identifier: Apache-2.0 */
/* Husk under measurement; see subject.h. */
#include "subject.h"

#include <string.h>

#include "base/clock.h"
#include "base/str.h"

int subject_error(const struct husk_error *h, struct err *e)
{
    return err_set(e, ERR_SYSTEM, "%s: %s", h->type, h->message);
}

int subject_pool(struct subject *s, uint32_t min, uint32_t max, struct err *e)
{
    struct husk_error h;

    return husk_pool_set(s->engine, s->template_name, NULL, min, max, &h) < 0 ? subject_error(&h, e)
                                                                              : 0;
}

int subject_wait(struct subject *s, uint32_t parked, struct err *e)
{
    struct husk_error h;

    return husk_pool_wait(s->engine, s->template_name, parked, &h) < 0 ? subject_error(&h, e) : 0;
}

int subject_open(struct subject *s, uint32_t pool_max, struct err *e)
{
    char launcher[PATH_MAX];
    char templates[PATH_MAX];
    struct husk_options options = {.launcher = launcher, .template_dir = templates};
    struct husk_error h;

    if (str_format(launcher, sizeof(launcher), "%s/bin/husk-launcher", s->world->build) < 0 ||
        str_format(templates, sizeof(templates), "%s/templates", s->world->scratch) < 0) {
        return err_set(e, ERR_INVALID, "the build folder's path is too long");
    }
    if (husk_open(&options, &s->engine, &h) < 0) {
        return subject_error(&h, e);
    }
    /* Sizes the template for the pool to come and starts its zygote, but parks nothing. */
    if (subject_pool(s, 0, pool_max, e) < 0) {
        subject_close(s);
        return -1;
    }
    return 0;
}

void subject_close(struct subject *s)
{
    husk_close(s->engine);
    s->engine = NULL;
}

int subject_fill(void *user, int boxes, struct err *e)
{
    struct subject *s = user;
    uint32_t n = (uint32_t)boxes;

    if (subject_pool(s, n, n, e) < 0 || subject_wait(s, n, e) < 0) {
        return -1;
    }
    return subject_pool(s, 0, n, e);
}

int subject_run(struct subject *s, const struct husk_spec *spec, struct husk_result **ret,
                struct err *e)
{
    struct husk_error h;

    if (husk_run(s->engine, spec, ret, &h) < 0) {
        return subject_error(&h, e);
    }
    const struct husk_result *r = *ret;
    int bad = 0;
    if (r->status != HUSK_COMPLETED) {
        bad = err_set(e, ERR_PROTOCOL, "the run %s: %.200s", husk_status_name(r->status), r->err);
    } else if (!str_eq(r->receipt.isolation, "full")) {
        bad = err_set(e, ERR_ISOLATION, "isolation was %s, without %s", r->receipt.isolation,
                      r->receipt.missing);
    } else if (r->receipt.warm != s->warm) {
        bad = err_set(e, ERR_PROTOCOL, "the box %s the pool", s->warm ? "missed" : "came from");
    }
    if (bad < 0) {
        husk_result_free(*ret);
    }
    return bad;
}

int subject_once(void *user, double *ret, struct err *e)
{
    struct subject *s = user;
    struct husk_result *result;
    struct husk_spec spec = {
        .template_name = s->template_name, .code = s->code, .code_len = strlen(s->code)};

    uint64_t begun = clock_ns();
    if (subject_run(s, &spec, &result, e) < 0) {
        return -1;
    }
    *ret = (double)(clock_ns() - begun) / 1e6;
    bool right = str_eq(result->out, s->expect);
    if (!right) {
        err_set(e, ERR_PROTOCOL, "it printed \"%.60s\"", result->out);
    }
    husk_result_free(result);
    return right ? 0 : -1;
}

int subject_once_pooled(void *user, double *ret, struct err *e)
{
    struct subject *s = user;
    struct husk_pool_stats stats;
    struct husk_error h;

    if (husk_pool_stats(s->engine, s->template_name, &stats, &h) < 0) {
        return subject_error(&h, e);
    }
    s->warm = stats.parked > 0;
    return subject_once(s, ret, e);
}

int subject_cell(struct husk_session *session, uint32_t context, const char *code,
                 const char *output, double *ret, struct err *e)
{
    const struct husk_spec spec = {.kind = HUSK_CELL, .code = code, .code_len = strlen(code)};
    struct husk_result *result;
    struct husk_error h;

    uint64_t begun = clock_ns();
    if (husk_session_run(session, context, &spec, &result, &h) < 0) {
        return subject_error(&h, e);
    }
    *ret = (double)(clock_ns() - begun) / 1e6;
    bool right = result->status == HUSK_COMPLETED && str_eq(result->out, output) &&
                 str_eq(result->receipt.isolation, "full");
    if (!right) {
        err_set(e, ERR_PROTOCOL, "the cell %s, it printed \"%.60s\"",
                husk_status_name(result->status), result->out);
    }
    husk_result_free(result);
    return right ? 0 : -1;
}
