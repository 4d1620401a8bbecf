/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What outlives a client: descriptors of boxes that it asked us to keep, and the EXIT events of
 * boxes that ended.
 *
 * A supervised launcher does not end with its client. The client's successor gets the kept
 * descriptors back and continues. The launcher never reads or writes these descriptors.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "launcher/launcher.h"

/* gcc 12's analyzer loses sight of a place once it is in the list; keep_drop() frees it. */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

struct place {
    struct place *next;
    uint32_t slot;
    uint8_t note[LAUNCHER_NOTE_MAX];
    struct fd_set_msg fds;
};

struct kept {
    struct place *places;
    struct launcher_rep exit; /* its EXIT event, once it is BOX_DEAD */
};

int keep_put(struct launcher *l, struct box_entry *box, const struct launcher_req *req,
             struct fd_set_msg *fds, struct err *e)
{
    struct place *p = calloc(1, sizeof(*p));

    if (box->kept == NULL) {
        box->kept = calloc(1, sizeof(*box->kept));
    }
    if (p == NULL || box->kept == NULL) {
        free(p);
        return err_sys(e, ENOMEM, "keep descriptors of box %u", box->id);
    }
    if (box->cgroup != NULL) {
        cgroup_fold(box->cgroup, true); /* a session's: there may be many, for hours */
    }
    keep_drop(l, box, req->keep.slot);
    p->slot = req->keep.slot;
    memcpy(p->note, req->keep.note, sizeof(p->note));
    p->next = box->kept->places;
    box->kept->places = p;
    for (size_t i = 0; i < fds->n; i++) {
        int r = fdlimit_settle(l, &fds->fds[i]);
        if (r < 0) { /* the note stays: a successor must know that there was something */
            return err_sys(e, -r, "keep descriptors of box %u", box->id);
        }
    }
    p->fds = *fds;
    fds->n = 0;
    return 0;
}

void keep_drop(struct launcher *l, struct box_entry *box, uint32_t slot)
{
    if (box->kept == NULL) {
        return;
    }
    for (struct place **at = &box->kept->places; *at != NULL; at = &(*at)->next) {
        struct place *p = *at;
        if (p->slot == slot) {
            *at = p->next;
            closer_close_set(l, &p->fds);
            free(p);
            return;
        }
    }
}

void keep_drop_all(struct launcher *l, struct box_entry *box)
{
    while (box->kept != NULL && box->kept->places != NULL) {
        keep_drop(l, box, box->kept->places->slot);
    }
    free(box->kept);
    box->kept = NULL;
}

void keep_exit(struct box_entry *box, const struct launcher_rep *rep)
{
    box->kept->exit = *rep;
}

/* Ends boxes that no successor can reach, and templates that are not ready. */
void keep_client_gone(struct launcher *l)
{
    for (size_t i = 0; i < BOXES_MAX; i++) {
        struct box_entry *box = &l->boxes[i];
        bool alive = box->state == BOX_SPAWNING || box->state == BOX_LIVE;
        if (alive && box->kept == NULL) {
            box->silent = true;
            box_end(l, box, LAUNCHER_END_FINISHED);
        }
    }
    for (uint32_t i = 0; i < TEMPLATES_MAX; i++) {
        l->templates[i].start_seq = 0;
        if (l->templates[i].state == TEMPLATE_BUILDING ||
            l->templates[i].state == TEMPLATE_STARTING) {
            template_stop(l, i); /* no successor would know of it */
        }
    }
}

static void tell_kept(struct launcher *l, const struct box_entry *box)
{
    for (const struct place *p = box->kept->places; p != NULL; p = p->next) {
        struct launcher_rep rep = {
            .event = LAUNCHER_EV_KEPT,
            .template_id = box->template_id,
            .box_id = box->id,
            .kept.slot = p->slot,
        };
        memcpy(rep.kept.note, p->note, sizeof(rep.kept.note));
        reply_with(l, &rep, p->fds.fds, p->fds.n);
    }
}

/* Its counters are closed while it is kept: the successor gets descriptors of its own. */
static void describe_kept(struct launcher *l, struct box_entry *box)
{
    if (box->cgroup != NULL) {
        (void)cgroup_unfold(box->cgroup); /* without them it asks us for figures */
    }
    box_describe(l, box, 0);
    if (box->cgroup != NULL) {
        cgroup_fold(box->cgroup, true);
    }
}

void keep_adopt(struct launcher *l)
{
    for (uint32_t i = 0; i < TEMPLATES_MAX; i++) {
        const struct template *t = &l->templates[i];
        struct launcher_rep rep = {
            .event = LAUNCHER_EV_TEMPLATE,
            .template_id = i,
            .template.boxes = t->boxes_max,
            .template.definition = t->definition,
            .template.age_ms = (clock_ns() - t->ready) / NS_PER_MS,
            .template.made = t->made,
        };
        if (t->state == TEMPLATE_RUNNING) {
            memcpy(rep.template.name, t->name, sizeof(rep.template.name));
            memcpy(rep.template.note, t->note, sizeof(rep.template.note));
            reply(l, &rep);
        }
    }
    for (size_t i = 0; i < BOXES_MAX; i++) {
        struct box_entry *box = &l->boxes[i];
        if (box->state == BOX_FREE || box->kept == NULL) {
            continue;
        }
        if (box->is_orphan) { /* its template_id may mean another template now */
            tell_kept(l, box);
            box_forget(l, box);
            continue;
        }
        describe_kept(l, box);
        tell_kept(l, box);
        if (box->state == BOX_DEAD || box->state == BOX_LINGERING) {
            reply(l, &box->kept->exit);
        }
    }
}
