/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of the server in Prometheus' text format 0.0.4. Reads counters that exist anyway; never
 * waits, and costs no box.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agents/agents.h"
#include "api/call/call_impl.h"
#include "api/contract/tables.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/histogram.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/units.h"
#include "core/core.h"
#include "service/state.h"

#define TEXT_MAX ((size_t)4 << 20)
#define POOLS_MAX 128

/* Failures to grow are seen once, at the end: *ok. */
struct page {
    struct buf text;
    bool ok;
};

#define PUT(page, ...) ((page)->ok = (page)->ok && buf_printf(&(page)->text, __VA_ARGS__) == 0)

static void head(struct page *p, const char *name, const char *type, const char *help)
{
    PUT(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void gauge(struct page *p, const char *name, double value, const char *help)
{
    head(p, name, "gauge", help);
    PUT(p, "%s %.17g\n", name, value);
}

static void counter(struct page *p, const char *name, uint64_t value, const char *help)
{
    head(p, name, "counter", help);
    PUT(p, "%s %" PRIu64 "\n", name, value);
}

/* label: "name=\"value\"", or "". */
static void put_histogram(struct page *p, const char *name, const char *label,
                          const double bounds[HISTOGRAM_BUCKETS], const struct histogram *h)
{
    const char *comma = label[0] != '\0' ? "," : "";
    const char *open = label[0] != '\0' ? "{" : "";
    const char *close = label[0] != '\0' ? "}" : "";
    uint64_t n = 0;

    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        n += h->counts[i];
        PUT(p, "%s_bucket{%s%sle=\"%.10g\"} %" PRIu64 "\n", name, label, comma, bounds[i], n);
    }
    n += h->counts[HISTOGRAM_BUCKETS];
    PUT(p, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, label, comma, n);
    PUT(p, "%s_sum%s%s%s %.9g\n", name, open, label, close, h->sum);
    PUT(p, "%s_count%s%s%s %" PRIu64 "\n", name, open, label, close, n);
}

/* ---- parts ---- */

/* The second number of statm, which counts pages. 0: not known. */
static uint64_t resident_bytes(void)
{
    char statm[128];
    uint64_t pages = 0;

    if (fd_read_file(AT_FDCWD, "/proc/self/statm", statm, sizeof(statm)) <= 0) {
        return 0;
    }
    char *second = statm + strcspn(statm, " ");
    second += *second == ' ' ? 1 : 0;
    second[strcspn(second, " ")] = '\0';
    return parse_u64(second, &pages) == 0 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* 0: not known. */
static uint64_t open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return n > 3 ? n - 3 : 0; /* ".", ".." and that of the folder itself */
}

static void put_process(struct page *p, const struct service_figures *f)
{
    struct rusage usage;

    head(p, "husk_build_info", "gauge", "The version, as a label.");
    PUT(p, "husk_build_info{version=\"%s\"} 1\n", HUSK_VERSION);
    gauge(p, "process_start_time_seconds", (double)f->started_ms / 1000.0,
          "When huskd started, in seconds since 1970.");
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        double seconds = (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
                         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
        head(p, "process_cpu_seconds_total", "counter", "Processor time of huskd.");
        PUT(p, "process_cpu_seconds_total %.6f\n", seconds);
    }
    uint64_t resident = resident_bytes();
    if (resident > 0) {
        gauge(p, "process_resident_memory_bytes", (double)resident, "Memory of huskd.");
    }
    struct rlimit files;
    gauge(p, "process_open_fds", (double)open_descriptors(), "Open descriptors of huskd.");
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        gauge(p, "process_max_fds", (double)files.rlim_cur, "Descriptors that huskd may open.");
    }
    gauge(p, "husk_fibers", (double)fiber_count(), "Calls and tasks in work.");
    gauge(p, "husk_epoch", (double)f->epoch,
          "How often this data directory has been started with.");
    gauge(p, "husk_boxes_readopted", (double)f->readopted,
          "Sandboxes taken over from the daemon before.");
}

static void put_work(struct page *p, const struct service_figures *f)
{
    counter(p, "husk_sessions_created_total", f->sessions_created, "Sessions made.");
    head(p, "husk_sessions", "gauge", "Sessions that have not ended.");
    PUT(p, "husk_sessions{status=\"running\"} %" PRIu64 "\n", f->sessions_live);
    head(p, "husk_sessions_resting", "gauge", "Of these: idle ones that wait for their next use.");
    PUT(p, "husk_sessions_resting{state=\"parked\"} %" PRIu64 "\n", f->sessions_parked);
    PUT(p, "husk_sessions_resting{state=\"frozen\"} %" PRIu64 "\n", f->sessions_frozen);
    counter(p, "husk_executions_started_total", f->executions_started, "Executions accepted.");
    head(p, "husk_executions", "gauge", "Executions that have not ended.");
    PUT(p, "husk_executions{status=\"%s\"} %" PRIu64 "\n", execution_state_word(EXECUTION_RUNNING),
        f->executions_running);
    PUT(p, "husk_executions{status=\"%s\"} %" PRIu64 "\n", execution_state_word(EXECUTION_PENDING),
        f->executions_queued);
    head(p, "husk_executions_ended_total", "counter", "Executions by how they ended.");
    for (int i = 0; i < EXECUTION_STATES; i++) {
        if (execution_state_is_final(i)) {
            PUT(p, "husk_executions_ended_total{status=\"%s\"} %" PRIu64 "\n",
                execution_state_word(i), f->executions_ended[i]);
        }
    }
    counter(p, "husk_runs_total", f->runs, "Runs without a session.");
}

static void put_runs(struct page *p, const struct service_figures *f)
{
    head(p, "husk_run_seconds", "histogram", "Runs and executions: from code to result.");
    put_histogram(p, "husk_run_seconds", "", histogram_seconds, &f->run_seconds);
    head(p, "husk_run_queue_seconds", "histogram",
         "Before that: waiting for a turn and a sandbox.");
    put_histogram(p, "husk_run_queue_seconds", "", histogram_seconds, &f->queue_seconds);
    head(p, "husk_run_memory_peak_bytes", "histogram", "Most memory of each, files included.");
    put_histogram(p, "husk_run_memory_peak_bytes", "", histogram_bytes, &f->run_memory);
    head(p, "husk_run_ends_total", "counter", "Runs and executions by the cause of their end.");
    for (int i = 0; i < (int)ARRAY_LEN(f->causes); i++) {
        PUT(p, "husk_run_ends_total{cause=\"%s\"} %" PRIu64 "\n", husk_cause_name(i), f->causes[i]);
    }
}

static void put_boxes(struct page *p, const struct service *service)
{
    struct box_totals t;

    service_totals(service, &t);
    head(p, "husk_boxes", "gauge", "Sandboxes now.");
    PUT(p, "husk_boxes{state=\"running\"} %" PRIu64 "\n", t.running);
    PUT(p, "husk_boxes{state=\"parked\"} %" PRIu64 "\n", t.parked);
    gauge(p, "husk_boxes_memory_limit_bytes", (double)t.memory_limit_bytes,
          "Memory that these sandboxes may use.");
    gauge(p, "husk_boxes_memory_bytes", (double)t.memory_bytes,
          "Memory that sandboxes and zygotes use, a few seconds ago.");
    gauge(p, "husk_boxes_processes", (double)t.processes, "Their processes and threads, likewise.");
    head(p, "husk_boxes_cpu_seconds_total", "counter",
         "Processor time of sandboxes and zygotes since the launcher started, likewise.");
    PUT(p, "husk_boxes_cpu_seconds_total %.6f\n", (double)t.cpu_ns / NS_PER_SEC);
}

static void put_limits(struct page *p, const struct config *c)
{
    head(p, "husk_limit", "gauge", "Settings that bound the server, by name.");
    PUT(p, "husk_limit{setting=\"max_sessions\"} %" PRIu64 "\n", (uint64_t)c->max_sessions);
    PUT(p, "husk_limit{setting=\"max_executions\"} %" PRIu64 "\n", (uint64_t)c->max_executions);
    PUT(p, "husk_limit{setting=\"queue_length\"} %" PRIu64 "\n", (uint64_t)c->queue_length);
    PUT(p, "husk_limit{setting=\"max_connections\"} %" PRIu64 "\n", (uint64_t)c->max_connections);
    PUT(p, "husk_limit{setting=\"max_connections_per_address\"} %" PRIu64 "\n",
        (uint64_t)c->max_connections_per_address);
    PUT(p, "husk_limit{setting=\"session_quota\"} %" PRIu64 "\n", c->session_quota_bytes);
    PUT(p, "husk_limit{setting=\"data_quota\"} %" PRIu64 "\n", c->data_quota_bytes);
    PUT(p, "husk_limit{setting=\"daemon_memory\"} %" PRIu64 "\n", c->daemon_memory_bytes);
}

/* Pools that no label tells apart count as one: a sample may stand only once. */
static size_t merge_pools(struct engine_pool *pools, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        struct engine_pool *same = NULL;
        for (size_t k = 0; k < kept && same == NULL; k++) {
            bool is_same = pools[k].persistent == pools[i].persistent &&
                           pools[k].memory_bytes == pools[i].memory_bytes &&
                           str_eq(pools[k].template_name, pools[i].template_name);
            same = is_same ? &pools[k] : NULL;
        }
        if (same == NULL) {
            pools[kept++] = pools[i];
            continue;
        }
        same->parked += pools[i].parked;
        same->starting += pools[i].starting;
        same->target += pools[i].target;
        same->hits += pools[i].hits;
        same->misses += pools[i].misses;
        same->dead += pools[i].dead;
    }
    return kept;
}

/* One sample of a pool; `more` is another label behind a comma, or "". */
static void put_pool(struct page *p, const char *name, const struct engine_pool *pool,
                     const char *more, uint64_t value)
{
    PUT(p, "%s{template=\"%s\",use=\"%s\",memory_mb=\"%" PRIu64 "\"%s} %" PRIu64 "\n", name,
        pool->template_name, pool->persistent ? "persistent" : "ephemeral",
        pool->memory_bytes >> 20, more, value);
}

static void put_pools(struct page *p, struct service *service)
{
    struct engine_pool pools[POOLS_MAX];
    size_t n = merge_pools(
        pools, MIN(engine_pools(service_engine(service), pools, POOLS_MAX), (size_t)POOLS_MAX));

    head(p, "husk_pool_boxes", "gauge", "Sandboxes kept ready, by template, use, size and state.");
    for (size_t i = 0; i < n; i++) {
        put_pool(p, "husk_pool_boxes", &pools[i], ",state=\"parked\"", pools[i].parked);
        put_pool(p, "husk_pool_boxes", &pools[i], ",state=\"starting\"", pools[i].starting);
    }
    head(p, "husk_pool_target", "gauge", "How many sandboxes demand calls for.");
    for (size_t i = 0; i < n; i++) {
        put_pool(p, "husk_pool_target", &pools[i], "", pools[i].target);
    }
    head(p, "husk_pool_takes_total", "counter", "Sandboxes asked for: found ready, or not.");
    for (size_t i = 0; i < n; i++) {
        put_pool(p, "husk_pool_takes_total", &pools[i], ",found=\"yes\"", pools[i].hits);
        put_pool(p, "husk_pool_takes_total", &pools[i], ",found=\"no\"", pools[i].misses);
    }
    head(p, "husk_pool_dead_total", "counter", "Parked sandboxes found dead and replaced.");
    for (size_t i = 0; i < n; i++) {
        put_pool(p, "husk_pool_dead_total", &pools[i], "", pools[i].dead);
    }
}

static void put_store(struct page *p, struct service *service)
{
    struct service_store_figures s;

    service_store_figures(service, &s);
    counter(p, "husk_store_batches_total", s.batches, "Changes made durable.");
    counter(p, "husk_store_failed_total", s.failed, "Changes that were not.");
    counter(p, "husk_store_transactions_total", s.transactions, "Transactions, one sync each.");
    counter(p, "husk_store_reopened_total", s.reopened, "Connections replaced after a failure.");
    counter(p, "husk_store_checkpoints_total", s.checkpoints, "Checkpoints of the log.");
    gauge(p, "husk_store_wal_pages", (double)s.wal_pages, "Pages in the log.");
    gauge(p, "husk_store_queued", (double)s.queued, "Changes that wait.");
}

static void put_data(struct page *p, const struct service *service, const struct service_figures *f)
{
    const struct config *c = service_config(service);
    char store[CONFIG_STORE_PATH_MAX];
    struct statvfs fs;
    struct err ignored;

    if (config_store_path(c, store, &ignored) == 0 && statvfs(store, &fs) == 0) {
        gauge(p, "husk_disk_free_bytes", (double)fs.f_bavail * (double)fs.f_frsize,
              "Free on the disk of the data directory.");
        gauge(p, "husk_disk_bytes", (double)fs.f_blocks * (double)fs.f_frsize, "Its size.");
    }
    gauge(p, "husk_workspaces_unsaved", (double)service_unsaved(service),
          "Live sessions whose files have changed since their last copy.");
    gauge(p, "husk_data_bytes", (double)f->data_bytes, "Kept of sessions in the data directory.");
    gauge(p, "husk_data_quota_bytes", (double)c->data_quota_bytes, "The most that may be.");
}

static void put_http(struct page *p, const struct http_server *server)
{
    if (server == NULL) {
        return;
    }
    struct http_stats s = http_server_stats(server);
    counter(p, "husk_http_connections_total", s.accepted, "Connections accepted.");
    counter(p, "husk_http_requests_total", s.requests, "Requests with a proper head.");
    counter(p, "husk_http_refused_total", s.refused, "Requests refused before a handler saw them.");
    counter(p, "husk_http_timeouts_total", s.timeouts, "Connections ended by a time limit.");
    counter(p, "husk_http_over_limit_total", s.over_limit, "Connections beyond a limit.");
    counter(p, "husk_http_evicted_total", s.evicted, "Idle connections closed for other clients.");
    counter(p, "husk_http_accept_pauses_total", s.accept_pauses, "Times that descriptors ran out.");
    gauge(p, "husk_http_connections", (double)s.open, "Connections now.");
    gauge(p, "husk_http_connections_busy", (double)s.busy, "Of these, with a request in work.");
}

static void put_answers(struct page *p, const struct api *api)
{
    head(p, "husk_api_answers_total", "counter", "Answers by operation and class of status.");
    for (unsigned op = 0; op <= API_OPS; op++) {
        for (unsigned class = 1; class < 6; class ++) {
            if (api->tally[op].answers[class] > 0) {
                PUT(p, "husk_api_answers_total{operation=\"%s\",class=\"%uxx\"} %" PRIu64 "\n",
                    op < API_OPS ? api_op_infos[op].id : "none", class,
                    api->tally[op].answers[class]);
            }
        }
    }
    head(p, "husk_api_request_seconds", "histogram",
         "Time from request to the start of its answer.");
    for (unsigned op = 0; op <= API_OPS; op++) {
        char label[96];
        (void)str_format(label, sizeof(label), "operation=\"%s\"",
                         op < API_OPS ? api_op_infos[op].id : "none");
        if (histogram_count(&api->tally[op].seconds) > 0) {
            put_histogram(p, "husk_api_request_seconds", label, histogram_seconds,
                          &api->tally[op].seconds);
        }
    }
}

static void put_agents(struct page *p, struct agents *agents)
{
    static const struct {
        const char *name;
        const char *type;
        const char *help;
    } rows[] = {
        {"husk_agent_ready", "gauge", "Workers that are ready."},
        {"husk_agent_in_flight", "gauge", "Requests that workers have."},
        {"husk_agent_queued", "gauge", "Requests that wait for a worker."},
        {"husk_agent_requests_total", "counter", "Requests to the agent."},
        {"husk_agent_errors_total", "counter", "Of these, failed by the agent or its worker."},
        {"husk_agent_restarts_total", "counter", "Workers that were replaced."},
    };
    size_t n = agents != NULL ? agents_plan_of(agents)->n_agents : 0;

    for (size_t row = 0; row < ARRAY_LEN(rows) && n > 0; row++) {
        head(p, rows[row].name, rows[row].type, rows[row].help);
        for (size_t i = 0; i < n; i++) {
            struct agent *agent = agents_at(agents, i);
            struct agent_figures f;
            agent_figures(agent, &f);
            const uint64_t values[ARRAY_LEN(rows)] = {f.ready,    f.in_flight, f.queued,
                                                      f.requests, f.errors,    f.restarts};
            PUT(p, "%s{agent=\"%s\"} %" PRIu64 "\n", rows[row].name, agent_plan_of(agent)->name,
                values[row]);
        }
    }
}

void api_metrics(struct api_call *call)
{
    struct page p = {.text = BUF_INIT(TEXT_MAX), .ok = true};
    struct service *service = call_service(call);
    struct service_figures figures;

    service_figures(service, &figures);
    gauge(&p, "husk_ready", service_fails(service) == NULL ? 1 : 0,
          "1 if a run and a new session would succeed now.");
    gauge(&p, "husk_uptime_seconds", (double)(clock_ns() - call->api->start_ns) / NS_PER_SEC,
          "Since the start.");
    put_process(&p, &figures);
    put_work(&p, &figures);
    put_runs(&p, &figures);
    put_boxes(&p, service);
    put_limits(&p, service_config(service));
    put_data(&p, service, &figures);
    put_pools(&p, service);
    put_store(&p, service);
    put_http(&p, call->api->server);
    put_answers(&p, call->api);
    put_agents(&p, call->api->agents);
    if (p.ok) {
        call_reply_text(call, 200, "text/plain; version=0.0.4; charset=utf-8", p.text.data,
                        p.text.len);
    } else {
        call_reply_error(call, 503, NULL, NULL, "no memory for the figures", NULL);
    }
    buf_release(&p.text);
}
