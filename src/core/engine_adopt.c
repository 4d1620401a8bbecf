/* SPDX-License-Identifier: Apache-2.0 */
/* Taking over what an earlier client of a supervised launcher left; see core.h. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fd.h"
#include "core/notebook_impl.h"

struct adoption {
    struct engine *engine;
    struct kept_notebook *notebooks;
};

/*
 * A zygote of the definition that is in force serves on. One of another definition, as sessions
 * have whose template was changed or deleted, keeps its boxes and makes no more.
 */
static void adopt_template(struct engine *engine, const struct launcher_rep *rep)
{
    struct err ignored;
    struct live_template *live = live_get(engine, rep->template.name, true, &ignored);

    if (live == NULL || live->open || live_definition(live) != rep->template.definition) {
        live = live_retired(engine, rep->template.name);
    }
    if (live != NULL) {
        live->open = true;
        live->id = rep->template_id;
        live->boxes_asked = rep->template.boxes;
        live->opened_ms = clock_ms() - MIN(rep->template.age_ms, clock_ms());
        live->made = rep->template.made;
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
    kept->next = a->notebooks;
    a->notebooks = kept;
    g->claimed = true;
}

static void adopt_box(struct adoption *a, const struct launcher_rep *rep, struct fd_set_msg *fds)
{
    for (struct live_template *t = a->engine->templates; t != NULL; t = t->next) {
        if (t->open && t->id == rep->template_id) {
            struct guest *g = guest_adopt(a->engine, t, rep, fds);
            if (g != NULL) {
                adopt_notebook(a, g);
            }
            return;
        }
    }
    /* Its zygote has ended, and it with it: the launcher need not remember it any longer. */
    struct launcher_req release = {.op = LAUNCHER_RELEASE, .box_id = rep->box_id};
    struct err ignored;
    (void)native_send(a->engine->native, &release, NULL, 0, &ignored);
}

static void adopt_slot(const struct adoption *a, const struct launcher_rep *rep,
                       struct fd_set_msg *fds)
{
    for (struct kept_notebook *k = a->notebooks; k != NULL; k = k->next) {
        if (notebook_box_id(k->notebook) == rep->box_id) {
            notebook_adopt_slot(k, rep, fds);
        }
    }
}

static void on_left(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds)
{
    struct adoption *a = user;

    if (rep->event == LAUNCHER_EV_TEMPLATE) {
        adopt_template(a->engine, rep);
    } else if (rep->event == LAUNCHER_EV_BOX) {
        adopt_box(a, rep, fds);
    } else if (rep->event == LAUNCHER_EV_EXIT) {
        engine_on_exit(a->engine, rep);
    } else if (rep->event == LAUNCHER_EV_KEPT) {
        adopt_slot(a, rep, fds);
    }
}

int engine_adopt(struct engine *engine, struct kept_notebook **ret, struct err *e)
{
    struct adoption a = {.engine = engine};

    if (native_adopt(engine->native, on_left, &a, e) < 0) {
        kept_notebooks_free(a.notebooks);
        return -1;
    }
    for (size_t i = 0; i < ENGINE_BOXES_MAX; i++) {
        if (engine->guests[i] != NULL && !engine->guests[i]->claimed) {
            guest_free(engine, engine->guests[i]);
        }
    }
    *ret = a.notebooks;
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
