/* SPDX-License-Identifier: Apache-2.0 */
/* Templates and the messages of their zygotes, from start to end; see launcher.h. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/units.h"
#include "box/sys.h"
#include "launcher/launcher.h"

#define WORDS_AT_ONCE 64    /* messages of a zygote before others get their turn */
#define LAST_WORDS_MAX 1024 /* more than a socket holds */

/* To the client, and for the operator of a server to the log. */
static void report_failure(struct launcher *l, uint32_t id, const struct err *e)
{
    const struct template *t = &l->templates[id];
    char words[600];

    reply_error(l, t->start_seq, id, e);
    if (l->supervised) {
        last_words_read(t->last_words, words, sizeof(words));
        log_error("template_failed", "template=%s error=\"%s\" stderr=\"%s\"", t->name, e->msg,
                  words);
    }
}

static void answer_start(struct launcher *l, struct template *t, uint32_t id, const struct err *e)
{
    struct launcher_rep rep = {.event = LAUNCHER_EV_OK, .seq = t->start_seq, .template_id = id};

    if (e == NULL) {
        memcpy(rep.template.note, t->note, sizeof(rep.template.note));
        t->state = TEMPLATE_RUNNING;
        t->start_deadline = 0;
        fd_close(&t->devices);
        fd_close(&t->last_words);
        root_plan_release(&t->plan); /* the mounts live in the zygote's namespace now */
        reply(l, &rep);
    } else {
        report_failure(l, id, e);
    }
}

/* Frees everything. The zygote, if there was one, is dead. */
static void template_clear(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];

    if (t->pidfd >= 0) {
        (void)waitid(P_PIDFD, (id_t)t->pidfd, NULL, WEXITED | WNOHANG); /* a debugger may hold it */
    }
    inspect_end(l, t);
    box_orphaned(l, id);
    fd_close(&t->pidfd);
    closer_close_one(l, &t->socket);
    fd_close(&t->devices);
    fd_close(&t->last_words);
    box_cgroup_free_all(t);
    cgroup_free(t->cgroup);
    guard_drop(l, id);
    lease_drop(&t->lease);
    root_plan_release(&t->plan);
    free(t->free_blocks);
    memset(t, 0, sizeof(*t));
}

/*
 * A zygote or a box can leave the kernel minutes of work before it is gone: other templates must
 * not wait for that. template_await() does the rest when the zygote's pidfd reports its end.
 */
void template_stop(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];

    if (t->pidfd < 0) {
        template_clear(l, id);
        return;
    }
    (void)sys_pidfd_signal(t->pidfd, SIGKILL);
    t->state = TEMPLATE_ENDING;
    t->start_deadline = 0;
    box_doom(l, id);
}

void template_await(struct launcher *l, uint32_t id)
{
    struct pollfd gone = {.fd = l->templates[id].pidfd, .events = POLLIN};

    if (l->templates[id].state == TEMPLATE_ENDING) {
        while (poll(&gone, 1, -1) < 0 && errno == EINTR) {
        }
        template_clear(l, id);
    }
}

void template_refuse(struct launcher *l, uint32_t id, const struct err *e)
{
    struct template *t = &l->templates[id];
    struct err why = *e;

    if (t->state == TEMPLATE_ENDING) {
        return; /* its client knows why, or is gone */
    }
    err_wrap(&why, "template %s", t->name);
    report_failure(l, id, &why);
    template_stop(l, id);
}

void template_ready(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];

    if (t->state == TEMPLATE_STARTING && t->start.imports && t->checked == 0) {
        struct err e = {0};
        err_set(&e, ERR_ISOLATION, "its first box ended while it was set up");
        template_refuse(l, id, &e);
    } else if (t->state == TEMPLATE_STARTING) {
        t->ready = clock_ns();
        answer_start(l, t, id, NULL);
    }
}

/*
 * A process that a preload left behind would live on beside the boxes, and a thread could hold
 * locks that a fork copies without the thread.
 */
static int check_alone(const struct template *t, struct err *e)
{
    uint64_t n = cgroup_processes(t->cgroup);

    return n <= 1 ? 0
                  : err_set(e, ERR_TEMPLATE,
                            "its preloads left %" PRIu64 " processes or threads running", n - 1);
}

static void zygote_is_ready(struct launcher *l, uint32_t id, const char *note)
{
    struct template *t = &l->templates[id];
    struct err e;

    if (t->said_ready) {
        template_lied(l, id);
        return;
    }
    t->said_ready = true;
    last_words_clean(t->note, sizeof(t->note), note, strlen(note));
    if (t->state != TEMPLATE_STARTING) {
        return;
    }
    if (check_alone(t, &e) < 0 || (t->start.imports && inspect_probe(l, id, &e) < 0)) {
        template_refuse(l, id, &e);
    } else if (!t->start.imports) {
        template_ready(l, id); /* nothing but our own code has run in it */
    }
}

/* Its modules can have it say anything: what is shown are words, in one line. */
static void refuse_broken(struct launcher *l, uint32_t id, const struct err *said)
{
    struct err e = {.code = said->code != ERR_NONE ? said->code : ERR_TEMPLATE};

    last_words_clean(e.msg, sizeof(e.msg), said->msg, strlen(said->msg));
    template_refuse(l, id, &e);
}

static void zygote_says(struct launcher *l, uint32_t id, struct zygote_rep *rep,
                        struct fd_set_msg *fds)
{
    switch (rep->event) {
    case ZYGOTE_READY:
        zygote_is_ready(l, id, rep->err.msg);
        break;
    case ZYGOTE_BROKEN:
        if (l->templates[id].state == TEMPLATE_STARTING) {
            refuse_broken(l, id, &rep->err);
        }
        break;
    default:
        box_zygote_event(l, id, rep, fds);
        break;
    }
}

void template_lied(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];

    (void)sys_pidfd_signal(t->pidfd, SIGKILL);
    closer_close_one(l, &t->socket); /* with what it sent and we have not read */
}

/* At most so many: a zygote that floods its socket must not block the others. */
static void hear(struct launcher *l, uint32_t id, int most)
{
    struct template *t = &l->templates[id];
    struct zygote_rep rep;

    for (int i = 0; i < most && t->state >= TEMPLATE_STARTING && t->socket >= 0; i++) {
        struct fd_set_msg fds = {.n = 0};
        ssize_t n = fdlimit_recv(l, t->socket, &rep, sizeof(rep), &fds);
        if (n == -EAGAIN) {
            return;
        }
        if (n <= 0 || !zygote_rep_check(&rep, (size_t)n, fds.n)) {
            /*
             * Gone, or it broke the protocol: its death is then handled like any other. Dying may
             * take a while, in which its open socket would keep us awake.
             */
            closer_close_set(l, &fds);
            template_lied(l, id);
            return;
        }
        zygote_says(l, id, &rep, &fds);
        closer_close_set(l, &fds);
    }
}

void template_serve(struct launcher *l, uint32_t id)
{
    hear(l, id, WORDS_AT_ONCE);
}

/* " (signal 6)", " (exit status 1)", or "" if the kernel does not say. */
static void describe_end(const struct template *t, char *ret, size_t size)
{
    siginfo_t info = {0};

    ret[0] = '\0';
    if (waitid(P_PIDFD, (id_t)t->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0) {
        (void)str_format(ret, size, " (%s %d)",
                         info.si_code == CLD_EXITED ? "exit status" : "signal", info.si_status);
    }
}

static void explain_death(const struct template *t, struct err *ret)
{
    char words[260];
    char end[40];

    last_words_read(t->last_words, words, sizeof(words));
    const char *colon = words[0] != '\0' ? ": " : "";
    if (t->start_deadline == 0) {
        err_set(ret, ERR_TEMPLATE, "template %s: its zygote was not ready after %" PRIu64 " s%s%s",
                t->name,
                (t->start.patience_ms != 0 ? t->start.patience_ms : ZYGOTE_START_MS) / 1000, colon,
                words);
    } else if (cgroup_oom_kills(t->cgroup) > 0) {
        err_set(ret, ERR_TEMPLATE,
                "template %s: importing its modules takes more than %" PRIu64
                " MiB (preload_memory in the template)%s%s",
                t->name, (t->start.memory_bytes != 0 ? t->start.memory_bytes : ZYGOTE_MEMORY) / MIB,
                colon, words);
    } else {
        describe_end(t, end, sizeof(end));
        err_set(ret, ERR_TEMPLATE, "template %s: its zygote died while starting%s%s%s", t->name,
                end, colon, words);
    }
}

void template_died(struct launcher *l, uint32_t id)
{
    struct template *t = &l->templates[id];
    struct launcher_rep gone = {.event = LAUNCHER_EV_GONE, .template_id = id};
    struct err e;

    /* Its last messages first: one may say why it is broken. */
    hear(l, id, LAST_WORDS_MAX);
    if (t->state == TEMPLATE_STARTING) {
        explain_death(t, &e);
        answer_start(l, t, id, &e);
    } else if (t->state == TEMPLATE_RUNNING) {
        reply(l, &gone);
    }
    if (t->state == TEMPLATE_STARTING || t->state == TEMPLATE_RUNNING) {
        template_stop(l, id);
    }
}
