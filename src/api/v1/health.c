/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the server is, and which one it is. The short forms say what service/readiness.c found last;
 * the long one looks at each part.
 */
#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "api/call/call_impl.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/units.h"
#include "config/config.h"
#include "core/core.h"

/* Last: its MIN and MAX clash with those of base/attr.h unless they come after. */
#include <uv.h>

#define CONTRACT_VERSION "1" /* info.version in api/openapi.yaml */
#define DISK_LOW ((uint64_t)256 << 20)
#define QUOTA_LOW_PERCENT 90
#define POOLS_MAX 128

/* ---- short forms ---- */

static double uptime(const struct api_call *call)
{
    uint64_t ms = (clock_ns() - call->api->start_ns) / NS_PER_MS;

    return (double)ms / 1000.0;
}

static const char *status_word(const struct api_call *call, const char *reason)
{
    if (reason == NULL) {
        return "healthy";
    }
    return service_is_starting(call_service(call)) ? "starting" : "unhealthy";
}

static void reply_health(struct api_call *call, const char *status, const char *reason)
{
    call_reply_json(call, reason == NULL ? 200 : 503,
                    json_pack("{s:s, s:s, s:f, s:s?}", "status", status, "version", HUSK_VERSION,
                              "uptime", uptime(call), "reason", reason));
}

void api_v1_health(struct api_call *call)
{
    const char *reason = service_fails(call_service(call));

    reply_health(call, status_word(call, reason), reason);
}

void api_v1_health_ready(struct api_call *call)
{
    api_v1_health(call);
}

void api_v1_health_live(struct api_call *call)
{
    reply_health(call, "healthy", NULL);
}

/* ---- each part ---- */

static json_t *part(const char *status, const char *detail, uint64_t since_ns)
{
    uint64_t us = (clock_ns() - since_ns) / 1000;

    json_t *value = json_pack("{s:s, s:s}", "status", status, "detail", detail);
    if (since_ns != 0) {
        json_object_set_new(value, "latency_ms", json_real((double)us / 1000.0));
    }
    return value;
}

static json_t *store_part(struct service *service, bool *ret_ok)
{
    uint64_t start = clock_ns();
    struct err ignored;

    *ret_ok = service_check_store(service, &ignored) == 0;
    return part(*ret_ok ? "healthy" : "unhealthy", *ret_ok ? "written and synced" : "cannot write",
                start);
}

static json_t *disk_part(struct service *service)
{
    const struct config *config = service_config(service);
    char store[CONFIG_STORE_PATH_MAX];
    struct service_figures figures;
    struct statvfs fs;
    struct err ignored;
    char detail[128];

    if (config_store_path(config, store, &ignored) < 0 || statvfs(store, &fs) < 0) {
        return part("unhealthy", "the data directory cannot be looked at", 0);
    }
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    service_figures(service, &figures);
    (void)str_format(detail, sizeof(detail),
                     "%" PRIu64 " MiB free of %" PRIu64 " MiB; %" PRIu64 " MiB kept of %" PRIu64
                     " MiB (data_quota)",
                     free_bytes >> 20, ((uint64_t)fs.f_blocks * fs.f_frsize) >> 20,
                     figures.data_bytes >> 20, config->data_quota_bytes >> 20);
    bool is_low = free_bytes < DISK_LOW ||
                  figures.data_bytes > config->data_quota_bytes / 100 * QUOTA_LOW_PERCENT;
    const char *status = is_low ? "degraded" : "healthy";
    return part(service_disk_fails(service) != NULL ? "unhealthy" : status, detail, 0);
}

static json_t *pool_part(struct service *service)
{
    struct engine_pool pools[POOLS_MAX];
    size_t n = MIN(engine_pools(service_engine(service), pools, POOLS_MAX), (size_t)POOLS_MAX);
    uint32_t parked = 0;
    uint32_t wanted = 0;
    char detail[96];

    for (size_t i = 0; i < n; i++) {
        parked += pools[i].parked;
        wanted += pools[i].min;
    }
    (void)str_format(detail, sizeof(detail), "%u sandboxes ready in %zu pools", parked, n);
    return part(parked == 0 && wanted > 0 ? "degraded" : "healthy", detail, 0);
}

void api_v1_health_detailed(struct api_call *call)
{
    struct service *service = call_service(call);
    bool store_ok;

    json_t *store = store_part(service, &store_ok);
    const char *reason = service_fails(service);
    const char *boxes = service_boxes_fail(service);
    bool ok = reason == NULL && store_ok;
    json_t *engine = part(boxes == NULL ? "healthy" : "unhealthy",
                          boxes == NULL ? "the last run that was tried succeeded" : boxes, 0);
    const char *status = ok || reason != NULL ? status_word(call, reason) : "unhealthy";
    call_reply_json(call, ok ? 200 : 503,
                    json_pack("{s:s, s:s, s:f, s:{s:o, s:o, s:o, s:o}}", "status", status,
                              "version", HUSK_VERSION, "uptime", uptime(call), "components",
                              "engine", engine, "store", store, "pool", pool_part(service), "disk",
                              disk_part(service)));
}

void api_v1_version(struct api_call *call)
{
    call_reply_json(call, 200,
                    json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}}", "name", "husk", "version",
                              HUSK_VERSION, "api", CONTRACT_VERSION, "libraries", "jansson",
                              jansson_version_str(), "libuv", uv_version_string(), "openssl",
                              OpenSSL_version(OPENSSL_VERSION_STRING)));
}
