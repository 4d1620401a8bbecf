/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service: sessions and executions of a daemon, durable, on top of the engine (core) and the
 * store.
 *
 * Everything here runs on one thread. Functions that may wait say so, and are called in a fiber
 * (base/fiber.h). Ids, names and limits that come in were checked for their shape by the API; what
 * they mean is checked here. What is reported as done is durable.
 *
 * A session or execution that is held (*_hold, or returned by a function) stays valid until it is
 * released; it may end meanwhile, which its state tells.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/histogram.h"
#include "base/limits.h"
#include "config/config.h"
#include "husk/husk.h"
#include "service/records.h"
#include "service/state.h"

struct service;
struct session;
struct execution;
struct box_files;
struct box_usage; /* core/core.h, as struct engine */
struct engine;

/* ---- life ---- */

struct service_options {
    const struct config *config; /* borrowed */
    int launcher;                /* socket of a supervised launcher; taken */
    struct backend *backend;     /* another back end than that; taken; NULL: none */
    void (*on_launcher_lost)(void *user);
    void *user;
};

/*
 * Opens the store, takes over what an earlier daemon left, starts zygotes and pools. Not in a
 * fiber.
 */
int service_open(const struct service_options *options, struct service **ret, struct err *e);
/*
 * Ends all that it runs. For one that holds no session; a daemon leaves sessions to the next one
 * by service_leave().
 */
void service_close(struct service *svc);
/*
 * The settings have changed: what is not looked up each time is taken over. What was warmed has to
 * be warmed again.
 */
void service_reconfigure(struct service *svc);
/*
 * Lets executions end that no other daemon can go on with, and copies workspaces that may have
 * changed: on_progress() is called after each. Waits for as long as there is progress.
 */
void service_save(struct service *svc, void (*on_progress)(void *user), void *user);
/*
 * The last thing before the process ends: records are flushed, sessions and what runs in them are
 * left to the next daemon.
 */
void service_leave(struct service *svc);

const struct config *service_config(const struct service *svc);
/*
 * Whether a run would succeed now, by the last one that did or did not: NULL, or why not. Borrowed
 * until the next wait.
 */
const char *service_boxes_fail(const struct service *svc);
const char *service_disk_fails(const struct service *svc); /* likewise: records can be written */
/* Both. */
const char *service_fails(const struct service *svc);
/* From now on both are watched. A daemon calls it once, after service_warm(). */
int service_watch(struct service *svc, struct err *e);
bool service_is_starting(const struct service *svc); /* no box was tried yet */
/*
 * Waits for the first box right after the start. NULL, or why none can be made. In a fiber.
 * timeout_ms < 0: without limit.
 */
const char *service_await_boxes(struct service *svc, int64_t timeout_ms);

/* ---- one-shot runs: no record, no session ---- */

/* Why a run has no result: husk failed, not the program. */
struct run_fault {
    struct err err;
    bool begun;      /* code of the user may have run */
    bool can_repeat; /* nothing of it is left that a second run would meet */
    double queue_ms;
};

/*
 * Like engine_run(), with admission: waits in the queue for a place (ERR_LIMIT when that is full or
 * takes too long). client: any number; those with the same number share what one client may have.
 */
int service_run(struct service *svc, uint64_t client, const struct husk_spec *spec,
                struct husk_result **ret, struct run_fault *fault);

/* What was asked for, completed: the template's limits come first, then the configuration's. */
struct husk_limits service_limits(struct service *svc, const char *template_name,
                                  const struct husk_limits *asked);

/*
 * Those of these modules, separated by spaces, that the template's Python can import: a new array
 * of names. NULL and *e: it cannot be asked. Waits; remembers the answer for a minute.
 */
json_t *service_modules(struct service *svc, const char *template_name, const char *modules,
                        struct err *e);

/* Has boxes of that template with those limits ready from now on, in the background. */
void service_warm(struct service *svc, const char *template_name, const struct husk_limits *limits,
                  uint64_t min);

/* ---- sessions ---- */

/* What happens to a session that had no work for its timeout. Numbers are stored. */
enum session_on_idle {
    ON_IDLE_UNSET, /* the configuration's, if it is persistent */
    ON_IDLE_END,
    ON_IDLE_PARK,   /* its processes end, its files stay */
    ON_IDLE_FREEZE, /* its processes stop, its memory stays */
};

/* Whether it rests; see enum session_on_idle. */
enum session_rest { REST_NOT, REST_PARKED, REST_FROZEN };

struct session_ask {
    const char *id;            /* NULL: one is made */
    const char *language;      /* of its first context, or of its execution; NULL: the template's */
    const char *template_name; /* NULL: the usual one of the language; python */
    bool persistent;
    const char *agent_id;        /* NULL or "": none */
    const char *dialect;         /* whose session it is: kept in the record, means nothing here */
    struct husk_limits limits;   /* 0: template's, then the configuration's */
    uint64_t timeout_ms;         /* idle; 0: the default, */
    uint64_t default_timeout_ms; /* which is the configuration's if this is 0 as well */
    uint64_t lifetime_ms;        /* 0: the configuration's */
    enum session_on_idle on_idle;
    bool has_own_bounds;    /* of timeout and memory: those of the configuration do not hold */
    const char *const *env; /* NULL-terminated "NAME=value", or NULL */
    enum husk_isolation isolation;
    const json_t *spec; /* as it was asked for: kept in the record */
    struct request_key idempotency;
};

enum session_origin {
    SESSION_NEW,
    SESSION_REPEATED, /* the same request, by its idempotency key, made it earlier */
    SESSION_REUSED,   /* a live one of the same agent that has all that is asked for */
};

/*
 * Waits. ERR_EXISTS: the id is taken; ERR_CONFLICT: the key was used with another request, or the
 * agent has such a session with another id; ERR_NOT_FOUND: no such template; ERR_LIMIT: too many
 * sessions.
 */
int session_create(struct service *svc, const struct session_ask *ask, struct session **ret,
                   enum session_origin *ret_origin, struct err *e);
/*
 * One that the same request asked for earlier: 0 once it is there, or has been. -1: it could not be
 * made; *e is left alone if that was answered then. Waits.
 */
int session_await(struct service *svc, const char *id, struct err *e);

/*
 * A live session; waits for the record of one that is being made. ERR_NOT_FOUND: there is no
 * record; ERR_CONFLICT: it has ended, the message says how.
 */
struct session *session_hold(struct service *svc, const char *id, struct err *e);
void session_release(struct session *s); /* NULL is fine */

const char *session_id(const struct session *s);
/* Of its first context; NULL: its template is gone. A kept interpreter goes on without one. */
const char *session_language(const struct session *s);
bool session_is_working(const struct session *s); /* an execution runs in it, or waits to */
bool session_is_ending(const struct session *s);  /* or has ended */

/*
 * Ends it: every process is dead, running executions are cancelled, workspace kept. Idempotent.
 * Waits.
 */
int session_end(struct service *svc, const char *id, int state, const char *reason, struct err *e);
/* The same, and removes record, executions and workspace. Waits. */
int session_purge(struct service *svc, const char *id, struct err *e);
/*
 * From now on. ERR_INVALID: the timeout is above the server's limit; on_idle: UNSET leaves it as it
 * is, ERR_CONFLICT: its box cannot be frozen. Waits.
 */
int session_extend(struct session *s, uint64_t timeout_ms, enum session_on_idle on_idle,
                   struct err *e);
enum session_rest session_rest(const struct session *s);

int session_usage(struct session *s, struct box_usage *ret, struct err *e); /* waits */
/* ERR_CONFLICT while it has no box. */
int session_receipt(struct session *s, struct husk_receipt *ret, struct err *e);

/* Contexts; all wait. ERR_CONFLICT: the context is busy, or the session has no interpreter. */
struct session_context {
    const char *language;
    uint32_t id;
    bool is_checkpoint;
    bool is_busy;
};
size_t session_contexts(struct session *s, struct session_context ret[CONTEXTS_MAX]);
/* NULL: there is no such context now. */
const char *session_context_language(const struct session *s, uint32_t context);
/* The recorded execution that the context runs now; NULL: none. Borrowed until the next wait. */
const char *session_running(const struct session *s, uint32_t context);
/* A new one of that language (NULL: the session's). ERR_CONFLICT also: the box does not have it. */
int session_new_context(struct session *s, const char *language, uint32_t *ret, struct err *e);
/* The first context of that language, made if there is none. */
int session_context_for(struct session *s, const char *language, uint32_t *ret, struct err *e);
int session_interrupt(struct session *s, uint32_t context, bool *ret_was_running, struct err *e);
int session_reset(struct session *s, uint32_t context, struct err *e);
int session_checkpoint(struct session *s, uint32_t context, uint32_t *ret, struct err *e);
int session_branch(struct session *s, uint32_t context, uint32_t *ret, struct err *e);
int session_restore(struct session *s, uint32_t context, uint32_t checkpoint, struct err *e);

/*
 * Access to the workspace: one user at a time, so give it back soon. Waits for a turn. See
 * core/box_files.h. A session that has ended has none: ERR_CONFLICT.
 */
struct box_files *session_files_take(struct session *s, struct err *e);
void session_files_give(struct session *s, struct box_files *files, bool changed);
/*
 * The user goes on reading, as slowly as its client takes it, and gives the workspace back to
 * others, which get another worker. False: too many do so already, and it keeps its turn. Then
 * session_files_close() instead of session_files_give().
 */
bool session_files_read_on(struct session *s);
void session_files_close(struct session *s, struct box_files *files);
/* Whether so many bytes more in its workspace could be kept: ERR_QUOTA. */
int session_check_upload(const struct session *s, uint64_t bytes, struct err *e);

/* ---- executions ---- */

enum execution_kind { EXECUTE_CODE, EXECUTE_COMMAND, EXECUTE_HANDLER };

struct execution_ask {
    uint64_t client; /* as for service_run() */
    enum execution_kind kind;
    const char *language; /* NULL: the session's */
    const char *code;     /* or the command line */
    size_t code_len;
    const char *const *args; /* NULL-terminated or NULL */
    const char *const *env;
    const char *stdin_data;
    size_t stdin_len;
    const char *event; /* JSON text, EXECUTE_HANDLER */
    const char *context_json;
    uint32_t context;    /* of a persistent session */
    uint64_t timeout_ms; /* 0: the configuration's */
    bool rich;
    const char *const *variables; /* NULL-terminated names, or NULL */
    json_t *request; /* as it was asked for: kept in the record; must not change any more */
    /* the caller waits for the result and answers only then: one write instead of three */
    bool record_at_end;
    /* the caller waits, and no client can ask for it later: nothing is written */
    bool unrecorded;
    struct request_key idempotency;
};

/* An ask as it is read from a request of /api/v1, and what it borrows. */
struct execution_request {
    struct execution_ask ask;
    char **env;
    const char **args;
    char *event;
    char *context;
    json_t *kept;
};
/*
 * body: as the contract has it; language: of code that names none, may be NULL. Borrows from both.
 */
int execution_request_read(const struct service *svc, const json_t *body, const char *language,
                           struct execution_request *ret, struct err *e);
void execution_request_release(struct execution_request *r);
/*
 * {"A": "1"} as NULL-terminated "A=1" strings in one block, owned. NULL and *e when memory is gone.
 */
char **request_env(const json_t *vars, struct err *e);

/*
 * Starts it; everything in ask is copied. Waits until the record is durable; the caller may then
 * wait for the end or go away. *ret_existed: the key was used before, and this is that execution.
 * ERR_CONFLICT: the session has ended, has an execution already (ephemeral), or the key was used
 * with another request; ERR_LIMIT: the queue is full.
 */
int execution_start(struct session *s, const struct execution_ask *ask, struct execution **ret,
                    bool *ret_existed, struct err *e);

/* One that has not ended, or ended a moment ago. NULL: at most its record is left. */
struct execution *execution_hold(struct service *svc, const char *id);
void execution_release(struct execution *x);

/*
 * Once it is over. NULL: it never ran, or in another process; the record's result says what there
 * is to say.
 */
const struct husk_result *execution_result(const struct execution *x);
/*
 * One that was to be recorded only at its end (record_at_end), and goes on after all, or is over by
 * now. Waits.
 */
int execution_record_now(struct execution *x, struct err *e);
/*
 * False after execution_wait(): its end could not be written yet, so nothing about it may be
 * promised.
 */
bool execution_is_durable(const struct execution *x);
size_t execution_queue_position(const struct execution *x); /* 0: it runs or is over */

int execution_wait(struct execution *x, int64_t timeout_ms); /* waits for its end: 0, -ETIMEDOUT */
void execution_cancel(struct execution *x); /* at once; its end follows. Over already is fine */
/*
 * For a client that has left: a cell that runs is interrupted and keeps its variables; everything
 * else is cancelled, and its end waited for. What waits never begins.
 */
int execution_stop(struct execution *x, int64_t timeout_ms, struct err *e);

/*
 * What there is to read beyond a position. Text is bounded by the configuration's output_keep;
 * totals are not.
 */
struct execution_position {
    uint64_t out;
    uint64_t err;
    uint32_t displays;
    int state; /* that the reader has seen */
};

struct execution_news {
    const char *out; /* borrowed until the next wait */
    size_t out_len;
    const char *err;
    size_t err_len;
    const struct husk_display *displays;
    size_t n_displays;
    int state;
};

/* True if there is anything new; the position is then moved behind it. Never waits. */
bool execution_news(struct execution *x, struct execution_position *at, struct execution_news *ret);
/* Waits until there is something new: 0, -ETIMEDOUT. */
int execution_wait_news(struct execution *x, const struct execution_position *at,
                        int64_t timeout_ms);

/* ---- templates, pools, boxes, figures ---- */

/* Templates that clients made (stored; visible to the engine as files in DATA/templates). Wait. */
int service_template_put(struct service *svc, const char *name, const json_t *definition,
                         bool must_be_new, struct err *e);
int service_template_delete(struct service *svc, const char *name, struct err *e);
struct engine *service_engine(struct service *svc);

uint64_t session_box_id(const struct session *s); /* 0: it has none now */

struct service_figures {
    uint64_t sessions_created, sessions_live;
    uint64_t sessions_parked, sessions_frozen; /* of the live ones */
    uint64_t executions_started, executions_running, executions_queued;
    uint64_t executions_ended[EXECUTION_STATES];
    uint64_t runs; /* one-shot */
    int64_t started_ms;
    int64_t epoch;
    uint64_t readopted;  /* boxes taken over at start */
    uint64_t data_bytes; /* kept of sessions below DATA, as data_quota counts it */
    /* of runs and executions that have ended: */
    struct histogram run_seconds, queue_seconds, run_memory;
    uint64_t causes[HUSK_CAUSE_INTERNAL + 1];
};
void service_figures(const struct service *svc, struct service_figures *ret);
struct box_totals; /* core/core.h */
/* Of a few seconds ago. Does not wait. */
void service_totals(const struct service *svc, struct box_totals *ret);
/* Live sessions with files that have changed since their last copy. */
size_t service_unsaved(const struct service *svc);

/* ---- the log ---- */

/* What the run belongs to; NULL: not known, or none. */
struct audit_subject {
    const char *request_id, *session, *execution, *template_name;
};
/*
 * A line about a run that broke a rule: policy, system call, memory, crash, limit. Nothing for one
 * that just ended. Those of sessions are noted by the service itself.
 */
void service_audit(const struct audit_subject *who, const struct husk_result *r);
