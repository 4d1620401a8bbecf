/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libhusk: a spec in, a contained process out.
 *
 * Link it with `pkg-config --cflags --libs husk`; examples/hello.c is a whole program. A program
 * that is not beside husk-launcher sets HUSK_LAUNCHER and HUSK_LIB_DIR to the installed ones.
 *
 * An engine owns one husk-launcher process, the templates opened so far and a pool of parked boxes.
 * husk_run() takes a box (parked, or made now), runs one program in it and returns what happened.
 * A session keeps one box for many cells.
 *
 * Single-threaded: one engine belongs to one thread. Nothing here prints, logs or exits. Structs
 * that the caller fills are zero-initialised first; zero means the default everywhere. Strings in
 * a spec are borrowed for the duration of the call; everything in a result is owned by the result.
 *
 * Functions return 0, or -1 with *e filled in. What the boxed program did is never an error: it is
 * in the result.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct husk_engine;
struct husk_session;

struct husk_error {
    const char *type;  /* "invalid_argument", "isolation_missing", ...: see docs/errors.md */
    int http;          /* the status that an HTTP front end answers with */
    char message[400]; /* one line that says what to do, never a secret */
};

/* ---- engine ---- */

enum husk_isolation {
    HUSK_ISOLATION_FULL = 0, /* every layer, or refuse */
    /* private ids, cgroup limits and Landlock may be missing; the receipt says which are */
    HUSK_ISOLATION_USERNS,
};

struct husk_options {
    const char *launcher; /* path of husk-launcher; default: beside the running program */
    /* more templates; default: $HUSK_TEMPLATE_DIR, else the user's and the system's */
    const char *template_dir;
    enum husk_isolation min_isolation;
};

int husk_open(const struct husk_options *options, struct husk_engine **ret, struct husk_error *e);
void husk_close(struct husk_engine *engine); /* kills every box; NULL is fine */

/* ---- one run ---- */

enum husk_kind {
    HUSK_SCRIPT = 0, /* run as a program; exit code as the language defines it */
    HUSK_CELL,       /* like a notebook cell: the value of a last expression is reported */
    HUSK_HANDLER, /* define handler(event[, context]), call it, report what it returns (no shell) */
};

struct husk_limits {
    uint64_t memory_bytes; /* of all processes and files; default 1 GiB */
    /* of one process, without files, if it is to be less; default 0: no bound of its own */
    uint64_t process_bytes;
    uint64_t disk_bytes; /* default 256 MiB, or less when memory is small */
    uint64_t timeout_ms; /* default 30 s */
    /* per stream, default 64 MiB: more ends the run with cause output_limit */
    uint64_t output_bytes;
    uint32_t cpu_milli;  /* default 1000: one core */
    uint32_t pids;       /* default 128 */
    uint32_t inodes;     /* default 65536 */
    uint32_t open_files; /* default 1024 */
};

struct husk_mount {
    const char *host; /* existing file or directory */
    const char *box;  /* absolute path inside; must not hide the runtime */
    bool read_only;
};

struct husk_file {
    const char *name; /* relative to the workspace, no ".." */
    const void *data;
    size_t len;
};

enum husk_stream { HUSK_STDOUT = 1, HUSK_STDERR = 2 };

/*
 * Rules for code, checked in the box before it runs. They are lint: what keeps code in is the box.
 */
enum husk_policy {
    HUSK_POLICY_NONE = 0,
    /* few modules, no eval and no way around; see runtimes/python/policy.py */
    HUSK_POLICY_PYRUNNER,
};

struct husk_spec {
    /* "python" (default), "shell", "node", "python-datascience", a user's own */
    const char *template_name;
    enum husk_kind kind;
    const char *code; /* at most 4 MiB */
    size_t code_len;
    const char *name; /* shown in tracebacks; default "<cell>" */

    const char *const *args; /* NULL-terminated or NULL: sys.argv[1:], $1 ... */
    const char *const *env;  /* NULL-terminated "NAME=value", or NULL */
    const void *stdin_data;  /* given whole; NULL with stdin_fd < 1 means an empty stdin */
    size_t stdin_len;
    int stdin_fd; /* > 0: read from here instead (0 is not possible: dup() it first) */
    const struct husk_file *files; /* written to the workspace before the program starts */
    size_t n_files;
    const char *const *outputs;      /* NULL-terminated workspace paths to bring back, or NULL */
    const struct husk_mount *mounts; /* a run with mounts never uses the pool */
    size_t n_mounts;
    const char *event;   /* HUSK_HANDLER: JSON text, default "{}" */
    const char *context; /* HUSK_HANDLER: JSON object of context fields, default "{}" */
    const char *handler; /* HUSK_HANDLER, Python: name of the function, default "handler" */

    /* python only, any kind, also for a session's cells */
    bool rich;       /* displays in the result: last value, display(...), figures of matplotlib */
    bool auto_print; /* print the last expression's value unless it is None */
    enum husk_policy policy;      /* broken: error.type "PolicyViolation", and nothing has run */
    const char *const *variables; /* NULL-terminated global names to report as JSON, or NULL */
    bool artifacts; /* a session's cell: name the files of the workspace that it made or changed */

    struct husk_limits limits;
    uint64_t keep_bytes; /* per stream: how much output the result keeps; default 1 MiB */
    bool no_metrics;     /* a session's cell: do not measure what it cost */
    bool no_pool;        /* make a fresh box, and no template preload: for one-shot programs */
    int cancel_fd;       /* > 0: when it becomes readable, the run is cancelled */

    /* Called with output as it arrives, also beyond keep_bytes. */
    void (*on_output)(void *user, enum husk_stream stream, const char *data, size_t n);
    void *user;
};

enum husk_status {
    HUSK_COMPLETED, /* exit code 0 */
    HUSK_FAILED,    /* exit code not 0, an exception, disk full, too much output */
    HUSK_TIMEOUT,
    HUSK_MEMORY_EXCEEDED,
    HUSK_CANCELLED,
    HUSK_CRASHED, /* a signal, a forbidden system call, or the box broke */
};

enum husk_cause {
    HUSK_CAUSE_EXIT,
    HUSK_CAUSE_TIMEOUT,
    HUSK_CAUSE_OOM,
    HUSK_CAUSE_SIGNAL,
    HUSK_CAUSE_SECCOMP,
    HUSK_CAUSE_DISK,
    HUSK_CAUSE_OUTPUT_LIMIT,
    HUSK_CAUSE_INTERNAL,
};

struct husk_metrics {
    double duration_ms; /* from handing over the code to its result */
    double queue_ms;    /* waiting for a box; in the server also for its turn */
    double cpu_time_ms;
    /*
     * Most memory of the sandbox while this run or cell ran, files included; cells that run at the
     * same time in one session share it. 0: not known (a cell, cgroup v2 before Linux 6.12)
     */
    double peak_memory_mb;
    uint64_t io_read_bytes;
    uint64_t io_write_bytes;
    /*
     * Processes and threads that the sandbox had when the run or cell ended; 0: it ended with them,
     * or nothing counts them (no cgroups)
     */
    uint32_t processes;
};

/* What is actually enforced around the run. */
struct husk_receipt {
    char backend[16];        /* "native" */
    char isolation[16];      /* "full" or "userns": the level that was reached */
    char missing[256];       /* layers not enforced, comma-separated; empty at full */
    char namespaces[64];     /* "user,mount,pid,net,ipc,uts,cgroup" */
    char seccomp[96];        /* profile and the digest of its program: "default:1f2e..." */
    char cgroup[16];         /* "v1", "v2", "hybrid"; "none": they limit nothing */
    int landlock_abi;        /* 0: absent */
    uint64_t id_block_start; /* first host id of the box's private block */
    uint64_t id_block_size;
    char network[16];       /* "none" */
    bool warm;              /* the box came from the pool */
    char template_name[64]; /* the operator's template: its modules ran before the box was made, */
    bool imports;           /* if it has any; else only husk's own code did */
    /*
     * Boxes of the same zygote whose filter, ids and capabilities were read from outside before
     * this one was made, and fit. 0 if nothing was imported: there is nothing to doubt.
     */
    uint32_t boxes_checked;
    uint64_t zygote_age_ms; /* its boxes share address layout and hash seed */
    struct husk_limits limits;
};

struct husk_output_file {
    char *name;
    char *data; /* NULL when it could not be brought */
    size_t len;
    char *error; /* NULL when it was */
};

/* One form of something that was displayed. */
struct husk_mime {
    char *type; /* "image/png": type/subtype, at most 100 bytes, no parameters */
    char *data; /* NUL-terminated. Bytes as they are, not base64; text, JSON and XML are UTF-8 */
    size_t len;
};

/* One thing that was displayed, in all forms that it has. The first one is text/plain as a rule. */
struct husk_display {
    struct husk_mime *forms; /* at least one, each type once */
    size_t n_forms;
};

struct husk_result {
    enum husk_status status;
    /* as a shell reports it: 128+signal after a signal, 124 timeout, 137 out of memory */
    int exit_code;
    char *out; /* stdout, NUL-terminated, may hold any bytes */
    size_t out_len;
    bool out_truncated;
    char *err; /* stderr */
    size_t err_len;
    bool err_truncated;
    char *value;      /* text of the last expression or of the handler's answer; NULL: none */
    char *value_json; /* the same as JSON when it can be said in JSON; NULL otherwise */
    struct {
        char *type; /* NULL: no exception. "NameError" */
        char *message;
        char *traceback; /* starts at the user's first line; NULL after a policy violation */
    } error;
    struct {
        enum husk_cause cause;
        char detail[160];
        char limit[64]; /* the limit that ended the run: "memory 64 MiB"; empty: none */
    } termination;
    struct husk_metrics metrics;
    struct husk_receipt receipt;
    struct husk_output_file *files;
    size_t n_files;
    struct husk_display *displays; /* spec.rich, in the order of display; at most 64 and 16 MiB */
    size_t n_displays;
    char *variables_json;   /* spec.variables: one JSON object, at most 1 MiB; NULL: did not run */
    char *artifacts_json;   /* spec.artifacts: a JSON array of paths, at most 1,000; NULL: none */
    bool displays_dropped;  /* there were more, or larger ones; or the value was cut */
    bool variables_dropped; /* some did not fit */
    /*
     * Of a session: why another interpreter took the place of this context's, so that its variables
     * are gone: "timeout", "memory_exceeded", "cancelled", "crashed", "output_limit", "exited". A
     * static text; NULL: it goes on.
     */
    const char *restart;
};

int husk_run(struct husk_engine *engine, const struct husk_spec *spec, struct husk_result **ret,
             struct husk_error *e);
void husk_result_free(struct husk_result *result); /* NULL is fine */

const char *husk_status_name(enum husk_status status); /* "completed", ... */
const char *husk_cause_name(enum husk_cause cause);    /* "exit", ... */

/* The whole result as one JSON object, owned by the caller. NULL when memory is gone. */
char *husk_result_json(const struct husk_result *result);

/* ---- pool ---- */

struct husk_pool_stats {
    uint32_t parked;
    /* of these: ready to run at once. The rest of a large pool is smaller, and slower to answer */
    uint32_t warm;
    uint32_t starting;
    uint64_t hits;   /* runs that found a parked box */
    uint64_t misses; /* runs that had to wait for one */
    uint64_t dead;   /* parked boxes found dead and replaced */
};

/*
 * Keeps between min and max boxes of a template parked, made with these limits; refilled as they
 * are taken.
 */
int husk_pool_set(struct husk_engine *engine, const char *template_name,
                  const struct husk_limits *limits, uint32_t min, uint32_t max,
                  struct husk_error *e);
int husk_pool_wait(struct husk_engine *engine, const char *template_name, uint32_t parked,
                   struct husk_error *e); /* returns when that many are parked */
int husk_pool_stats(struct husk_engine *engine, const char *template_name,
                    struct husk_pool_stats *ret, struct husk_error *e);

/* ---- sessions: many cells in one interpreter (python) ---- */

int husk_session_open(struct husk_engine *engine, const struct husk_spec *spec,
                      struct husk_session **ret, struct husk_error *e);
void husk_session_close(struct husk_session *session);

/*
 * Runs a cell in a context. 0 is the first context. Variables live on. At spec->limits.timeout_ms
 * the cell is interrupted (SIGINT, state survives); if it does not stop within two seconds, the
 * context is killed and made anew.
 */
int husk_session_run(struct husk_session *session, uint32_t context, const struct husk_spec *spec,
                     struct husk_result **ret, struct husk_error *e);
int husk_session_reset(struct husk_session *session, uint32_t context, struct husk_error *e);

/* A checkpoint is a parked copy of a context; restore goes back to it, any number of times. */
int husk_session_checkpoint(struct husk_session *session, uint32_t context, uint32_t *ret,
                            struct husk_error *e);
int husk_session_restore(struct husk_session *session, uint32_t context, uint32_t checkpoint,
                         struct husk_error *e);
/* A new context with a copy of all variables of this one. */
int husk_session_branch(struct husk_session *session, uint32_t context, uint32_t *ret,
                        struct husk_error *e);

/* ---- templates ---- */

enum husk_language { HUSK_PYTHON, HUSK_SHELL, HUSK_JAVASCRIPT };

struct husk_template_info {
    char name[64];
    enum husk_language language;
    char runtime[256]; /* path of the interpreter inside the box */
    char origin[512];  /* "built in", or the file it was read from */
    char about[160];
    char preload[1024];          /* module names, space-separated */
    char preload_optional[1024]; /* likewise: those that can be imported are */
    char missing[256];           /* why it cannot run here; empty: it can */
    struct husk_limits limits;
};

/*
 * All templates, sorted by name; dir NULL: the default one. Works without an engine. Owned by the
 * caller, free().
 */
int husk_template_list(const char *dir, struct husk_template_info **ret, size_t *n,
                       struct husk_error *e);

struct husk_template_start {
    double ms;      /* until its zygote was ready, with its preloads */
    char note[400]; /* preloads that its boxes do without: "NAME: REASON; ..."; empty: none */
};

/* Starts a template with its preloads, unless the engine has. The error names what fails. */
int husk_template_start(struct husk_engine *husk, const char *name, struct husk_template_start *ret,
                        struct husk_error *error);

/*
 * Compiles those modules of a template's Python environment that have no .pyc file, in a box, into
 * the folder that the template names. Says how many; may take minutes.
 */
int husk_template_compile(struct husk_engine *husk, const char *name, uint32_t *ret_modules,
                          struct husk_error *error);

/*
 * Writes a template file for a virtual environment or a Python prefix. The path is an interpreter
 * or its directory.
 */
int husk_template_add(const char *name, const char *python, const char *const *preload,
                      char *ret_path, size_t path_size, struct husk_error *e);

/* ---- what the host offers ---- */

struct husk_layer {
    const char *name; /* "user namespace", "seccomp", ... */
    bool mandatory;   /* at HUSK_ISOLATION_FULL */
    bool present;
    char fact[160];  /* what was found: "Landlock ABI 7" */
    const char *why; /* what it protects from */
    const char *fix; /* how to get it */
};

/* Fills up to max rows, returns how many there are. Works without an engine. */
size_t husk_doctor(struct husk_layer *rows, size_t max);

const char *husk_version(void);
