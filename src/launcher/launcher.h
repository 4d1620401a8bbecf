/* SPDX-License-Identifier: Apache-2.0 */
/*
 * husk-launcher: the only program that makes boxes. This header is its whole state and the seams
 * between its files:
 *
 *   main.c            start-up and the loop
 *   permit.c          which request is allowed when, and its handler
 *   operator.c        messages of the supervisor: clients, and definitions of templates
 *   template_build.c  templates under construction
 *   template_run.c    templates that run, and messages of their zygotes
 *   zygote_clone.c    starts a zygote
 *   last_words.c      a zygote's stderr until it is ready
 *   box.c             boxes: start and end
 *   box_cgroup.c      the cgroups of a template's boxes, and their reuse
 *   deadline.c        what is due: runs that take too long, zygotes that do not start or reap
 *   keep.c            descriptors of boxes that outlive the client
 *   inspect.c         inspects boxes from outside: are they what receipts say?
 *   ends.c            which descriptors a box may get
 *   closer.c          a bystander that closes descriptors whose close() may take long
 *   freeze.c          stops the box of an idle session
 *   usage.c           what a box has used
 *   pidfd.c           which process a pidfd refers to
 *   fdlimit.c         the limit of open descriptors
 *   lease.c           host id ranges, shared with other launchers on this kernel
 *   bystander.c       starts the guard and the closer
 *   guard.c           a bystander that cleans up if the launcher is killed
 *   caps.c            which capabilities are kept after start-up, and why
 *   rootless.c        becoming root of a user namespace when it is not root
 *
 * One client, one thread, no JSON, no path from outside. Everything is bounded by the constants
 * below.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/units.h"
#include "box/cgroup.h"
#include "box/root.h"
#include "launcher/lease.h"
#include "wire/launcher_msg.h"
#include "wire/zygote_msg.h"

#define TEMPLATES_MAX 64
#define BOXES_MAX 4096          /* a power of two: ids are slot plus generation */
#define TEARDOWN_MAX 256        /* boxes on their way out before new ones have to wait */
#define SPAWNS_MAX 32           /* births under way before the next request is read */
#define CGROUPS_KEPT 600        /* empty cgroups that a template holds for its next boxes */
#define ZYGOTE_PATIENCE_MS 5000 /* to start or to reap a box, which takes a millisecond */
/* How often running boxes are checked where the kernel kills one process only. */
#define OOM_WATCH_MS 100
#define ZYGOTE_MEMORY (2 * GIB)    /* of a zygote whose template sets none */
#define ZYGOTE_CPU_MILLI 2000      /* it works alone, beside the box that it is making */
#define INSPECT_MS 3000            /* a box under inspection ends by then in any case */
#define PROBE_MEMORY (64 * MIB)    /* of the first box, which is only inspected */
#define ZYGOTE_PIDS 64             /* some modules start programs when they are imported */
#ifndef ZYGOTE_START_MS            /* a test builds a launcher with less patience */
#    define ZYGOTE_START_MS 120000 /* a template that is not ready by then is broken */
#endif
#ifndef ASK_MS           /* likewise */
#    define ASK_MS 20000 /* from TEMPLATE to ASK, and from ASK to the definition */
#endif
#ifndef ORPHAN_MS            /* likewise */
#    define ORPHAN_MS 600000 /* for a client whose supervisor was killed to save files */
#endif

/*
 * TEMPLATE_ENDING: its zygote was killed; the entry is freed when the kernel has ended it and its
 * boxes.
 */
enum template_state {
    TEMPLATE_FREE = 0,
    TEMPLATE_BUILDING,
    TEMPLATE_STARTING,
    TEMPLATE_RUNNING,
    TEMPLATE_ENDING
};

struct template
{
    enum template_state state;
    char name[LAUNCHER_NAME_MAX];
    char base[LAUNCHER_NAME_MAX];
    uint64_t modules;
    uint32_t preload;
    uint32_t ticket; /* the supervisor was asked for its definition; 0: it was not */
    struct launcher_start start;
    struct root_plan plan;
    int devices;       /* its /dev until the zygote has it; -1: none */
    int last_words;    /* its stderr until it is ready; -1: none */
    bool has_writable; /* an id-mapped mount fits one box's ids only */
    uint32_t boxes_max;
    uint64_t definition; /* opaque: only clients use it */
    uint32_t boxes;      /* alive */
    struct lease lease;
    uint32_t *free_blocks; /* stack of id blocks, boxes_max deep */
    uint32_t n_free_blocks;
    /* the zygote */
    pid_t pid;
    int pidfd;
    int socket;
    struct cgroup *cgroup;
    /* Empty cgroups for its next boxes. Never another template's: its zygote may have kept their
     * descriptors. */
    struct cgroup *spare[CGROUPS_KEPT];
    size_t n_spare;
    uint32_t start_seq;      /* request to answer when it is ready */
    uint64_t start_deadline; /* ns */
    uint64_t worked;         /* ns: when it last started or reaped a box */
    bool said_ready;
    char note[sizeof(((struct launcher_rep *)0)->template.note)]; /* what it said about preloads */
    uint64_t ready;                                               /* ns: since when */
    uint64_t made;                                                /* boxes */
    /* inspect.c */
    pid_t inspector;    /* our child, while verdict is open */
    int verdict;        /* a pipe for the inspector's answer; -1: no inspection */
    int probe;          /* our end of the first box's control socket; -1: none */
    uint32_t inspected; /* the box */
    uint32_t checked;   /* boxes that passed an inspection */
};

/*
 * BOX_LINGERING: it was killed and is not gone yet; its client has its EXIT event. BOX_DEAD: it has
 * ended, its descriptors are kept, and no client has released it yet.
 */
enum box_state { BOX_FREE = 0, BOX_SPAWNING, BOX_LIVE, BOX_ENDING, BOX_LINGERING, BOX_DEAD };

struct kept; /* keep.c */

struct box_entry {
    enum box_state state;
    uint32_t id;
    uint32_t template_id;
    uint32_t block;
    int pidfd;
    int place; /* until it has started: reserves a number for its pidfd */
    struct cgroup *cgroup;
    uint64_t deadline; /* ns, 0: none */
    /* ns: a zygote that has not started or reaped it by then is stuck; 0: nothing is due */
    uint64_t zygote_by;
    uint32_t end; /* enum launcher_end: why we ended it */
    bool silent;  /* FINISH was answered: no client waits for the EXIT event */
    bool probe;   /* the first box of a zygote, which no client has asked for */
    bool was_inspected;
    bool was_announced; /* its zygote has reported that it started */
    uint64_t zygote_age_ms;
    uint32_t checked; /* these two as of the request */
    bool is_session;
    bool can_freeze; /* it was prepared */
    bool is_frozen;
    bool is_orphan; /* BOX_DEAD: its template is gone, and template_id may mean another one now */
    struct kept *kept;
};

struct launcher {
    int client;       /* -1: none now, the supervisor will send one */
    int supervisor;   /* -1: none, or it is gone: everything ends with the client */
    bool supervised;  /* definitions come from the supervisor, never from the client */
    uint32_t tickets; /* given out so far */
    int guard;        /* socket to the guard */
    int closer;       /* socket to the closer */
    pid_t closer_pid;
    pid_t closers_dying[8]; /* killed, and perhaps not gone yet; 0: none */
    uid_t client_uid;
    bool greeted;
    bool was_adopted;
    uint64_t first_epoch; /* of the first client that sent ADOPT; not ours to read */
    bool single_id;       /* not root: every box maps onto the one id we have */
    struct launcher_facts facts;
    struct rlimit files; /* rlim_cur: descriptors that stay open have lower numbers */
    struct cgroup_host *cgroups;
    struct template templates[TEMPLATES_MAX];
    struct box_entry boxes[BOXES_MAX];
    uint32_t generation;
    uint32_t ending;        /* boxes in BOX_ENDING */
    uint32_t spawning;      /* boxes in BOX_SPAWNING */
    uint64_t next_deadline; /* ns; nothing is due before it. 0: nothing armed */
    uint64_t end_by;        /* ns: the supervisor is gone, and the client may stay until then */
    bool watch_oom;         /* the kernel kills single processes: we end the rest */
};

/* permit.c: one request. False: it breaks the protocol, close the connection. */
bool permit_client(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds);
/* One message of the supervisor about a template that it was asked for. A stale one is dropped. */
void permit_operator(struct launcher *l, struct launcher_req *req, struct fd_set_msg *fds);

/* operator.c */
bool operator_serve(struct launcher *l); /* False: the launcher is to end. */
int operator_ask(struct launcher *l, uint32_t id, uint32_t seq, struct err *e);

/* main.c */
void reply(struct launcher *l, const struct launcher_rep *rep);
void reply_with(struct launcher *l, const struct launcher_rep *rep, const int *fds, size_t n);
void reply_ok(struct launcher *l, const struct launcher_req *req);
bool lose_client(struct launcher *l); /* False: the launcher is to end. */
int take_client(struct launcher *l, int fd, uid_t uid, struct err *e);
void hear_last_words(struct launcher *l);
void reply_error(struct launcher *l, uint32_t seq, uint32_t template_id, const struct err *e);

/* template_build.c */
struct template *template_at(struct launcher *l, uint32_t id); /* NULL: none, or it is ending */
int template_begin(struct launcher *l, const struct launcher_req *req, struct err *e);
int template_mount(struct launcher *l, const struct launcher_req *req, int fd, struct err *e);
int template_start(struct launcher *l, uint32_t id, uint32_t seq,
                   const struct launcher_start *start, struct err *e);

/* template_run.c */
/* Reports to the client why the template cannot start, and frees it. */
void template_refuse(struct launcher *l, uint32_t id, const struct err *e);
void template_lied(struct launcher *l, uint32_t id);  /* kills a zygote that broke the protocol */
void template_stop(struct launcher *l, uint32_t id);  /* kills zygote and boxes; never waits */
void template_await(struct launcher *l, uint32_t id); /* until they are gone */
void template_serve(struct launcher *l, uint32_t id); /* reads messages of the zygote */
void template_ready(struct launcher *l, uint32_t id); /* reports it to the client */
/* Its zygote is dying or dead: reports it to the client. */
void template_died(struct launcher *l, uint32_t id);

/* last_words.c: a zygote's stderr while it starts. Made printable, in one line; "": none. */
int last_words_open(struct err *e);
void last_words_read(int fd, char *ret, size_t size);
/* The same for any text of a zygote. Cuts to fit. */
void last_words_clean(char *ret, size_t size, const char *text, size_t n);

/* zygote_clone.c: sets pid, pidfd and socket, some of them also on -1. */
int zygote_clone(const struct launcher *l, struct template *t, struct err *e);

/* box.c */
struct box_entry *box_at(struct launcher *l, uint32_t id); /* NULL: no such box, or it is ending */
int box_new(struct launcher *l, const struct launcher_req *req, const struct fd_set_msg *fds,
            struct err *e);
void box_report_usage(struct launcher *l, const struct box_entry *box,
                      const struct launcher_req *req);
void box_finish(struct launcher *l, struct box_entry *box, const struct launcher_req *req);
void box_end(struct launcher *l, struct box_entry *box, enum launcher_end why);
void box_dismiss(struct launcher *l, struct box_entry *box); /* ends it without an EXIT event */
void box_zygote_event(struct launcher *l, uint32_t template_id, const struct zygote_rep *rep,
                      struct fd_set_msg *fds);
void box_orphaned(struct launcher *l, uint32_t template_id); /* the zygote died */
/* The host id of the box's user. */
uint64_t box_host_id(const struct launcher *l, const struct template *t,
                     const struct box_entry *box);
void box_describe(struct launcher *l, const struct box_entry *box, uint32_t seq); /* a BOX event */
void box_forget(struct launcher *l, struct box_entry *box); /* a dead one: the slot is free */

/* box_cgroup.c */
struct cgroup *box_cgroup_take(struct launcher *l, struct template *t, uint32_t box_id,
                               const struct launcher_req *req, struct err *e);
void box_cgroup_give(struct template *t, struct cgroup *cg);
void box_cgroup_free_all(struct template *t);

/* deadline.c */
void template_arm(struct launcher *l, struct template *t, uint64_t ms); /* deadline of its start */
void box_arm(struct launcher *l, struct box_entry *box, uint64_t ms);
void box_owed(struct launcher *l, struct box_entry *box); /* its zygote has to start or reap it */
/* Its zygote is dying: reports the end of all boxes to the client. */
void box_doom(struct launcher *l, uint32_t template_id);
void box_expire(struct launcher *l, uint64_t now);

/* keep.c: descriptors of boxes that outlive the client. */
int keep_put(struct launcher *l, struct box_entry *box, const struct launcher_req *req,
             struct fd_set_msg *fds, struct err *e);
void keep_drop(struct launcher *l, struct box_entry *box, uint32_t slot);
void keep_drop_all(struct launcher *l, struct box_entry *box);
void keep_exit(struct box_entry *box, const struct launcher_rep *rep); /* its EXIT event */
void keep_client_gone(struct launcher *l);
void keep_adopt(struct launcher *l);

/* inspect.c */
enum inspect_result { INSPECT_FITS = 0, INSPECT_NO_FIT, INSPECT_NOT_SEEN };
struct inspect_verdict {
    uint32_t result; /* enum inspect_result; NOT_SEEN: the box ended, or the kernel shows nothing */
    char why[96];
};
int inspect_probe(struct launcher *l, uint32_t id, struct err *e); /* requests the first box */
void inspect_born(struct launcher *l, struct box_entry *box);      /* the first box has started */
/* Inspects some boxes, at random. True: this one; a dismissed box ends after the verdict. */
bool inspect_sample(struct launcher *l, struct box_entry *box);
void inspect_serve(struct launcher *l, uint32_t id); /* there is a verdict */
void inspect_end(struct launcher *l, struct template *t);

/* ends.c: accepts only one end of a unix socketpair and three of pipes. */
int ends_check(const struct fd_set_msg *fds, struct err *e);
/* Descriptors of a session, to be kept: accepts only ends of socketpairs and pipes. */
int ends_check_kept(const struct fd_set_msg *fds, struct err *e);

/* closer.c: closes descriptors that others chose, without waiting. Negative ones are skipped. */
int closer_start(struct launcher *l, struct err *e);
void closer_close(struct launcher *l, int *fds, size_t n);
void closer_close_one(struct launcher *l, int *fd);
void closer_close_set(struct launcher *l, struct fd_set_msg *set);

/* freeze.c */
int box_freeze(struct box_entry *box, enum launcher_freeze how, struct err *e);

/* usage.c: what it has used so far, and on request how full its disk is. */
void usage_fill(const struct box_entry *box, bool want_disk, struct launcher_usage *ret);
/* Answers with what all boxes and zygotes use together. */
void usage_report_all(struct launcher *l, const struct launcher_req *req);

/* pidfd.c. */
pid_t pidfd_pid(int pidfd); /* -1: not known */
/* True for the first process of a pid namespace that is two below ours: zygotes are one below. */
bool pidfd_is_box(int pidfd);
/* Fails unless /proc shows our pid namespace: else a zygote's pid would name another process. */
int pidfd_check_proc(struct err *e);

/* fdlimit.c */
int fdlimit_open(struct launcher *l, struct err *e);
void fdlimit_use_all(const struct launcher *l); /* also the numbers reserved for receiving */
/* Like fd_recv(), without waiting; works at the limit. Closes descriptors that are too many. */
ssize_t fdlimit_recv(struct launcher *l, int sock, void *buf, size_t n, struct fd_set_msg *fds);
/* Whether a box that may live for hours would take what one-shot runs need; fds just came in. */
bool fdlimit_is_low(const struct launcher *l, const struct fd_set_msg *fds);
/* A received descriptor is to stay open. 0, or -errno: no number is free. */
int fdlimit_settle(const struct launcher *l, int *fd);

/* bystander.c: run() sends one byte when its rights are gone. Our end of the socket, or -1. */
struct bystander {
    const char *name;
    void (*run)(struct launcher *l, int end); /* returns on failure only */
    pid_t *ret_pid;
};
int bystander_start(struct launcher *l, const struct bystander *b, struct err *e);

/* guard.c: starts the guard; gives it a template's lease and zygote; takes them back. */
int guard_start(struct launcher *l, struct err *e);
int guard_hold(const struct launcher *l, uint32_t template_id, struct err *e);
void guard_drop(const struct launcher *l, uint32_t template_id);

/* rootless.c: becomes root of a new user namespace. */
int rootless_enter(struct err *e);
