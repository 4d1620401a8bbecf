/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which modules a template's Python has. Only that Python knows: a box of the template is asked,
 * without its preloads unless they are there already, and the answer is kept for a while.
 *
 * The answer is a claim, but of a box that no user's code has run in. It is used for what is shown,
 * never to decide what may run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "service/service_impl.h"

#define KEPT_MS 60000
#define PROBE_MS 20000 /* the time limit of the program that looks */
#define CODE_MAX 8192

struct known_modules {
    struct known_modules *next;
    char template_name[64];
    char *names; /* that were asked for */
    uint64_t fingerprint;
    uint64_t asked_ms;
    bool asking;   /* a fiber is */
    json_t *there; /* NULL: not known */
};

static void known_free(struct known_modules *k)
{
    free(k->names);
    json_decref(k->there);
    free(k);
}

void modules_forget(struct service *svc)
{
    while (svc->known_modules != NULL) {
        struct known_modules *k = svc->known_modules;
        svc->known_modules = k->next;
        known_free(k);
    }
}

static bool is_old(const struct known_modules *k)
{
    return !k->asking && clock_ms() - k->asked_ms >= KEPT_MS;
}

static void drop_old(struct service *svc)
{
    for (struct known_modules **p = &svc->known_modules; *p != NULL;) {
        struct known_modules *k = *p;
        if (is_old(k)) {
            *p = k->next;
            known_free(k);
        } else {
            p = &k->next;
        }
    }
}

static struct known_modules *find_known(const struct service *svc, const char *name,
                                        const char *modules)
{
    struct known_modules *k = svc->known_modules;

    while (k != NULL && !(str_eq(k->template_name, name) && str_eq(k->names, modules))) {
        k = k->next;
    }
    return k;
}

static struct known_modules *add_known(struct service *svc, const char *name, const char *modules)
{
    struct known_modules *k = calloc(1, sizeof(*k));

    if (k == NULL || (k->names = strdup(modules)) == NULL) {
        free(k);
        return NULL;
    }
    (void)str_copy(k->template_name, sizeof(k->template_name), name);
    k->next = svc->known_modules;
    svc->known_modules = k;
    return k;
}

/* Names of modules have letters, digits, _ and . only: template_file.c has checked them. */
static int make_code(const char *modules, struct buf *ret, struct err *e)
{
    int r = buf_printf(ret,
                       "from importlib.util import find_spec\n"
                       "[n for n in '%s'.split() if find_spec(n.split('.')[0]) is not None]",
                       modules);

    return r < 0 ? err_sys(e, ENOMEM, "modules of a template") : 0;
}

/* NULL and *e on failure. */
static json_t *ask(struct service *svc, const char *name, const char *modules, struct err *e)
{
    AUTO_BUF struct buf code = BUF_INIT(CODE_MAX);
    struct husk_result *result = NULL;
    json_t *there = NULL;

    if (make_code(modules, &code, e) < 0) {
        return NULL;
    }
    const struct husk_spec spec = {
        .template_name = name,
        .kind = HUSK_CELL,
        .code = code.data,
        .code_len = code.len,
        .name = "<modules>",
        .no_pool = !engine_runs(svc->engine, name),
        .limits = {.timeout_ms = PROBE_MS},
    };
    if (engine_run(svc->engine, &spec, NULL, &result, e) < 0) {
        return NULL;
    }
    if (result->value_json != NULL) {
        there = json_loads(result->value_json, 0, NULL);
    }
    husk_result_free(result);
    if (!json_is_array(there)) {
        json_decref(there);
        err_set(e, ERR_TEMPLATE, "template %s: its Python does not say which modules it has", name);
        return NULL;
    }
    return there;
}

json_t *service_modules(struct service *svc, const char *name, const char *modules, struct err *e)
{
    const struct template_def *def = engine_template(svc->engine, name, e);
    struct known_modules *k;

    if (def == NULL) {
        return NULL;
    }
    uint64_t fingerprint = def->fingerprint;
    drop_old(svc);
    while ((k = find_known(svc, name, modules)) != NULL && k->asking) {
        (void)fiber_queue_wait(&svc->modules_line, -1);
    }
    if (k != NULL && k->there != NULL && k->fingerprint == fingerprint) {
        return json_incref(k->there);
    }
    k = k != NULL ? k : add_known(svc, name, modules);
    if (k == NULL) {
        err_sys(e, ENOMEM, "modules of template %s", name);
        return NULL;
    }
    k->asking = true;
    json_t *there = ask(svc, name, modules, e);
    json_decref(k->there);
    k->there = json_incref(there);
    k->fingerprint = fingerprint;
    k->asked_ms = clock_ms();
    k->asking = false;
    fiber_queue_wake_all(&svc->modules_line);
    return there;
}
