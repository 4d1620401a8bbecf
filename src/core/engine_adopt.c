/* SPDX-License-Identifier: Apache-2.0 */
/* Taking over what an earlier client of a supervised launcher left; see engine.h. */
#include "core/engine.h"

#include "base/clock.h"

struct adoption {
    struct husk_engine *engine;
    void (*fn)(void *user, struct guest *g, const struct launcher_rep *rep, struct fd_set_msg *fds);
    void *user;
};

/*
 * A zygote of the definition that is in force serves on. One of another definition, as sessions
 * have whose template was changed or deleted, keeps its boxes and makes no more.
 */
static void adopt_template(struct husk_engine *engine, const struct launcher_rep *rep)
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

static void adopt_box(const struct adoption *a, const struct launcher_rep *rep,
                      struct fd_set_msg *fds)
{
    for (struct live_template *t = a->engine->templates; t != NULL; t = t->next) {
        if (t->open && t->id == rep->template_id) {
            struct guest *g = guest_adopt(a->engine, t, rep, fds);
            if (g != NULL) {
                a->fn(a->user, g, NULL, NULL);
            }
            return;
        }
    }
    /* Its zygote has ended, and it with it: the launcher need not remember it any longer. */
    struct launcher_req release = {.op = LAUNCHER_RELEASE, .box_id = rep->box_id};
    struct err ignored;
    (void)native_send(a->engine->native, &release, NULL, 0, &ignored);
}

static void on_left(void *user, const struct launcher_rep *rep, struct fd_set_msg *fds)
{
    const struct adoption *a = user;
    struct guest *g = a->engine->guests[rep->box_id % ENGINE_BOXES_MAX];

    if (rep->event == LAUNCHER_EV_TEMPLATE) {
        adopt_template(a->engine, rep);
    } else if (rep->event == LAUNCHER_EV_BOX) {
        adopt_box(a, rep, fds);
    } else if (rep->event == LAUNCHER_EV_EXIT) {
        engine_on_exit(a->engine, rep);
    } else if (rep->event == LAUNCHER_EV_KEPT && g != NULL && g->box_id == rep->box_id) {
        a->fn(a->user, g, rep, fds);
    }
}

int engine_adopt(struct husk_engine *engine,
                 void (*fn)(void *user, struct guest *g, const struct launcher_rep *rep,
                            struct fd_set_msg *fds),
                 void *user, struct err *e)
{
    struct adoption a = {.engine = engine, .fn = fn, .user = user};

    if (native_adopt(engine->native, on_left, &a, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < ENGINE_BOXES_MAX; i++) {
        if (engine->guests[i] != NULL && !engine->guests[i]->claimed) {
            guest_free(engine, engine->guests[i]);
        }
    }
    return 0;
}
