/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sweeping; see sweep.h.
 *
 * Everything is stopped first, by one call that no fork escapes: then no process can fork, exit or
 * change parents while we look. A process that has lost its parent is judged by its age alone. Like
 * all of PID 1 this must not allocate.
 */
#include "runner/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/units.h"
#include "runner/fileworkers.h"
#include "runner/pid1.h"
#include "wire/frame.h"

#define PROCESSES_MAX (32768 + 64) /* a box's most, and a few that are dead */
#define NS_PER_TICK 10000000u      /* of start times in /proc */
#define PATIENCE_MS 1000u          /* until those that are killed are gone */
/* In /proc/PID/stat. */
enum { FIELD_STATE = 3, FIELD_PARENT = 4, FIELD_THREADS = 20, FIELD_START = 22 };

struct process {
    pid_t pid;
    pid_t parent;
    uint64_t started; /* ticks since boot */
    bool is_dead;     /* and not reaped. False if only its first thread is dead */
    bool spared;
};

struct order {
    pid_t contexts[CONTEXTS_MAX];
    size_t n;
    uint64_t since; /* ticks */
    uint64_t number;
};

static struct process table[PROCESSES_MAX]; /* by pid: /proc lists them so */
static size_t n_processes;

/* Numbers behind the name, which may contain any characters. */
static bool parse_stat(char *text, struct process *ret)
{
    char *at = strrchr(text, ')');
    char *rest = NULL;
    int field = 2;

    for (char *word = at != NULL ? strtok_r(at + 1, " ", &rest) : NULL; word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        field++;
        if (field == FIELD_STATE) {
            ret->is_dead = *word == 'Z' || *word == 'X';
        } else if (field == FIELD_PARENT) {
            ret->parent = (pid_t)strtol(word, NULL, 10);
        } else if (field == FIELD_THREADS) {
            ret->is_dead = ret->is_dead && strtol(word, NULL, 10) <= 1;
        } else if (field == FIELD_START) {
            ret->started = strtoull(word, NULL, 10);
            return true;
        }
    }
    return false;
}

/* 1, 0 if it is not a process or is gone, or -errno. */
static int read_process(int proc, const char *name, struct process *ret)
{
    char path[32];
    char text[512];

    *ret = (struct process){.pid = (pid_t)strtol(name, NULL, 10)};
    if (ret->pid <= 1 || str_format(path, sizeof(path), "%s/stat", name) < 0) {
        return 0;
    }
    AUTO_CLOSE int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n < 0) {
        return errno == ENOENT || errno == ESRCH ? 0 : -errno;
    }
    text[n] = '\0';
    return parse_stat(text, ret) ? 1 : -EBADMSG;
}

/* 0, or -errno if one may be missing. */
static int read_processes(int proc)
{
    struct entry {
        uint64_t inode;
        int64_t offset;
        uint16_t len;
        uint8_t type;
        char name[];
    };
    char list[4096] __attribute__((aligned(8)));
    int result = 0;
    long n;

    n_processes = 0;
    (void)lseek(proc, 0, SEEK_SET);
    while ((n = syscall(SYS_getdents64, proc, list, sizeof(list))) > 0) {
        for (long at = 0; at < n;) {
            const struct entry *e = (const void *)(list + at);
            at += e->len;
            int r = n_processes < PROCESSES_MAX ? read_process(proc, e->name, &table[n_processes])
                                                : -E2BIG;
            n_processes += r > 0 ? 1 : 0;
            result = r < 0 ? r : result;
        }
    }
    return n < 0 ? -errno : result;
}

static struct process *find(pid_t pid)
{
    size_t low = 0;
    size_t high = n_processes;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle].pid == pid) {
            return &table[middle];
        }
        if (table[middle].pid < pid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* Spares other contexts, and what they and their descendants have started. */
static void spare(const struct order *o)
{
    bool more = true;

    for (size_t i = 1; i < o->n; i++) {
        struct process *p = find(o->contexts[i]);
        if (p != NULL) {
            p->spared = true;
        }
    }
    while (more) {
        more = false;
        for (size_t i = 0; i < n_processes; i++) {
            const struct process *parent = find(table[i].parent);
            if (!table[i].spared && parent != NULL && parent->spared) {
                table[i].spared = true;
                more = true;
            }
        }
    }
}

/*
 * How many were still alive. Reaps the dead children of ours here: no client waits for their end.
 */
static size_t kill_young(const struct order *o)
{
    size_t alive = 0;

    for (size_t i = 0; i < n_processes; i++) {
        const struct process *p = &table[i];
        bool is_ours = p->pid == o->contexts[0] || pid1_has(p->pid) || pid1_has_driver(p->parent) ||
                       fileworkers_has(p->pid);
        if (p->spared || is_ours || p->started < o->since) {
            continue;
        }
        if (!p->is_dead) {
            (void)kill(p->pid, SIGKILL);
            alive++;
        } else if (p->parent == 1) {
            (void)waitpid(p->pid, NULL, WNOHANG);
        }
    }
    return alive;
}

static struct order read_order(const struct buf *request)
{
    struct order o = {.since = UINT64_MAX};
    struct frame_field f;
    uint64_t ns;
    uint32_t pid;

    for (size_t at = 0; frame_next(request->data, request->len, &at, &f) > 0;) {
        if (f.key == KEY_PID && o.n < CONTEXTS_MAX && frame_field_u32(&f, &pid) == 0) {
            o.contexts[o.n++] = (pid_t)pid;
        } else if (f.key == KEY_SINCE && frame_field_u64(&f, &ns) == 0) {
            o.since = ns / NS_PER_TICK;
        } else if (f.key == KEY_ORDER) {
            (void)frame_field_u64(&f, &o.number);
        }
    }
    return o;
}

int sweep(const struct buf *request, uint64_t *ret_order)
{
    struct order o = read_order(request);
    AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t until = clock_ms() + PATIENCE_MS;
    const struct timespec pause = {.tv_nsec = NS_PER_MS};
    int r = -ETIMEDOUT;

    *ret_order = o.number;
    if (proc < 0) {
        return -errno;
    }
    (void)kill(-1, SIGSTOP); /* all but ourselves */
    while (clock_ms() < until) {
        r = read_processes(proc);
        spare(&o);
        if (kill_young(&o) == 0 && r == 0) {
            break;
        }
        r = r < 0 ? r : -ETIMEDOUT;
        nanosleep(&pause, NULL); /* until the killed ones are gone */
    }
    (void)kill(-1, SIGCONT);
    return r;
}
