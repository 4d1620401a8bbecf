/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to husk-launcher and its answers: fixed-size frames over a SEQPACKET socket.
 *
 * The launcher trusts no field: launcher_req_check() proves the shape (known operation, right
 * number of descriptors, terminated strings, limits in range), the handlers prove the meaning. A
 * frame that fails the first check closes the connection.
 *
 * A supervised launcher outlives its client. Boxes for which descriptors are kept (KEEP) live on,
 * and their EXIT events are kept until a client sends RELEASE; all others end with the client. The
 * next client takes them over with ADOPT.
 *
 * A template is built by a sequence: TEMPLATE, any number of MOUNT, LINK, ARG, ENV, then START. Its
 * descriptors are what its boxes will see; the launcher opens no path for a client.
 *
 * The operator decides what runs. A launcher that its client started takes all requests from it:
 * they are one user. A supervised launcher takes from its client TEMPLATE, which names one of the
 * operator's definitions, and ASK; it then asks its supervisor (struct launcher_want), which sends
 * the rest of the sequence over its own socket, or FAIL. No program, source, variable or module
 * ever comes from the client of a supervised launcher.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/usage_view.h"

#define LAUNCHER_PROTOCOL 5
#define LAUNCHER_NAME_MAX 64
#define LAUNCHER_PATH_MAX 256
#define LAUNCHER_TEXT_MAX 1024
#define LAUNCHER_BOXES_MAX 4095 /* of one template */
/* ms: a day more than a timeout may be */
#define LAUNCHER_DEADLINE_MAX ((uint64_t)8 * 24 * 3600 * 1000)
#define LAUNCHER_BOX_FDS 4            /* control socket, stdin, stdout, stderr */
#define LAUNCHER_KEEP_FDS 4           /* at most, in one place */
#define LAUNCHER_KEEP_SLOTS 160       /* places of a box */
#define LAUNCHER_ALL_BOXES UINT32_MAX /* USAGE: of all boxes and zygotes together */
#define LAUNCHER_NOTE_MAX 128
#define LAUNCHER_MODULES_MAX 64 /* that a definition offers: bits of a number */

enum launcher_op {
    LAUNCHER_HELLO = 1,
    LAUNCHER_TEMPLATE, /* begin a template; answered with its number */
    LAUNCHER_MOUNT,    /* one descriptor: what appears at path */
    LAUNCHER_LINK,     /* a symbolic link at path */
    LAUNCHER_ARG,      /* next argument of the zygote's program; the first is its path inside */
    LAUNCHER_ENV,      /* NAME=value for the zygote */
    LAUNCHER_START,    /* the template is complete: start the zygote; answered when it is ready */
    LAUNCHER_ASK,      /* have the operator complete and start it; answered when it is ready */
    LAUNCHER_FAIL,     /* the operator cannot: err says why. Answers ASK */
    LAUNCHER_STOP,     /* stop the zygote and all its boxes */
    LAUNCHER_BOX,      /* four descriptors: a new box */
    LAUNCHER_DEADLINE, /* a parked box begins its run: arm the deadline; no answer */
    LAUNCHER_USAGE,    /* report what the box has used so far */
    LAUNCHER_FINISH,   /* report the box's usage, then tear it down */
    LAUNCHER_RELEASE,  /* tear the box down without an EXIT event; no answer */
    LAUNCHER_KILL,     /* end the box now; its EXIT event follows */
    LAUNCHER_FREEZE,   /* stop every process of a session's box, or let them go on */
    LAUNCHER_KEEP,     /* hold these descriptors of a box for a later client; no answer */
    LAUNCHER_DROP,     /* close them; no answer */
    /* report what an earlier client left: TEMPLATE, BOX, KEPT, EXIT events, then OK */
    LAUNCHER_ADOPT,
    LAUNCHER_OPS
};

/*
 * How a descriptor appears in the box. A copy saves every box a mount, for small files that do not
 * change.
 */
enum launcher_place { LAUNCHER_READ_ONLY = 0, LAUNCHER_WRITABLE = 1, LAUNCHER_COPY = 2 };

enum launcher_isolation { LAUNCHER_FULL = 0, LAUNCHER_USERNS = 1 };
enum launcher_mode { LAUNCHER_ONCE = 0, LAUNCHER_SESSION = 1 };
/* What a new box does before it sends READY. */
enum launcher_warmth {
    LAUNCHER_FRESH = 0, /* gets the memory that a first run needs: its code is on the way */
    LAUNCHER_WARM = 1,  /* and runs the warm-up: it will be parked, and has to answer fast */
    LAUNCHER_COOL = 2,  /* neither: it will be parked behind others, and must be small */
};

/* A box must be PREPARED before a process of a user runs in it: then it can be frozen later. */
enum launcher_freeze { LAUNCHER_PREPARE = 0, LAUNCHER_FROZEN = 1, LAUNCHER_THAWED = 2 };

/* How a zygote is confined, and what its boxes may have at most. */
struct launcher_start {
    uint32_t seccomp;      /* index of the profile */
    uint32_t imports;      /* 1: modules are imported before there is a box */
    uint64_t memory_bytes; /* of the zygote; 0: the default */
    uint64_t patience_ms;  /* until it is ready; 0: the default */
    struct limits most;    /* of one box; a field that is 0 bounds nothing */
};

struct launcher_req {
    uint32_t op;
    uint32_t seq; /* repeated in the answer */
    uint32_t template_id;
    uint32_t box_id;
    union {
        struct {
            uint32_t protocol;
            uint32_t isolation; /* enum launcher_isolation: the least that is acceptable */
        } hello;
        struct {
            char name[LAUNCHER_NAME_MAX]; /* what its client calls it */
            char base[LAUNCHER_NAME_MAX]; /* the operator's definition that it is made from */
            uint64_t modules;             /* of those that the definition offers: also imported */
            uint32_t preload;             /* 1: the definition's own modules are imported */
            uint32_t boxes;               /* most boxes at a time, 1 to LAUNCHER_BOXES_MAX */
            uint64_t definition; /* which one of that name; for a successor of the client */
        } template;
        struct launcher_start start;
        struct err fail;
        struct {
            char path[LAUNCHER_PATH_MAX]; /* absolute inside the box */
            char link[LAUNCHER_PATH_MAX]; /* LINK: its text */
            uint32_t kind;                /* MOUNT: enum launcher_place */
        } place;
        char text[LAUNCHER_TEXT_MAX]; /* ARG, ENV */
        struct {
            struct limits limits;
            uint64_t deadline_ms; /* from now; 0: parked, LAUNCHER_DEADLINE sets it */
            uint32_t mode;        /* enum launcher_mode */
            uint32_t warmth;      /* enum launcher_warmth */
        } box;
        struct {
            uint64_t ms; /* from now; 0 takes it away */
        } deadline;
        struct {
            uint32_t disk; /* USAGE, FINISH: also how full the disk is */
        } usage;
        struct {
            uint32_t how; /* enum launcher_freeze */
        } freeze;
        struct {
            uint32_t slot; /* below LAUNCHER_KEEP_SLOTS; what is there is replaced */
            /* KEEP: returned as it is; the launcher never reads it */
            uint8_t note[LAUNCHER_NOTE_MAX];
        } keep;
        struct {
            uint64_t epoch; /* the client's own count of its starts; the launcher never reads it */
        } adopt;
    };
};

enum launcher_event {
    LAUNCHER_EV_OK = 1,   /* the request with this seq was done */
    LAUNCHER_EV_ERROR,    /* it was not; err says why */
    LAUNCHER_EV_HELLO,    /* facts about the host */
    LAUNCHER_EV_BOX,      /* the box exists; brings descriptors of its counters */
    LAUNCHER_EV_USAGE,    /* answer to USAGE and FINISH */
    LAUNCHER_EV_EXIT,     /* a box ended, by itself or not */
    LAUNCHER_EV_GONE,     /* a template's zygote died, and its boxes with it */
    LAUNCHER_EV_TEMPLATE, /* ADOPT: a zygote that runs */
    LAUNCHER_EV_KEPT,     /* ADOPT: descriptors of a box, as they were given */
};

/* Why the launcher ended a box, or that it did not. */
enum launcher_end {
    LAUNCHER_END_SELF = 0, /* it ended by itself: see wait_status */
    LAUNCHER_END_FINISHED,
    LAUNCHER_END_TIMEOUT,
    LAUNCHER_END_OOM,
    LAUNCHER_END_KILLED,
    LAUNCHER_END_ZYGOTE, /* its zygote died */
};

struct launcher_usage {
    uint64_t cpu_ns;
    uint64_t memory_now;
    uint64_t memory_peak;
    uint64_t io_read;
    uint64_t io_write;
    uint64_t oom_kills;
    uint64_t processes; /* and threads, now */
    uint64_t pids_refused;
    uint64_t disk_free;   /* bytes left on the box's file system */
    uint64_t inodes_free; /* UINT64_MAX for both: not known */
};

/* What is enforced; the same for every box of a launcher but for the id block. */
struct launcher_facts {
    uint32_t isolation; /* enum launcher_isolation that was reached */
    uint32_t instance;  /* a random number: numbers of boxes are unique only together with it */
    int32_t landlock_abi;
    char cgroup[16];
    char missing[256]; /* comma-separated layers */
    char seccomp[96];
    uint64_t id_start;
    uint64_t id_count;
    uint64_t zygote_age_ms;       /* BOX: since it was ready */
    char base[LAUNCHER_NAME_MAX]; /* BOX: the operator's definition that it is made from */
    uint32_t imports;             /* BOX: modules were imported before it was made */
    uint32_t can_freeze;          /* HELLO: some boxes; BOX: this one, since it is prepared */
    uint32_t is_frozen;           /* BOX */
    uint32_t boxes_checked;       /* BOX: earlier boxes of its zygote that passed an inspection */
};

struct launcher_rep {
    uint32_t event;
    uint32_t seq; /* 0: not an answer */
    uint32_t template_id;
    uint32_t box_id;
    union {
        struct err err; /* ERROR; GONE: why it may not be started again, or ERR_NONE */
        struct {
            struct launcher_facts facts; /* HELLO, BOX */
            struct usage_view view;      /* BOX: what the descriptors that came along are */
        };
        struct {
            struct launcher_usage usage; /* USAGE, EXIT */
            int32_t wait_status;         /* EXIT */
            uint32_t end;                /* enum launcher_end */
        } box;
        struct {
            char name[LAUNCHER_NAME_MAX];
            uint32_t boxes; /* most at a time */
            uint64_t definition;
            uint64_t age_ms; /* of its zygote */
            uint64_t made;   /* boxes, by it */
            char note[400];  /* also OK of START: what its zygote said about its preloads */
        } template;          /* TEMPLATE */
        struct {
            uint32_t slot;
            uint8_t note[LAUNCHER_NOTE_MAX];
        } kept; /* KEPT */
        struct {
            uint64_t epoch; /* of the first client that sent ADOPT */
        } adopted;          /* OK to ADOPT */
    };
};

/* From a supervisor to its launcher, with one descriptor: the socket of a new client. */
struct launcher_newcomer {
    uint32_t uid; /* the user that it runs as */
};

/*
 * A supervised launcher asks its supervisor for the rest of this template. Every frame of the
 * answer has this ticket as its seq.
 */
struct launcher_want {
    uint32_t template_id;
    uint32_t ticket;
    uint32_t preload;
    uint64_t modules;
    char base[LAUNCHER_NAME_MAX];
};

/* Proves that a frame of n bytes with nfds descriptors has the shape of its operation. */
bool launcher_req_check(const struct launcher_req *req, size_t n, size_t nfds);

bool launcher_want_check(const struct launcher_want *want, size_t n);

/* The same for answers, which the client does not trust either. */
bool launcher_rep_check(const struct launcher_rep *rep, size_t n);

/* An absolute path of plain components: no "", "." or "..", no trailing slash, not "/". */
bool launcher_path_check(const char *path);
