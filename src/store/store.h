/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable records of the daemon: sessions, executions, templates and idempotency keys in SQLite.
 *
 * How it works: changes are collected in a batch and handed over with store_commit(). One writer
 * thread puts all batches that wait into one transaction (group commit: one fsync for many) and
 * each batch into a savepoint of its own, so that a batch happens as a whole or not at all and
 * never harms its neighbours. A batch is reported as done only after the fsync. Reads go through
 * connections of their own and see every batch that was reported, and no other. A list whose rows
 * may be many is read by a third thread: store_read().
 *
 * Every function here is called on one thread, the owner's; the others are internal. A row
 * is live until its ended_ms is set. What the status numbers mean is not known here.
 *
 * Texts of a record that is put are borrowed for the call. Records that are handed out are owned:
 * one block with all its texts, for free(). A text is never NULL there, except `result`; on the way
 * in NULL counts as "".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STORE_ID_MAX 64             /* bytes of an id or a name */
#define STORE_TEXT_MAX (32UL << 20) /* bytes of any other text */
#define STORE_BATCH_MAX 1024        /* changes in one batch */
#define STORE_PAGE_MAX 1000         /* rows of one list */
#define STORE_HASH_SIZE 32          /* bytes of a request hash */

struct store;
struct store_batch;

struct store_session {
    /* Written when the row is made; later puts and moves leave them alone. */
    const char *id;
    const char *mode;
    const char *template;
    const char *agent_id;
    const char *dialect;
    const char *owner;
    const char *min_isolation;
    const char *spec; /* JSON: resources, environment, everything as it was asked for */
    int64_t created_ms;
    /*
     * Later only by moves: a put of what was true before a move that is under way undoes nothing.
     */
    int status;
    int64_t ended_ms; /* 0 while it lives */
    const char *end_reason;
    /* Written by every put and move. */
    int64_t epoch; /* of the daemon start that last touched it */
    int64_t updated_ms;
    int64_t active_ms; /* last work */
    int64_t expires_ms;
    int64_t executions; /* how many there have been */
    int64_t kept_bytes; /* of its records, as its owner counts them */
    int64_t box;        /* the last one that it had; 0: none yet */
    int on_idle;        /* what happens after its timeout; the owner's number */
    int workspace;      /* what there is of its files beside its box, as its owner counts it */
    int64_t saved_ms;   /* when the copy was begun that has them; 0: there is none */
    int restart; /* why its variables are gone, until an answer has said so; 0: they are not */
};

struct store_execution {
    /* Written when the row is made; later puts and moves leave them alone. */
    const char *id;
    const char *session_id; /* "" for a one-shot run; else the session must exist */
    int64_t number;         /* 1, 2, ... and unique within a session */
    const char *kind;       /* code, command, handler */
    const char *language;
    const char *idempotency; /* the client's key or "" */
    const char *request;     /* JSON: code, event, timeout, ... */
    int64_t created_ms;
    /* Written by every put and move. */
    int64_t epoch;
    int status;
    const char *result; /* JSON; NULL until the execution is final */
    int64_t started_ms;
    int64_t ended_ms; /* 0 while it lives */
    int64_t out_bytes;
    int64_t err_bytes;
};

struct store_template {
    const char *name;
    int64_t created_ms; /* kept from the first put */
    int64_t updated_ms;
    const char *definition; /* JSON */
};

/* An idempotency key: unique within its scope, given to one execution or session. */
struct store_key {
    const char *scope; /* whose key: owner and route */
    const char *key;
    uint8_t hash[STORE_HASH_SIZE]; /* of the request: the same key with another one is a mistake */
    const char *id;                /* of the execution or session */
    int64_t created_ms;
};

struct store_options {
    const char *dir;          /* must exist; holds husk.db, its companions and lock */
    size_t queue_max;         /* batches that wait; 0: 4096 */
    size_t queue_bytes_max;   /* memory of batches that wait; 0: 64 MiB */
    int64_t key_retention_ms; /* a key older than this is free again; 0: 24 hours */
};

struct store_stats {
    uint64_t batches;      /* committed */
    uint64_t failed;       /* batches that were not */
    uint64_t transactions; /* committed; batches / transactions is the size of a group */
    uint64_t reopened;     /* connections replaced after a storage failure */
    uint64_t checkpoints;
    uint64_t wal_pages; /* in the log after the last transaction */
    size_t queued;      /* batches that wait or are being written */
};

/*
 * Opens or makes the store, brings its schema up to date and starts a new epoch, durably, before
 * it returns. NULL and *e: ERR_CONFLICT when another process has it (the message names its pid),
 * ERR_STORAGE when the file is damaged, read-only, not ours or of a newer version: it is left as
 * it was then.
 */
struct store *store_open(const struct store_options *options, struct err *e);

/* Writes what is queued, runs the callbacks that are due, closes. NULL is allowed. */
void store_close(struct store *st);

int64_t store_epoch(const struct store *st);          /* 1 at the first start, then one more */
const char *store_install_id(const struct store *st); /* 32 hex digits, made once; borrowed */
void store_get_stats(struct store *st, struct store_stats *ret);

/* With texts of its own, as records that are handed out. NULL when memory is gone. */
struct store_session *store_copy_session(const struct store_session *s);
struct store_execution *store_copy_execution(const struct store_execution *x);

/* ---- changes ---- */

/*
 * An empty batch; NULL only when memory is gone. Changes are applied in the order of the calls.
 * A change that cannot be taken (text too long, no memory, too many) is remembered in the batch
 * and store_commit() fails with it: there is one place to look for errors.
 */
struct store_batch *store_batch_new(struct store *st);
void store_batch_free(struct store_batch *batch); /* only one that was not committed */

/* Makes the row, or updates it when it exists. */
void store_put_session(struct store_batch *batch, const struct store_session *s);
void store_put_execution(struct store_batch *batch, const struct store_execution *x);
void store_put_template(struct store_batch *batch, const struct store_template *t);

/*
 * Updates the row of that id only if its stored status is `from`; else the batch fails:
 * STORE_MOVED.
 */
void store_move_session(struct store_batch *batch, int from, const struct store_session *s);
void store_move_execution(struct store_batch *batch, int from, const struct store_execution *x);

/* Takes a key; if it is taken the batch fails: STORE_KEY_TAKEN. */
void store_claim_key(struct store_batch *batch, const struct store_key *key);
/* Frees the key if key->id has it; one that another id took since stays. */
void store_free_key(struct store_batch *batch, const struct store_key *key);

/* A row that is not there is no error. A session takes its executions with it; keys stay. */
void store_delete_session(struct store_batch *batch, const char *id);
void store_delete_template(struct store_batch *batch, const char *name);
void store_expire_keys(struct store_batch *batch, int64_t now_ms); /* those past their retention */

/*
 * A batch that failed is not there later either. One case is open: when syncs fail and the machine
 * or the daemon stops before the disk works again, the next start may find it.
 */
enum store_outcome {
    STORE_DONE,      /* durable */
    STORE_KEY_TAKEN, /* ERR_EXISTS: the key is another's; see holder_* */
    STORE_MOVED,     /* ERR_CONFLICT: the row is not in the expected status; see stored_status */
    STORE_FAILED,    /* err says why: ERR_STORAGE, ERR_EXISTS, ERR_NOT_FOUND, ... */
};

struct store_result {
    enum store_outcome outcome;
    struct err err;                       /* ERR_NONE when done */
    char holder_id[STORE_ID_MAX + 1];     /* STORE_KEY_TAKEN: the id that has the key */
    uint8_t holder_hash[STORE_HASH_SIZE]; /* and the hash it was taken with */
    int stored_status;                    /* STORE_MOVED: what the row says; -1: no such row */
};

/*
 * Hands the batch to the writer; it is taken in every case. 0: done() will be called by
 * store_dispatch() or store_close(), once; done may be NULL. -1 and *e: nothing was queued and
 * done() is not called; ERR_LIMIT when the queue is full.
 */
int store_commit(struct store_batch *batch, void (*done)(void *user, const struct store_result *r),
                 void *user, struct err *e);

/* The same, but waits: for start-up and tests. ret may be NULL; *e is ret->err. */
int store_commit_wait(struct store_batch *batch, struct store_result *ret, struct err *e);

/* Readable when callbacks are due; owned by the store. Level-triggered. */
int store_fd(const struct store *st);
void store_dispatch(struct store *st); /* runs them; never blocks */

/* ---- reads ---- */

/* Which rows; what is NULL, false or 0 does not matter. Newest rows come first. */
struct store_filter {
    const int *status;
    const char *session_id; /* executions */
    const char *template;   /* sessions, like the three below */
    const char *agent_id;
    const char *mode;
    const char *owner;
    bool live;            /* ended_ms is 0 */
    int64_t epoch_before; /* rows of older daemon starts */
    int64_t ended_before; /* that were over by then; those that ended first come first */
    size_t limit;         /* 0: STORE_PAGE_MAX, which is also the most; store_each_*: 0 is all */
    size_t offset;
    int64_t before; /* only rows behind that position: the `next` of the page before */
};

struct store_session_list {
    struct store_session **rows;
    size_t n;
    int64_t total; /* matching rows, whatever limit, offset and `before` say */
    int64_t next;  /* position of the last row; 0: no row follows */
};

/* Of one session: its newest come first by number, which is also the position. */
struct store_execution_list {
    struct store_execution **rows;
    size_t n;
    int64_t total;
    int64_t next;
};

enum store_kind { STORE_SESSIONS, STORE_EXECUTIONS };

/* A list that the reader's thread makes. */
struct store_read {
    enum store_kind kind;
    struct store_filter filter; /* its texts are borrowed until done() */
    bool with_total;
    /*
     * Called for each row on the reader's thread: takes it and returns what is kept of it, for
     * free(), or NULL without memory. NULL: rows stay as they are.
     */
    void *(*shrink)(void *row);
    void (*done)(void *user);
    void *user;
    /* The answer, there when done() is called; the caller releases the list. */
    struct err err; /* ERR_NONE: the list is good */
    union {
        struct store_session_list sessions;
        struct store_execution_list executions;
    };
    struct store_read *next_read; /* the store's own */
};

/* ERR_NOT_FOUND when there is none. */
int store_get_session(struct store *st, const char *id, struct store_session **ret, struct err *e);
/* The one that had that box last; ERR_NOT_FOUND: none. */
int store_get_session_of_box(struct store *st, int64_t box, struct store_session **ret,
                             struct err *e);
int store_get_execution(struct store *st, const char *id, struct store_execution **ret,
                        struct err *e);
int store_get_template(struct store *st, const char *name, struct store_template **ret,
                       struct err *e);

/* A key within its retention. 0 with NULL when there is none. */
int store_find_key(struct store *st, const char *scope, const char *key, int64_t now_ms,
                   struct store_key **ret, struct err *e);

int store_list_sessions(struct store *st, const struct store_filter *f,
                        struct store_session_list *ret, struct err *e);
int store_list_executions(struct store *st, const struct store_filter *f,
                          struct store_execution_list *ret, struct err *e);

/*
 * Hands a list over to the reader's thread; it is borrowed until done(), which store_dispatch() or
 * store_close() calls, once. -1 and *e: done() is not called; ERR_LIMIT when too many wait.
 */
int store_read(struct store *st, struct store_read *r, struct err *e);

/*
 * Calls fn for each row, borrowed for the call; a return other than 0 ends the walk and is an
 * error that fn describes in *e. What is committed meanwhile is not seen.
 */
int store_each_session(struct store *st, const struct store_filter *f,
                       int (*fn)(void *user, const struct store_session *s, struct err *e),
                       void *user, struct err *e);
int store_each_execution(struct store *st, const struct store_filter *f,
                         int (*fn)(void *user, const struct store_execution *x, struct err *e),
                         void *user, struct err *e);

/* The sum of kept_bytes of all sessions. */
int store_kept_bytes(struct store *st, int64_t *ret, struct err *e);
int store_count_templates(struct store *st, int64_t *ret, struct err *e);

void store_session_list_release(struct store_session_list *l);
void store_execution_list_release(struct store_execution_list *l);
