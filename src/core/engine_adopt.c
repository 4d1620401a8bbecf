/* SPDX-License-Identifier: Apache-2.0 */
/* Taking over what an earlier process left; see core.h. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/notebook_impl.h"

struct adoption {
    struct engine *engine;
    struct kept_notebook *notebooks;
    bool is_cut; /* there was no memory for something */
};

/*
 * A zygote of the definition that is in force serves on. One of another definition, as sessions
 * have whose template was changed or deleted, keeps its boxes and makes no more.
 */
static void on_template(void *user, const struct backend_left *left)
{
    const struct adoption *a = user;
    struct err ignored;
    struct live_template *live = live_get(a->engine, left->name, true, &ignored);

    if (live == NULL || live->open || live_definition(live) != left->definition) {
        live = live_retired(a->engine, left->name);
    }
    if (live != NULL) {
        live->open = true;
        live->id = left->id;
        live->boxes_asked = left->boxes;
        live->opened_ms = clock_ms() - MIN(left->age_ms, clock_ms());
        live->made = left->made;
        (void)str_copy(live->note, sizeof(live->note), left->note);
    }
}

/* Without memory for it the box ends: its guest stays unclaimed. */
static void adopt_notebook(struct adoption *a, struct guest *g)
{
    struct kept_notebook *kept = calloc(1, sizeof(*kept));

    if (kept == NULL || (kept->notebook = notebook_adopt(a->engine, g)) == NULL) {
        free(kept);
        return;
    }
    kept->box_id = g->box_id;
    kept->next = a->notebooks;
    a->notebooks = kept;
    g->claimed = true;
}

static void on_guest(void *user, uint32_t template_id, struct backend_birth *birth)
{
    struct adoption *a = user;
    struct err ignored;

    for (struct live_template *t = a->engine->templates; t != NULL; t = t->next) {
        if (t->open && t->id == template_id) {
            struct guest *g = guest_adopt(a->engine, t, birth);
            if (g != NULL) {
                adopt_notebook(a, g);
            }
            return;
        }
    }
    /* Its zygote has ended, and it with it: the back end need not remember it any longer. */
    (void)backend_release(a->engine->backend, birth->id, &ignored);
}

static void on_kept(void *user, uint32_t guest, uint32_t slot, const uint8_t *note,
                    struct fd_set_msg *fds)
{
    struct adoption *a = user;
    struct kept_notebook *k = a->notebooks;

    while (k != NULL && k->box_id != guest) {
        k = k->next;
    }
    if (k == NULL &&
        (k = calloc(1, sizeof(*k))) != NULL) { /* its box is gone: only tags are left */
        k->box_id = guest;
        k->next = a->notebooks;
        a->notebooks = k;
    }
    if (k == NULL) {
        a->is_cut = true;
        return;
    }
    notebook_adopt_slot(k, slot, note, fds);
}

static void on_event(void *user, const struct backend_event *event)
{
    const struct adoption *a = user;

    engine_on_event(a->engine, event);
}

int engine_adopt(struct engine *engine, int64_t epoch, struct engine_heritage *ret, struct err *e)
{
    struct adoption a = {.engine = engine};
    struct backend_heir heir = {.on_template = on_template,
                                .on_guest = on_guest,
                                .on_kept = on_kept,
                                .on_event = on_event,
                                .user = &a,
                                .epoch = (uint64_t)epoch,
                                .first_epoch = INT64_MAX};

    if (backend_adopt(engine->backend, &heir, e) < 0) {
        kept_notebooks_free(a.notebooks);
        return -1;
    }
    for (size_t i = 0; i < ENGINE_BOXES_MAX; i++) {
        if (engine->guests[i] != NULL && !engine->guests[i]->claimed) {
            guest_free(engine, engine->guests[i]);
        }
    }
    for (struct kept_notebook *k = a.notebooks; k != NULL; k = k->next) {
        notebook_end_unused(k);
    }
    ret->notebooks = a.notebooks;
    ret->since_epoch = a.is_cut ? INT64_MAX : (int64_t)MIN(heir.first_epoch, (uint64_t)INT64_MAX);
    return 0;
}

void kept_notebooks_free(struct kept_notebook *list)
{
    while (list != NULL) {
        struct kept_notebook *k = list;
        list = k->next;
        for (size_t i = 0; i < k->n_cells; i++) {
            fd_close(&k->cells[i].out);
            fd_close(&k->cells[i].err);
        }
        notebook_close(k->notebook);
        free(k);
    }
}
