/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service remembers, as its clients read it: sessions, executions and templates, live or
 * ended. The store is the service's own business; nothing of it is visible here.
 *
 * Texts of a view are borrowed from the session, execution or entry that it was made from. A view
 * is a copy: what changes later (by another fiber, while the reader waits) is seen by a new one.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "husk/husk.h"
#include "service/state.h"

struct service;
struct session;
struct execution;

#define SERVICE_ID_SIZE 65 /* of an id of a session, execution or template, with its NUL */

/* ---- idempotency keys ---- */

#define REQUEST_HASH_SIZE 32

struct request_key {
    const char *scope;               /* whose key: the route, perhaps with a session */
    const char *key;                 /* NULL: the client sent none */
    uint8_t hash[REQUEST_HASH_SIZE]; /* of the request: another one may not use the key */
};

/* True if the same request used the key before; ret is the id of what it made. */
bool service_key_used(struct service *svc, const struct request_key *key,
                      char ret[static SERVICE_ID_SIZE]);

/* ---- pages of lists ---- */

struct list_part {
    size_t limit;
    size_t offset;
    int64_t before; /* only what comes after that position, which is list_seen.next; 0: all */
};

struct list_seen {
    int64_t total; /* that match, in all pages */
    int64_t next;  /* position of the last one; 0: none follows */
};

/* ---- sessions ---- */

struct session_view {
    const char *id;
    const char *mode; /* "persistent", "ephemeral" */
    const char *template;
    const char *agent_id; /* "": none */
    const char *dialect;
    const char *min_isolation;
    const char *spec; /* JSON: what the client asked for */
    const char *end_reason;
    enum session_state state;
    int64_t created_ms;
    int64_t updated_ms;
    int64_t active_ms;
    int64_t expires_ms;
    int64_t ended_ms;             /* 0 while it lives */
    int64_t executions;           /* how many there have been */
    int on_idle;                  /* enum session_on_idle */
    uint64_t box;                 /* the last one that it had; 0: none yet */
    const char *workspace;        /* what there is of its files beside its box; NULL: it has none */
    const char *workspace_reason; /* NULL: nothing went wrong */
    int64_t saved_ms;             /* 0: never */
};

struct session_view session_view(const struct session *s);

/* A session by its id, whether it lives or only its record is left. */
struct session_entry {
    struct session *live; /* held; NULL: it has ended */
    void *row;
    struct session_view view;
};

/* The one that had that box last, while its record is kept. Otherwise as session_open(). */
int session_open_by_box(struct service *svc, uint64_t box, struct session_entry *ret,
                        struct err *e);
/* May wait, as session_hold(). ERR_NOT_FOUND: there is no record. */
int session_open(struct service *svc, const char *id, struct session_entry *ret, struct err *e);
void session_close(struct session_entry *entry);

/* Rows that match all that is not NULL. */
struct session_filter {
    const char *state; /* a word of state.def */
    const char *template;
    const char *agent_id;
    const char *mode;
    struct list_part part;
};

/* One page, newest first. Waits; fn may wait; if it returns other than 0 the walk ends. */
int session_list(struct service *svc, const struct session_filter *f,
                 int (*fn)(void *user, const struct session_view *v, struct err *e), void *user,
                 struct list_seen *ret, struct err *e);
/* Those that have not ended; fn must not wait. */
int session_each_live(struct service *svc,
                      int (*fn)(void *user, const struct session_view *v, struct err *e),
                      void *user, struct err *e);

/* ---- executions ---- */

struct execution_view {
    const char *id;
    const char *session_id;
    int64_t number;   /* 1, 2, ... within its session */
    const char *kind; /* "code", "command", "handler" */
    const char *language;
    enum execution_state state;
    int64_t created_ms;
    int64_t started_ms;
    int64_t ended_ms; /* 0 while it lives */
};

/* An execution, whether the service still has it or only its record is left. */
struct execution_entry {
    struct execution *live; /* held; NULL: over */
    void *row;
};

int execution_open(struct service *svc, const char *id, struct execution_entry *ret, struct err *e);
void execution_close(struct execution_entry *entry);

struct execution_view execution_view(const struct execution_entry *entry);
json_t *execution_request(const struct execution_entry *entry); /* a new reference */
/*
 * The result as it is recorded, or what a running execution has written and shown so far; a new
 * reference. NULL: there is none.
 */
json_t *execution_outcome(const struct execution_entry *entry);
/* True if it has ended without a result since the server failed: why, and what had begun. */
struct run_fault;
bool execution_fault(const struct execution_entry *entry, struct run_fault *ret);
/* Its exit code without reading all of the result. False: there is none. */
bool execution_exit_code(const struct execution_entry *entry, int64_t *ret);

struct execution_filter {
    const char *session_id;
    const char *state; /* a word of state.def; NULL: any */
    bool with_output;  /* else of a result only its exit code, and nothing of the request */
    struct list_part part;
};

/*
 * One page, newest first; each entry is borrowed for the call of fn. Waits. ERR_NOT_FOUND: there is
 * no such session.
 */
int execution_list(struct service *svc, const struct execution_filter *f,
                   int (*fn)(void *user, const struct execution_entry *x, struct err *e),
                   void *user, struct list_seen *ret, struct err *e);
/* Those that run or wait and are recorded only at their end: the others are not among them. */
int execution_each_unrecorded(struct service *svc, const char *session_id,
                              int (*fn)(void *user, const struct execution_entry *x, struct err *e),
                              void *user, struct err *e);
/* The id of the last one of a session. ERR_NOT_FOUND: it has none. */
int execution_latest(struct service *svc, const char *session_id, char ret[static SERVICE_ID_SIZE],
                     struct err *e);

/*
 * Takes the key, so that no execution can begin with it; if one has, stops that (execution_stop())
 * and opens it. Waits.
 */
int execution_withdraw(struct service *svc, const struct request_key *key, int64_t timeout_ms,
                       struct execution_entry *ret, struct err *e);

/* ---- templates ---- */

/* What a client made. */
struct template_record {
    int64_t created_ms;
    int64_t updated_ms;
    json_t *definition;
};

/* NULL: no client made such a template. */
struct template_record *template_record_find(struct service *svc, const char *name);
void template_record_free(struct template_record *r); /* NULL is allowed */

/* ---- the store itself ---- */

/* Writes and syncs a change that changes nothing. Waits. */
int service_check_store(struct service *svc, struct err *e);

struct service_store_figures {
    uint64_t batches;
    uint64_t failed;
    uint64_t transactions;
    uint64_t reopened;
    uint64_t checkpoints;
    uint64_t wal_pages;
    uint64_t queued;
};
void service_store_figures(struct service *svc, struct service_store_figures *ret);
