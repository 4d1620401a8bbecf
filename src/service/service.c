/* SPDX-License-Identifier: Apache-2.0 */
/* The service: opening, closing, commits, one-shot runs; see service.h. */
#include "service/service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/units.h"
#include "service/service_impl.h"

#define STORE_PATIENCE_MS 10000
#define SAVE_PATIENCE_MS 20000  /* for all of them, at the end */
#define BOXES_PART 4            /* of daemon_memory: what is held for boxes */
#define ASLEEP_PART_OF_MEMORY 8 /* of daemon_memory: for runs that wait for something */
#define ASLEEP_BYTES 65536      /* of each: its fiber and the output of most */
#define ASLEEP_MOST 16384

const struct config *service_config(const struct service *svc)
{
    return svc->config;
}

struct engine *service_engine(struct service *svc)
{
    return svc->engine;
}

/* ---- commits ---- */

struct commit {
    struct fiber *fiber;
    bool done;
    struct store_result result;
};

static void on_committed(void *user, const struct store_result *r)
{
    struct commit *c = user;

    c->result = *r;
    c->done = true;
    fiber_wake(c->fiber);
}

int service_commit(struct service *svc, struct store_batch *batch, struct store_result *ret,
                   struct err *e)
{
    struct commit c = {.fiber = fiber_self()};

    if (batch == NULL) {
        return err_sys(e, ENOMEM, "record");
    }
    if (c.fiber == NULL) {
        return store_commit_wait(batch, ret, e);
    }
    if (store_commit(batch, on_committed, &c, e) < 0) {
        if (ret != NULL) {
            *ret = (struct store_result){.outcome = STORE_FAILED, .err = *e};
        }
        return -1;
    }
    while (!c.done) {
        (void)fiber_poll(NULL, 0, -1);
    }
    bool failed_before = svc->store_fails;
    svc->store_fails = c.result.outcome == STORE_FAILED && c.result.err.code == ERR_STORAGE;
    if (failed_before && !svc->store_fails) {
        fiber_queue_wake_all(&svc->store_works);
    }
    if (ret != NULL) {
        *ret = c.result;
    }
    if (c.result.outcome != STORE_DONE) {
        *e = c.result.err;
        return -1;
    }
    return 0;
}

struct reading {
    struct fiber *fiber;
    bool done;
};

static void on_read(void *user)
{
    struct reading *r = user;

    r->done = true;
    fiber_wake(r->fiber);
}

int service_read(struct service *svc, struct store_read *read, struct err *e)
{
    struct reading r = {.fiber = fiber_self()};

    read->done = on_read;
    read->user = &r; /* cppcheck-suppress autoVariables; until the end of this function */
    if (store_read(svc->store, read, e) < 0) {
        return -1;
    }
    while (!r.done) {
        (void)fiber_poll(NULL, 0, -1);
    }
    if (read->err.code != ERR_NONE) {
        *e = read->err;
        return -1;
    }
    return 0;
}

static void pump_store(void *user)
{
    struct service *svc = user;

    svc->store_pump = fiber_self();
    while (svc->store != NULL) {
        struct pollfd p = {.fd = store_fd(svc->store), .events = POLLIN};
        (void)fiber_poll(&p, 1, -1);
        if (svc->store != NULL) {
            store_dispatch(svc->store);
        }
    }
    svc->store_pump = NULL;
}

/* ---- life ---- */

static int open_engine(struct service *svc, const struct service_options *o, struct err *e)
{
    char templates[DATA_PATH_SIZE];
    struct engine_options options = {
        .template_dir = o->config->templates,
        .client_dir = templates,
        .min_isolation = (enum husk_isolation)o->config->min_isolation,
        .socket = o->launcher,
        .backend = o->backend,
    };

    data_folder_path(o->config, DATA_TEMPLATES, templates);
    return engine_open(&options, &svc->engine, e);
}

/* A daemon whose supervisor was killed writes its last records: it is waited for. */
static struct store *open_store(const struct store_options *options, struct err *e)
{
    uint64_t until = clock_ms() + STORE_PATIENCE_MS;
    struct store *store;

    while ((store = store_open(options, e)) == NULL && e->code == ERR_CONFLICT &&
           clock_ms() < until) {
        fiber_sleep(20);
    }
    return store;
}

/* A part of what the daemon may have: the rest is for its clients and records. */
static void set_budget(struct service *svc)
{
    engine_set_budget(svc->engine, svc->config->daemon_memory_bytes / BOXES_PART);
}

/* Runs that sleep cost memory, a fiber and output: as many as a part of ours has room for. */
static void resize_places(struct service *svc)
{
    const struct config *c = svc->config;
    size_t asleep = c->daemon_memory_bytes / ASLEEP_PART_OF_MEMORY / ASLEEP_BYTES;

    places_resize(&svc->places, c->max_executions, MIN(asleep, (size_t)ASLEEP_MOST),
                  c->queue_length);
}

void service_reconfigure(struct service *svc)
{
    resize_places(svc);
    pools_reconfigure(svc);
}

static int start(struct service *svc, const struct service_options *o, struct err *e)
{
    char dir[CONFIG_STORE_PATH_MAX];
    struct store_options store = {.dir = dir};

    if (config_store_path(o->config, dir, e) < 0 || data_make_folders(o->config, e) < 0) {
        int launcher = o->launcher;
        fd_close(&launcher);
        return -1;
    }
    FAULT_POINT("start.folders_made");
    if (open_engine(svc, o, e) < 0) {
        return -1;
    }
    set_budget(svc);
    FAULT_POINT("start.engine_open");
    svc->store = open_store(&store, e);
    if (svc->store == NULL) {
        return -1;
    }
    if (quota_open(svc, e) < 0) {
        return -1;
    }
    svc->figures.epoch = store_epoch(svc->store);
    resize_places(svc);
    FAULT_POINT("start.store_open");
    if (service_adopt(svc, e) < 0 || engine_serve(svc->engine, e) < 0) {
        return -1;
    }
    int r = fiber_start(pump_store, svc);
    if (r < 0) {
        return err_sys(e, -r, "start a fiber");
    }
    if (pools_start(svc, e) < 0 || reaper_start(svc, e) < 0) {
        return -1;
    }
    svc->is_open = true;
    fiber_queue_wake_all(&svc->opened);
    return 0;
}

/* Fibers of executions see `closing` and end; no new ones start. */
static void wait_for_fibers(struct service *svc)
{
    uint64_t until = clock_ms() + 5000;

    while ((svc->fibers > 0 || svc->reaper != NULL || svc->readiness.watcher != NULL ||
            svc->sampler != NULL) &&
           clock_ms() < until) {
        fiber_wake(svc->reaper);
        fiber_wake(svc->sampler);
        fiber_wake(svc->readiness.watcher);
        fiber_run();
        (void)poll(NULL, 0, 1);
    }
}

void service_close(struct service *svc)
{
    svc->closing = true;
    wait_for_fibers(svc);
    struct store *store = svc->store;
    svc->store = NULL;
    while (svc->store_pump != NULL) {
        fiber_wake(svc->store_pump);
        fiber_run();
    }
    engine_close(svc->engine);
    store_close(store);
    modules_forget(svc);
    free(svc);
}

int service_open(const struct service_options *options, struct service **ret, struct err *e)
{
    struct service *svc = calloc(1, sizeof(*svc));

    if (svc == NULL) {
        return err_sys(e, ENOMEM, "open the service");
    }
    svc->config = options->config;
    svc->on_launcher_lost = options->on_launcher_lost;
    svc->user = options->user;
    svc->figures.started_ms = clock_wall_ms();
    if (start(svc, options, e) < 0) {
        service_close(svc);
        return -1;
    }
    *ret = svc;
    return 0;
}

void service_save(struct service *svc, void (*on_progress)(void *user), void *user)
{
    /* Those in boxes of their own cannot be handed on. A lost launcher ends them as well. */
    if (svc->alone > 0) {
        (void)fiber_queue_wait(&svc->alone_ended, (int64_t)svc->config->drain_timeout_ms);
    }
    workspaces_save(svc, on_progress, user);
}

void service_leave(struct service *svc)
{
    /* No fiber runs any more: what is under way is found by the next daemon as after a crash. */
    store_close(TAKE_PTR(svc->store));
}

/*
 * No box has more memory than the machine, unless the operator's template says so; what has to fit
 * into the memory shrinks with it.
 */
static void cap_memory(struct husk_limits *l, const struct husk_limits *preset)
{
    uint64_t most = limits_machine_memory();
    uint64_t disk = l->disk_bytes != 0 ? l->disk_bytes : preset->disk_bytes;
    uint32_t inodes = l->inodes != 0 ? l->inodes : preset->inodes;

    if ((l->memory_bytes != 0 ? l->memory_bytes : preset->memory_bytes) <= most) {
        return;
    }
    l->memory_bytes = most;
    l->disk_bytes = MIN(disk, limits_disk_max(most));
    l->inodes = MIN(inodes, limits_inodes_max(most));
}

struct husk_limits service_limits(struct service *svc, const char *template_name,
                                  const struct husk_limits *asked)
{
    static const struct husk_limits none;
    const struct config *c = svc->config;
    struct husk_limits l = *asked;
    struct err ignored;

    const struct template_def *def =
        engine_template(svc->engine, template_name != NULL ? template_name : "python", &ignored);
    const struct husk_limits *preset = def != NULL ? &def->info.limits : &none;
    if (l.memory_bytes == 0 && preset->memory_bytes == 0) {
        l.memory_bytes = c->memory_bytes;
        /* The default of the disk follows the memory that is in force. */
        bool both = l.disk_bytes == 0 && preset->disk_bytes == 0;
        l.disk_bytes = both ? c->disk_bytes : l.disk_bytes;
    }
    if (l.cpu_milli == 0 && preset->cpu_milli == 0) {
        l.cpu_milli = (uint32_t)c->cpu_milli;
    }
    if (l.pids == 0 && preset->pids == 0) {
        l.pids = (uint32_t)c->pids;
    }
    if (def == NULL || def->most.memory_bytes == 0) {
        cap_memory(&l, preset);
    }
    return l;
}

/* ---- one-shot runs ---- */

static bool used_by_run(const void *user, uint64_t *ret_ns)
{
    const struct guest *const *guest = user;

    return *guest != NULL && guest_cpu_ns(*guest, ret_ns);
}

int service_run(struct service *svc, uint64_t client, const struct husk_spec *spec,
                struct husk_result **ret, struct run_fault *fault)
{
    const struct fair_key key = {{0, client, 0}}; /* one-shot runs of a client are like a session */
    const struct guest *guest = NULL;
    const struct run_hooks hooks = {.begun = &fault->begun, .guest = &guest};
    struct place place = {.used = used_by_run, .user = (const void *)&guest};
    struct husk_spec full = *spec;
    uint64_t came = clock_ns();

    *fault = (struct run_fault){.can_repeat = true}; /* its box is gone with all that it did */
    full.limits = service_limits(svc, spec->template_name, &spec->limits);
    int r = places_enter(&svc->places, &key, &place, (int64_t)svc->config->queue_timeout_ms, NULL,
                         &fault->err);
    fault->queue_ms = (double)(clock_ns() - came) / NS_PER_MS;
    if (r < 0) {
        return -1;
    }
    svc->figures.runs++;
    r = engine_run(svc->engine, &full, &hooks, ret, &fault->err);
    places_leave(&svc->places, &place);
    if (r == 0) {
        (*ret)->metrics.queue_ms += fault->queue_ms; /* the run knows only of its box */
        service_note_run(svc, *ret);
    }
    return r;
}

void service_figures(const struct service *svc, struct service_figures *ret)
{
    *ret = svc->figures;
    ret->sessions_live = table_sessions(svc);
    for (const struct session *s = svc->sessions; s != NULL; s = session_next(s)) {
        enum session_rest rest = session_rest(s);
        ret->sessions_parked += rest == REST_PARKED;
        ret->sessions_frozen += rest == REST_FROZEN;
    }
    ret->executions_running = places_taken(&svc->places);
    ret->executions_queued = svc->places.waiting;
    ret->data_bytes = svc->kept_bytes;
}
