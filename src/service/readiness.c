/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a run would succeed now, and if not, why.
 *
 * The verdict on boxes is always that of a real run, an empty program with default limits: at the
 * start, in the first template that runs; later, when a box could not be made. That alone proves
 * little: the limits that were asked for may be too small for any box. While runs fail, one is
 * tried every second.
 *
 * Records need the disk. How much of it is free is looked at once a second, and a store that failed
 * is tried again.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/str.h"
#include "base/units.h"
#include "service/service_impl.h"

#define ROUND_MS 1000
#define TRY_TIMEOUT_MS 30000
#define DISK_LEAST MIB         /* a session, its cells and their results need some of it */
#define SMALL_TEMPLATE "shell" /* tried where no template is to be kept running */

/* ---- boxes ---- */

static int try_run(struct service *svc, const char *template_name, struct err *e)
{
    struct husk_limits asked = {.timeout_ms = TRY_TIMEOUT_MS};
    struct husk_spec spec = {.template_name = template_name,
                             .code = "",
                             .limits = service_limits(svc, template_name, &asked)};
    struct husk_result *result = NULL;

    if (engine_run(svc->engine, &spec, NULL, &result, e) < 0) {
        return -1;
    }
    int r =
        result->status == HUSK_COMPLETED
            ? 0
            : err_set(e, ERR_ISOLATION, "template %s: an empty program ended as %s: %s",
                      template_name, husk_status_name(result->status), result->termination.detail);
    husk_result_free(result);
    return r;
}

static void conclude(struct service *svc, const char *template_name, const struct err *failure)
{
    struct readiness *r = &svc->readiness;
    bool failed_before = r->is_known && r->failure.code != ERR_NONE;

    r->is_known = true;
    r->births_failed = engine_births_failed(svc->engine);
    if (failure == NULL) {
        r->failure.code = ERR_NONE;
        (void)str_copy(r->template_name, sizeof(r->template_name), template_name);
        if (failed_before) {
            log_info("boxes_work", "template=%s", template_name);
        }
    } else {
        if (!failed_before) {
            log_error("boxes_fail", "no sandbox can be made: %s", failure->msg);
        }
        r->failure = *failure;
    }
    fiber_queue_wake_all(&r->readied);
}

void readiness_opened(struct service *svc, const char *template_name, const struct err *failure)
{
    struct readiness *r = &svc->readiness;
    struct err e = {0};

    r->opening--;
    if (r->is_known && r->failure.code == ERR_NONE) {
        return;
    }
    if (failure == NULL && try_run(svc, template_name, &e) < 0) {
        failure = &e;
    }
    /* One template that fails says nothing about the others, which may still be starting. */
    if (failure == NULL || r->opening == 0) {
        conclude(svc, template_name, failure);
    }
}

/* Tries templates until a run succeeds: the one that worked last, then those kept running. */
static void try_again(struct service *svc)
{
    struct readiness *r = &svc->readiness;
    const struct config_list *preload = &svc->config->templates_preload;
    struct err e = {0};
    char name[sizeof(r->template_name)];

    (void)str_copy(name, sizeof(name),
                   r->template_name[0] != '\0' ? r->template_name
                   : preload->n > 0            ? preload->items[0]
                                               : SMALL_TEMPLATE);
    int done = try_run(svc, name, &e);
    for (size_t i = 0; done < 0 && i < preload->n; i++) {
        (void)str_copy(name, sizeof(name), preload->items[i]);
        done = try_run(svc, name, &e);
    }
    conclude(svc, name, done < 0 ? &e : NULL);
}

static void look_at_boxes(struct service *svc)
{
    struct readiness *r = &svc->readiness;
    bool doubtful = !r->is_known || r->failure.code != ERR_NONE ||
                    r->births_failed != engine_births_failed(svc->engine);

    if (doubtful && r->opening == 0 && !engine_is_lost(svc->engine)) {
        try_again(svc);
    }
}

/* ---- disk ---- */

static void look_at_disk(struct service *svc)
{
    char store[CONFIG_STORE_PATH_MAX];
    char why[sizeof(svc->readiness.disk)] = "";
    struct statvfs fs;
    struct err e = {0};

    if (config_store_path(svc->config, store, &e) < 0) {
        return; /* checked at the start */
    }
    if (statvfs(store, &fs) < 0) {
        (void)str_format(why, sizeof(why), "the data folder cannot be looked at: %s",
                         strerrordesc_np(errno));
    } else if ((uint64_t)fs.f_bavail * fs.f_frsize < DISK_LEAST) {
        (void)str_format(why, sizeof(why),
                         "the disk of the data folder is full: %" PRIu64 " KiB are free",
                         (uint64_t)fs.f_bavail * fs.f_frsize / KIB);
    }
    if (svc->store_fails && service_check_store(svc, &e) < 0 && why[0] == '\0') {
        (void)str_format(why, sizeof(why), "records cannot be written: %.100s", e.msg);
    }
    if ((why[0] == '\0') != (svc->readiness.disk[0] == '\0')) {
        if (why[0] != '\0') {
            log_error("disk_fails", "%s", why);
        } else {
            log_info("disk_works", "records can be written again");
        }
    }
    (void)str_copy(svc->readiness.disk, sizeof(svc->readiness.disk), why);
}

/* ---- the watcher ---- */

static void watch(void *user)
{
    struct service *svc = user;

    svc->readiness.watcher = fiber_self();
    while (!svc->closing) {
        look_at_disk(svc);
        if (!svc->closing) {
            look_at_boxes(svc);
        }
        if (!svc->closing) {
            (void)fiber_poll(NULL, 0, ROUND_MS);
        }
    }
    svc->readiness.watcher = NULL;
}

int service_watch(struct service *svc, struct err *e)
{
    int r = fiber_start(watch, svc);

    return r < 0 ? err_sys(e, -r, "start a fiber") : totals_start(svc, e);
}

/* ---- answers ---- */

bool service_is_starting(const struct service *svc)
{
    return !svc->readiness.is_known;
}

const char *service_boxes_fail(const struct service *svc)
{
    if (svc->closing) {
        return "the server is shutting down";
    }
    if (engine_is_lost(svc->engine)) {
        return "the launcher is gone";
    }
    if (!svc->readiness.is_known) {
        return "sandboxes are being prepared";
    }
    return svc->readiness.failure.code != ERR_NONE ? svc->readiness.failure.msg : NULL;
}

const char *service_disk_fails(const struct service *svc)
{
    return svc->readiness.disk[0] != '\0' ? svc->readiness.disk : NULL;
}

const char *service_fails(const struct service *svc)
{
    const char *boxes = service_boxes_fail(svc);

    return boxes != NULL ? boxes : service_disk_fails(svc);
}

const char *service_await_boxes(struct service *svc, int64_t timeout_ms)
{
    if (!svc->readiness.is_known && !svc->closing && !engine_is_lost(svc->engine)) {
        (void)fiber_queue_wait(&svc->readiness.readied, timeout_ms);
    }
    return service_boxes_fail(svc);
}
