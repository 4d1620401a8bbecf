/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's one door for the other layers: engines, templates, pools, runs, notebooks and what
 * an earlier process left. They may also include box_files.h, template.h, template_fill.h,
 * result_parts.h and paths.h; all other headers in core/ are private to it. Programs outside this
 * tree use include/husk/husk.h.
 *
 * A run uses one box once. A notebook is one box that runs many cells in contexts, which are live
 * interpreters. Handles are opaque and belong to one thread. Functions that wait say so: in a fiber
 * (base/fiber.h) other fibers run meanwhile, outside one they block.
 *
 * Functions return 0, or -1 with *e. What the boxed program did is never an error: it is in the
 * result.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "core/template.h"
#include "husk/husk.h"

struct backend;
struct engine;
struct notebook;
struct cell;

/* ---- engine ---- */

struct engine_options {
    const char *launcher;     /* path of husk-launcher; NULL: beside the running program */
    const char *template_dir; /* the operator's templates; NULL: the default */
    const char *client_dir;   /* templates that clients of a server made; NULL: none */
    enum husk_isolation min_isolation;
    int socket; /* > 0: of a supervised launcher, taken. 0: a launcher of our own is started */
    struct backend *backend; /* another back end than a launcher, taken; NULL: none */
};

int engine_open(const struct engine_options *options, struct engine **ret, struct err *e);
/* Kills every box, unless a supervised launcher keeps it. Not in a fiber. NULL is fine. */
void engine_close(struct engine *engine);

/*
 * From now on fibers use the engine: one takes the launcher's events, one refills pools, one tears
 * used boxes down.
 */
int engine_serve(struct engine *engine, struct err *e);

bool engine_is_lost(const struct engine *engine); /* its launcher is gone, and every box with it */
int engine_lost(struct err *e);                   /* -1 and the error of such an engine */

/* Memory that may be held for all boxes together (budget.h); 0: no bound. */
void engine_set_budget(struct engine *engine, uint64_t bytes);

bool engine_can_freeze(const struct engine *engine); /* boxes of notebooks, on this host */

/* NULL: this host enforces full isolation; else the layers that it lacks, comma-separated. */
const char *engine_missing(const struct engine *engine);

/* Frees cgroups for a launcher that the caller starts. An engine does it by itself. */
void engine_make_room(void);

/* ---- limits ---- */

/* Between limits of the public header and those that cross process borders: the same fields. */
struct limits engine_limits_import(const struct husk_limits *from);

/* ERR_INVALID: a box of that template cannot have these limits. 0 means the template's. */
int engine_check_limits(struct engine *engine, const char *template_name,
                        const struct husk_limits *asked, struct err *e);

/* ---- templates ---- */

/* Where its templates are, for template.h. Borrowed from the engine. */
const struct template_dirs *engine_dirs(const struct engine *engine);

/* The definition in force. Borrowed until the next wait; NULL and *e: there is none. */
const struct template_def *engine_template(struct engine *engine, const char *name, struct err *e);

/* Its zygote runs, with its preloads. */
bool engine_runs(const struct engine *engine, const char *name);

/*
 * Which preloads its boxes do without, and why: "NAME: REASON; ...". "": none, or it does not run.
 */
const char *engine_note(const struct engine *engine, const char *name);

/* "python", ...; NULL: there is no such template. Does not open it. */
const char *engine_language(const struct engine *engine, const char *name);

/* How many boxes a template may need at a time, beside those of its pools; 0: a few. */
void engine_set_boxes(struct engine *engine, uint64_t boxes);
/* Starts its zygote, unless it runs. Waits. */
int engine_start_template(struct engine *engine, const char *name, struct err *e);

/* Its definition has changed: boxes of the old one live on, new ones get another zygote. */
void engine_retire_template(struct engine *engine, const char *name);

/* Ends one zygote that was retired and has no boxes left. Called every second. Waits. */
void engine_sweep_templates(struct engine *engine);

struct zygote_policy {
    uint64_t max_age_ms;
    uint64_t max_boxes;
    /* The zygote of that template was replaced, or (e != NULL) could not be. */
    void (*on_replaced)(void *user, const char *template_name, uint64_t boxes, const struct err *e);
    void *user;
};
/*
 * Replaces one zygote that is over its age or number of boxes, or whose definition has changed, in
 * a fiber. Called every second.
 */
void engine_rotate_zygotes(struct engine *engine, const struct zygote_policy *policy);

/* ---- pools: boxes that wait for their one use ---- */

#define KEEP_TAG_MAX 65       /* what a notebook is kept under, with its NUL */
#define ENGINE_BOXES_MAX 4096 /* the launcher's own bound: box ids modulo this are unique */

struct pool_plan {
    const char *template_name;
    bool persistent;           /* boxes of notebooks, or of one-shot runs */
    struct husk_limits limits; /* of its boxes; 0: the template's */
    uint32_t min;              /* never fewer, */
    uint32_t max;              /* nor more */
};
/* Keeps such a pool from now on. Its template's zygote must have been started. */
int engine_keep_pool(struct engine *engine, const struct pool_plan *plan, struct err *e);

/* Each box that no pool has makes one of at most so many. 0: none. */
void engine_set_adaptive(struct engine *engine, uint32_t max);

/* No pool is kept any longer unless engine_keep_pool() asks for it again; none exceeds max. */
void engine_unkeep_pools(struct engine *engine, uint32_t max);

/* Sizes pools by the demand since the last call; one without demand shrinks after idle_rounds. */
void engine_adjust_pools(struct engine *engine, uint64_t idle_rounds);

struct engine_pool {
    char template_name[64];
    bool persistent;
    uint32_t min, max, target;
    uint32_t parked, starting;
    uint64_t hits, misses, dead;
    uint64_t memory_bytes; /* of its boxes: each size has a pool of its own */
};
size_t engine_pools(const struct engine *engine, struct engine_pool *ret, size_t max);

struct engine_box {
    uint64_t id; /* no other box of this server has had it, also not with an earlier launcher */
    char template_name[64];
    char used_by[KEEP_TAG_MAX]; /* the tag of its notebook or run; "": none */
    const char *state;          /* "starting", "parked", "running" */
    int64_t created_ms;
    struct husk_limits limits;
};
size_t engine_boxes(const struct engine *engine, struct engine_box *ret, size_t max);
/* What is enforced around one that is in use. False: there is none such. */
bool engine_box_receipt(const struct engine *engine, uint64_t id, struct husk_receipt *ret);

/* What all boxes are together. */
struct box_totals {
    uint64_t cpu_ns;             /* of boxes and zygotes, as of the last engine_totals() */
    uint64_t memory_bytes;       /* that they use */
    uint64_t processes;          /* and threads */
    uint64_t running, parked;    /* boxes now */
    uint64_t memory_limit_bytes; /* that those may use */
};
/* The first three; asks the launcher. Waits. */
int engine_totals(struct engine *engine, struct box_totals *ret, struct err *e);
void engine_count_boxes(const struct engine *engine, struct box_totals *ret); /* the others */

/*
 * How many boxes could not be made so far, for whatever reason: a change is the cue to try whether
 * any can be.
 */
uint64_t engine_births_failed(const struct engine *engine);

/* The fixed pool of a template's one-shot boxes. */
int engine_pool_set(struct engine *engine, const char *template_name,
                    const struct husk_limits *limits, uint32_t min, uint32_t max, struct err *e);
int engine_pool_wait(struct engine *engine, const char *template_name, uint32_t parked,
                     struct err *e);
int engine_pool_stats(struct engine *engine, const char *template_name, struct husk_pool_stats *ret,
                      struct err *e);

/* ---- runs ---- */

/* What a server needs beside the spec; all may be NULL. */
struct guest;

struct run_hooks {
    const bool *cancel; /* the run is cancelled when this is true and its fiber is woken */
    /*
     * Takes output off a pipe in place of read(2), and returns as that does: for a caller that may
     * be killed and must not lose what has left the pipe and is not on its disk yet.
     */
    ssize_t (*read_output)(void *user, enum husk_stream stream, int pipe, char *buf, size_t size);
    /* engine_run(): what its box is listed under (or NULL), and each box that it gets. */
    const char *tag;
    void (*on_box)(void *user, uint64_t box_id);
    /* Called with the frame of each display, after it was checked. */
    void (*on_display)(void *user, const char *frame, size_t n);
    /* engine_run() only: when it fails, whether code of the user may have run all the same. */
    bool *begun;
    void *user;
    /* engine_run() puts its box here while the run goes on, NULL before and after; NULL is fine. */
    const struct guest **guest;
};

/* hooks: NULL is fine. Waits. */
int engine_run(struct engine *engine, const struct husk_spec *spec, const struct run_hooks *hooks,
               struct husk_result **ret, struct err *e);

/* The processor time that a box has used so far. False: it has no counters here. Never waits. */
bool guest_cpu_ns(const struct guest *g, uint64_t *ret);

/* ---- notebooks ---- */

bool notebook_cpu_ns(const struct notebook *nb, uint64_t *ret); /* as guest_cpu_ns() */

struct notebook_options {
    int language;      /* of its first context, an enum husk_language; -1: the template's */
    bool is_freezable; /* notebook_freeze() will work */
};
/* Uses template_name, limits and no_pool of the spec. Waits. */
int notebook_open(struct engine *engine, const struct husk_spec *spec,
                  const struct notebook_options *options, struct notebook **ret, struct err *e);
void notebook_close(struct notebook *nb); /* ends its box; NULL is fine */

bool notebook_has_ended(const struct notebook *nb); /* its box has */
/* No cell can run: its box has ended, or its first context could not be made again. */
bool notebook_is_dead(const struct notebook *nb);
void notebook_kill(struct notebook *nb); /* its end follows */
/*
 * After a request that failed: 0 once the box has ended, if it has begun to, or -1: it lives, *e is
 * left alone. Waits.
 */
int notebook_await_end(struct notebook *nb, int64_t timeout_ms, struct err *e);
/*
 * Ends the box if a context that runs no cell, or the first process, has begun a frame and not
 * finished it in time. True: it did.
 */
bool notebook_end_overdue(struct notebook *nb);

/* Stops every process of its box, or lets them go on. Memory stays. Waits. */
int notebook_freeze(struct notebook *nb, bool on, struct err *e);
bool notebook_is_frozen(const struct notebook *nb);
bool notebook_is_freezable(const struct notebook *nb);
/* Of one that was not opened as such: fails if it has more than its first process. Waits. */
int notebook_make_freezable(struct notebook *nb, struct err *e);

uint64_t notebook_box_id(const struct notebook *nb); /* as engine_box.id */
const struct limits *notebook_limits(const struct notebook *nb);
void notebook_receipt(const struct notebook *nb, struct husk_receipt *ret);

struct box_usage {
    uint32_t box_id; /* 0: there is no box now, nor anything else here */
    double cpu_time_ms;
    double memory_mb;
    double peak_memory_mb;
    uint64_t io_read_bytes;
    uint64_t io_write_bytes;
    uint32_t processes;
    uint64_t disk_used_bytes; /* UINT64_MAX: not known */
};
int notebook_usage(struct notebook *nb, struct box_usage *ret, struct err *e); /* waits */

/* ---- contexts; 0 is the first one ---- */

bool notebook_has_context(const struct notebook *nb, uint32_t id);
bool notebook_is_checkpoint(const struct notebook *nb, uint32_t id);
/* ERR_NOT_FOUND: there is no such context, or (checkpoint) no such checkpoint. */
int notebook_check_context(const struct notebook *nb, uint32_t id, bool checkpoint, struct err *e);

/* SIGINT for whatever runs in it. One that does nothing ignores it. */
void notebook_interrupt_idly(struct notebook *nb, uint32_t id);
/*
 * SIGINT for the cell that was sent to it. *ret_hit: false if PID 1 of the box says that the cell
 * was over, or says nothing. Waits.
 */
int notebook_interrupt(struct notebook *nb, uint32_t id, bool *ret_hit, struct err *e);
int notebook_reset(struct notebook *nb, uint32_t id, struct err *e);                     /* waits */
int notebook_checkpoint(struct notebook *nb, uint32_t id, uint32_t *ret, struct err *e); /* waits */
int notebook_branch(struct notebook *nb, uint32_t id, uint32_t *ret, struct err *e);     /* waits */
int notebook_restore(struct notebook *nb, uint32_t id, uint32_t checkpoint, struct err *e);

enum husk_language notebook_language(const struct notebook *nb, uint32_t id);
bool notebook_is_command(const struct notebook *nb, uint32_t id);
/* The first context of that language. False: there is none. */
bool notebook_find_language(const struct notebook *nb, enum husk_language language, uint32_t *ret);

/* A context with nothing in it, beside the others. ERR_CONFLICT: the box lacks the language. Waits.
 */
int notebook_new_context(struct notebook *nb, enum husk_language language, uint32_t *ret,
                         struct err *e);
/* One for a single shell command; and its end. Waits. */
int notebook_command_context(struct notebook *nb, uint32_t *ret, struct err *e);
void notebook_end_context(struct notebook *nb, uint32_t id);

/* ---- cells ---- */

/* What a cell is known by to a later process (below). */
struct cell_keeping {
    const char *tag;
    bool has_own_context; /* the context ends with the cell */
};

/*
 * keep: a supervised launcher holds the cell from before its first byte is sent; NULL: it does not.
 * NULL and *e: it was not started. hooks: NULL is fine; both are borrowed until the cell's end.
 */
struct cell *cell_start(struct notebook *nb, uint32_t context, const struct husk_spec *spec,
                        const struct run_hooks *hooks, const struct cell_keeping *keep,
                        struct err *e);
void cell_interrupt(struct cell *c); /* SIGINT */
/*
 * Waits for its end; *ret is the result, or NULL: it is a kept one, and the earlier process never
 * sent it. Then, or instead, cell_release().
 */
int cell_finish(struct cell *c, struct husk_result **ret, struct err *e);
void cell_release(struct cell *c); /* NULL is fine */

int notebook_run(struct notebook *nb, uint32_t context, const struct husk_spec *spec,
                 const struct run_hooks *hooks, struct husk_result **ret,
                 struct err *e); /* waits */

/* ---- what outlives this process: a supervised launcher keeps it for the next one ---- */

#define KEEP_CELL_TAG_MAX 33
#define KEEP_TOKEN_SIZE 16

void notebook_keep(struct notebook *nb, const char *tag);
void notebook_drop_cell(struct notebook *nb, uint32_t context); /* once its result is recorded */

/* A cell that an earlier process started. */
struct kept_cell {
    uint32_t context;
    uint8_t token[KEEP_TOKEN_SIZE];
    uint64_t started_ms; /* clock_ms(), which all processes share */
    uint32_t timeout_ms;
    uint32_t verdict; /* that the earlier process had come to, and */
    uint32_t pid;     /* of the context that it was to replace */
    uint32_t signal;
    uint32_t exit_code;
    bool has_own_context;
    bool time_is_up;
    char tag[KEEP_CELL_TAG_MAX];
    int out; /* -1, as err: it was sent, and can no longer be followed */
    int err;
    struct buf displays; /* that the earlier process has taken: length and frame of each; owned */
};

/* A notebook that came back, and the cells that run in it. */
struct kept_notebook {
    struct kept_notebook *next;
    uint32_t box_id;
    struct notebook *notebook; /* NULL: taken, or its box is gone with its template */
    char tag[KEEP_TAG_MAX];
    struct kept_cell cells[CONTEXTS_MAX];
    size_t n_cells;
};

struct engine_heritage {
    struct kept_notebook *notebooks;
    /*
     * Every cell that a process of this epoch or a later one has sent, and not let go of, is in one
     * of these notebooks.
     */
    int64_t since_epoch;
};
/*
 * What earlier clients of the launcher left; epoch: the caller's count of its starts. Blocks:
 * before engine_serve().
 */
int engine_adopt(struct engine *engine, int64_t epoch, struct engine_heritage *ret, struct err *e);
void kept_notebooks_free(struct kept_notebook *list); /* ends those that were not taken */

/* Goes on with a kept cell; takes its pipes. NULL and *e on failure. */
struct cell *cell_adopt(struct notebook *nb, struct kept_cell *kept, const struct husk_spec *spec,
                        const struct run_hooks *hooks, struct err *e);
