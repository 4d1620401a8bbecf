/* SPDX-License-Identifier: Apache-2.0 */
/* The service's inside, shared by its files; the outside is service.h. */
#pragma once

#include <uthash.h>

#include "base/fiber.h"
#include "core/core.h"
#include "service/phase.h"
#include "service/places.h"
#include "service/result.h"
#include "service/service.h"
#include "store/store.h"

#define ID_SIZE (STORE_ID_MAX + 1)
/*
 * Why the first context of a session has lost its variables between two cells. Numbers are stored:
 * a new one goes to the end.
 */
enum session_restart { RESTART_NONE, RESTART_BOX_LOST, RESTART_PARKED };

/* What there is of the files of a session beside its box. Numbers are stored, as above. */
enum workspace_state {
    WORKSPACE_SAVED,     /* a copy that has all of them, or there are none */
    WORKSPACE_CHANGED,   /* they have changed since */
    WORKSPACE_NO_DISK,   /* and the last try to copy them failed: the disk is full, */
    WORKSPACE_NO_QUOTA,  /* the session's quota has no room, */
    WORKSPACE_NO_ANSWER, /* or the box did not give them out */
    WORKSPACE_LOST,      /* the box has ended with what had changed since */
};

#define END_PATIENCE_MS 1000 /* from the end of a box to the launcher's word of it */

/* One place, and a line of fibers that wait for it. */
struct gate {
    bool is_taken;
    struct gate_waiter *first;
};

/* Whether a run would succeed now; see readiness.c. */
struct readiness {
    size_t opening;             /* templates that are being started */
    bool is_known;              /* a box was tried: it worked, or `failure` says why not */
    struct err failure;         /* of the last try; ERR_NONE: it worked */
    char template_name[64];     /* that worked last; "": none did */
    uint64_t births_failed;     /* as of the last try */
    char disk[160];             /* why records cannot be written; "": they can */
    struct fiber *watcher;      /* looks once a second */
    struct fiber_queue readied; /* fibers that wait for the first try */
};

struct service {
    const struct config *config;
    struct store *store;
    struct engine *engine;
    struct session *sessions; /* live ones, by id */
    struct execution *executions;
    struct places places;
    size_t saves;                  /* copies of workspaces that are being written */
    struct fiber_queue saves_line; /* fibers that wait to write one */
    size_t coming;  /* executions that were let in and are being recorded: they count as waiting */
    size_t in_turn; /* executions that wait for the one before them in their context */
    bool unsettled; /* executions of an older daemon could not be recorded as lost */
    bool store_fails;                    /* the last commit found no room or a broken disk */
    struct fiber_queue store_works;      /* woken when one succeeds after that */
    bool template_changes;               /* a fiber changes a template */
    struct fiber_queue template_line;    /* fibers that wait for that */
    struct known_modules *known_modules; /* modules.c */
    struct fiber_queue modules_line;     /* fibers that wait for another one's question */
    struct service_figures figures;
    void (*on_launcher_lost)(void *user);
    void *user;
    struct fiber *store_pump;
    struct fiber *reaper;
    uint64_t kept_bytes;            /* of all sessions below DATA; see quota.c */
    size_t fibers;                  /* of executions */
    size_t alone;                   /* executions that run in boxes of their own */
    struct fiber_queue alone_ended; /* fibers that wait until none does */
    bool closing;
    bool is_open;              /* boxes can be made */
    struct fiber_queue opened; /* executions that wait for that */
    struct readiness readiness;
    struct box_totals totals; /* as of the last sample, */
    struct fiber *sampler;    /* by this */
};

/* One context of a session runs one thing at a time. */
struct turn {
    struct gate gate;
    struct execution *execution; /* that runs in it */
};

struct session { /* NOLINT(clang-analyzer-optin.performance.Padding): as it is read */
    UT_hash_handle hh;
    struct service *svc;
    int refs;
    char id[ID_SIZE];
    struct store_session record; /* its texts are those of `texts`, but for end_reason */
    struct store_session *texts;
    char *end_reason; /* NULL: as it was */
    bool persistent;
    char language[16]; /* "": the template's */
    char **env;        /* NULL-terminated, owned; NULL: none */
    struct husk_limits limits;
    uint64_t timeout_ms;  /* idle */
    uint64_t lifetime_ms; /* 0: the configuration's */
    uint64_t born_ms;     /* clock_ms() */
    uint64_t active_ms;
    struct notebook *box; /* persistent: its interpreter; NULL: none now */
    uint64_t once;        /* ephemeral: the box of its run; 0: none now */
    size_t box_users;     /* fibers that wait with it in their hands: it must not go away */
    enum box_phase box_phase;
    struct fiber_queue opened;
    struct fiber_queue idle;  /* woken when a user of the session or of its box is done */
    bool adding_context;      /* a fiber makes the first one of a language */
    bool moving;              /* its next state is being written */
    struct fiber_queue moved; /* woken when a state of it is durable, or will not be */
    enum session_phase phase;
    bool keyed;     /* the client may ask for it again, by its key */
    bool restarted; /* the box is not the first one: its files come from the copy */
    bool
        is_loss_told; /* the result of a cell has said that this box, and its variables, are gone */
    struct fiber_queue ended;
    size_t working; /* executions that run or wait */
    struct turn turns[CONTEXTS_MAX];
    struct box_files *files;    /* one that is free; NULL: none */
    struct notebook *files_box; /* whose files were taken last */
    bool files_busy;
    size_t files_readers; /* that have given it back and read on, each by a worker of its own */
    struct fiber_queue files_line;
    bool dirty;        /* the workspace is known to have changed since it was last saved */
    bool saving;       /* a copy is being written */
    uint64_t saved_ms; /* when the last copy was begun */
    struct fiber_queue saved;
    uint64_t uses;    /* of its box: not those that only save its files */
    uint64_t rest_at; /* it could not be parked or frozen: not tried again before this */
    uint64_t save_at; /* a save that failed is not tried again before this */
    /* What is kept of it below DATA: records, output that is being spooled, and the copy. */
    uint64_t kept_bytes;
    uint64_t copy_bytes; /* of that: of its workspace */
};

struct execution {
    UT_hash_handle hh;
    struct service *svc;
    struct session *session; /* held */
    int refs;
    char id[ID_SIZE];
    struct store_execution record; /* its texts are those of `texts` */
    struct store_execution *texts;
    json_t *request; /* as it was asked for; NULL: only the record has it */
    json_t *outcome; /* what was recorded as its result; NULL: only the record has it */
    enum end_phase end;
    enum row_phase row;
    enum execution_kind kind;
    char *code;
    size_t code_len;
    char **args;
    char **env;
    char *stdin_data;
    size_t stdin_len;
    char *event;
    char *context_json;
    char **variables;
    uint64_t client; /* whose share of the places it uses */
    struct place place;
    const struct guest *guest; /* its own box, if it has one, while it runs */
    uint32_t context;
    bool has_turn;    /* of that context */
    bool has_context; /* a context of its own, which ends with it */
    bool rich;
    bool cancel; /* it is to end */
    enum cell_phase cell;
    bool begun;      /* its code was handed to a box */
    bool is_unknown; /* kept, but without a record: only a cell that may have begun */
    bool spool_cut;  /* a display is missing: no more of them */
    bool is_cut;     /* there was no room for more output */
    uint64_t timeout_ms;
    double queue_ms;        /* that it waited for its turn and for a place */
    struct fiber *runner;   /* while it runs */
    struct kept_cell *kept; /* an earlier daemon started it */
    struct notebook *box;   /* that it runs in; held by box_users */
    struct husk_result *result;
    int spool[3]; /* files that its output goes to; 0: not yet */
    enum spool_phase spool_phase;
    size_t spool_at[2];   /* bytes of out and err that are there */
    uint64_t charged;     /* bytes that its session's quota has for it until it ends */
    uint64_t row_bytes;   /* of that: of its record without the result */
    uint64_t output_room; /* of that: output that may still come */
    struct buf out;       /* what readers of its events get, bounded */
    struct buf err;
    struct fiber_queue news; /* fibers that wait for more of it, or for its end */
};

/* Walking the tables: take the next one before this one leaves them. */
static inline struct session *session_next(const struct session *s)
{
    return s != NULL ? s->hh.next : NULL;
}

static inline struct execution *execution_next(const struct execution *x)
{
    return x != NULL ? x->hh.next : NULL;
}

/* tables.c */
struct session *table_session(const struct service *svc, const char *id); /* NULL: none */
void table_add_session(struct service *svc, struct session *s);
void table_remove_session(struct service *svc, struct session *s);
size_t table_sessions(const struct service *svc);
struct execution *table_execution(const struct service *svc, const char *id, size_t len);
void table_add_execution(struct service *svc, struct execution *x);
void table_remove_execution(struct service *svc, struct execution *x);

/* data_dir.c */
enum data_folder { DATA_SPOOL, DATA_TEMPLATES, DATA_WORKSPACES };
#define DATA_MAX 501        /* of the path of the daemon's part: the engine takes no longer ones */
#define DATA_PATH_SIZE 1024 /* every path below it fits, with a name of up to 255 */
int data_make_folders(const struct config *c, struct err *e);
void data_folder_path(const struct config *c, enum data_folder folder, char ret[DATA_PATH_SIZE]);
void data_file_path(const struct config *c, enum data_folder folder, const char *name,
                    const char *suffix, char ret[DATA_PATH_SIZE]);

/* service.c */
/* Writes a batch and waits for its fsync (in a fiber, others run meanwhile). */
int service_commit(struct service *svc, struct store_batch *batch, struct store_result *ret,
                   struct err *e);

/*
 * Has the store's own thread read a list, and waits for it (in a fiber, others run meanwhile).
 * 0: the list is the caller's; -1. Only in a fiber.
 */
int service_read(struct service *svc, struct store_read *read, struct err *e);

/* gate.c */
/*
 * 0, -ETIMEDOUT, -ECANCELED. The code that sets *cancel wakes the fiber. in_front: before all that
 * wait already.
 */
int gate_wait(struct gate *g, int64_t timeout_ms, bool in_front, const bool *cancel);
void gate_leave(struct gate *g);
size_t gate_position(const struct gate *g, const struct fiber *f); /* from 1; 0: not in line */

/* keys.c */
/*
 * A batch that claims the key for that id, if one was asked for, also from one that failed (or
 * NULL); NULL without memory.
 */
struct store_batch *keyed_batch(struct service *svc, const struct request_key *asked,
                                const char *failed, const char *id, int64_t created_ms);
/* 0: durable; 1: the same request had the key before, *ret_id is what it made; -1. Waits. */
int keyed_commit(struct service *svc, struct store_batch *b, const struct request_key *asked,
                 char ret_id[ID_SIZE], struct err *e);

/* session.c */
struct session *session_new(struct service *svc, const struct store_session *record);
void session_ref(struct session *s);
struct session *session_find(struct service *svc, const char *id); /* once it is recorded; waits */
/* Durable. Waits. */
int session_move(struct session *s, int state, const char *reason, struct err *e);
/* Until a state is durable, or will not be. It may be gone after that: look again. */
void session_await_move(struct session *s, int64_t timeout_ms);
void session_touch(struct session *s); /* there was work */
/* One more execution, or one less. */
void session_work_begins(struct session *s);
void session_work_ends(struct session *s);

/*
 * An ephemeral one that has had its execution, or has it now. One that never began does not count.
 */
bool session_is_spent(struct session *s);

/* session_agent.c */
/* A live one of the asking agent that has all that is asked for, or is being made; NULL: none. */
struct session *agent_find_session(struct service *svc, const struct session_ask *ask);
const char *session_template_of(const struct session_ask *ask);
const char *session_mode_of(const struct session_ask *ask);
/*
 * Variables of a client's template, then those of the session, which win. The session keeps them:
 * the template may be another one by tomorrow. Borrowed texts, until the next wait, in an owned
 * list; NULL without memory.
 */
const char **session_join_env(struct service *svc, const struct session_ask *ask);

/* session_box.c */
/* Its box, made or made again if there is none. Waits. */
int session_box(struct session *s, struct err *e);
bool session_box_is_dead(const struct session *s);     /* false without one */
bool session_box_is_changing(const struct session *s); /* a fiber opens it, or a worker in it */
void session_box_step(struct session *s, enum box_phase to);
/* Nothing closes the box between these two. */
struct notebook *session_box_hold(struct session *s);
void session_box_give(struct session *s);
/* -1 and ERR_STORAGE: an execution, which may hold the box, waits for a full disk. */
int session_check_ends(const struct session *s, struct err *e);
void session_box_close(struct session *s); /* ends it; it is to be opened anew */
/*
 * The next cell of the first context says so in its result, unless one has already. For a reason
 * that is not recorded yet; it is with the session's next record.
 */
void session_note_restart(struct session *s, enum session_restart why);
/* The same for the result of a cell, which is to be recorded with it: NULL, or the API's word. */
const char *session_take_restart(struct session *s);

/* session_rest.c: what an idle session does instead of ending. */
/* Parks or freezes one that has been idle for its timeout. False: there is none. Waits. */
bool session_rest_next(struct service *svc);
/* A frozen one goes on. Waits; others may have used or ended it meanwhile. */
int session_thaw(struct session *s, struct err *e);
/* ERR_INVALID: a session of this mode, or this server, cannot do that. */
int session_check_on_idle(struct service *svc, bool persistent, int on_idle, struct err *e);

/* session_files.c */
struct box_files *files_take(struct session *s, struct err *e); /* access to the workspace */

/* session_contexts.c */
int turn_take(struct session *s, uint32_t context, int64_t timeout_ms, bool in_front,
              const bool *cancel, struct err *e);
void turn_give(struct session *s, uint32_t context);

/* session_spec.c */
char *session_spec_text(const struct session_ask *ask); /* owned; NULL without memory */
/* From its record: limits as they were asked for, env, lifetime and keyed. */
void session_spec_read(struct session *s);

/* execution.c */
struct execution *execution_new(struct session *s, const struct store_execution *record);
/* One that the store has, with all that was asked for. NULL: no memory, or it cannot be read. */
struct execution *execution_read(struct session *s, const struct store_execution *record);
void execution_forget_kept(struct execution *x);         /* it has none any more */
int execution_begin(struct execution *x, struct err *e); /* its fiber */
/* It has ended by a fault of the server, and nothing of it ran. */
bool execution_never_began(const struct store_execution *row);
struct fair_key execution_key(const struct session *s, uint64_t client);

/* execution_cell.c: both wait. */
int execution_run_cell(struct execution *x, uint32_t context, const struct husk_spec *spec,
                       struct err *e);
int execution_run_command(struct execution *x, const struct husk_spec *base, struct err *e);
bool execution_is_command(const struct execution *x);
struct run_hooks execution_hooks(struct execution *x);
void execution_take_output(void *user, enum husk_stream stream, const char *data, size_t n);

/* execution_end.c: r and e are how its run came out. Records it; waits. */
void execution_conclude(struct execution *x, int r, const struct err *e);

/* adopt.c */
int service_adopt(struct service *svc, struct err *e);
void service_settle(struct service *svc); /* again, what a full disk did not take then; waits */

/* session_settle.c */
void sessions_settle(struct service *svc);

/* saving.c: what the record of a session says about its files. */
void workspace_changed(struct session *s); /* by a cell, an upload */
/* A try to save it is over: e is why it failed, NULL: it did not. */
void workspace_tried(struct session *s, int64_t began_ms, const struct err *e);
void workspace_box_gone(struct session *s); /* without a copy of what had changed */
/* Before the server ends: all that has changed. Waits for as long as that makes progress. */
void workspaces_save(struct service *svc, void (*on_progress)(void *user), void *user);

/* workspace.c: durable copies of workspaces in DATA/workspaces. */
/* If it is dirty; waits, also for a copy that is being written already. */
int workspace_save(struct session *s, struct err *e);
enum save_outcome { SAVE_NONE, SAVE_DONE, SAVE_FAILED };
/*
 * Saves one that changed and had no work for a while. SAVE_NONE: there is none. Waits.
 * even_at_work: also one that works, and also for a copy that another fiber writes.
 */
enum save_outcome workspace_save_next(struct service *svc, bool even_at_work);
int workspace_restore(struct session *s, struct err *e);
void workspace_remove(struct service *svc, const char *session_id);
uint64_t workspace_size(const struct service *svc, const char *session_id); /* of its copy */
uint64_t workspace_total(struct service *svc); /* of all copies: walks the folder */
void workspace_sweep(struct service *svc);     /* copies of sessions that are gone */

/* spool.c */
ssize_t spool_take(struct execution *x, enum husk_stream stream, int pipe, char *buf, size_t size);
void spool_output(struct execution *x); /* what out and err have got since */
void spool_retry(struct service *svc);  /* once a second: what a full disk did not take */
void spool_add_display(struct execution *x, const char *frame, size_t n);
/* What an earlier daemon wrote, as far as it fits. displays may be NULL. */
void spool_read(struct service *svc, const char *id, struct buf *out, struct buf *err,
                struct buf *displays);
void spool_sweep(struct service *svc); /* files of executions that are over */
void spool_remove(struct execution *x);

/* quota.c: what is kept of sessions below DATA. ERR_QUOTA: nothing was taken. */
int quota_open(struct service *svc, struct err *e); /* adds up what there is */
uint64_t quota_room(const struct session *s);       /* bytes that it may still take */
int quota_check(const struct session *s, uint64_t n, struct err *e); /* takes nothing */
int quota_take(struct session *s, uint64_t n, struct err *e);
void quota_force(struct session *s, uint64_t n); /* what must be kept in any case */
void quota_give(struct session *s, uint64_t n);
void quota_forget(struct service *svc, uint64_t n);        /* of a session that is only a record */
int quota_begin_session(struct session *s, struct err *e); /* its record */
void quota_adopt_session(struct session *s);               /* counted by quota_open() */
int quota_begin_execution(struct execution *x, struct err *e);
void quota_adopt_execution(struct execution *x);
/* Takes what up to `size` more bytes of output need, or lowers text->max to what there is. */
void quota_prepare_output(struct execution *x, struct buf *text, size_t size);
void quota_use_output(struct execution *x, size_t n); /* so many have come */
bool quota_take_display(struct execution *x, size_t n);
/*
 * Its record has a result of that length: the rest of what it took goes back. False: there is no
 * room for it, which cannot be if it is the least that a result can be.
 */
bool quota_end_execution(struct execution *x, size_t result_len, bool is_least);
void quota_drop_execution(struct execution *x); /* it goes; if it never ended, so does its charge */

/* reaper.c */
int reaper_start(struct service *svc, struct err *e);

/* pools.c */
int pools_start(struct service *svc, struct err *e);

/* audit.c */
void service_note_run(struct service *svc, const struct husk_result *r); /* for the figures */

/* totals.c */
int totals_start(struct service *svc, struct err *e); /* samples from now on */

/* readiness.c */
/* A template that was being started runs, or (failure != NULL) does not. Waits for a run. */
void readiness_opened(struct service *svc, const char *template_name, const struct err *failure);
void pools_reconfigure(struct service *svc);

/* template_text.c, template_put.c */
/* From the definition of a client and its base. */
int template_write(const struct template_def *base, const json_t *d, struct buf *b, struct err *e);
int template_compose(struct service *svc, const json_t *definition, struct buf *b, struct err *e);
void modules_forget(struct service *svc);   /* modules.c */
void templates_settle(struct service *svc); /* changes that a killed daemon did not finish */

/* text.c */
char *text_copy(const char *s);                 /* "" for NULL; NULL without memory */
char **text_list_copy(const char *const *list); /* NULL for NULL or without memory */
void text_list_free(char **list);
void id_make(char *ret, size_t size, const char *prefix); /* "sess_" + 16 [a-z0-9] ... */
