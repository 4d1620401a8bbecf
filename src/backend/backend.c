/* SPDX-License-Identifier: Apache-2.0 */
/* Calls through a back end's table; see backend.h. */
#include "backend/backend.h"

const char *backend_name(const struct backend *b)
{
    return b->ops->name;
}

void backend_hang_up(struct backend *b)
{
    b->ops->hang_up(b);
}

void backend_close(struct backend *b)
{
    if (b != NULL) {
        b->ops->close(b);
    }
}

int backend_fd(const struct backend *b)
{
    return b->ops->fd(b);
}

bool backend_has_event(const struct backend *b)
{
    return b->ops->has_event(b);
}

int backend_next(struct backend *b, struct backend_event *ret, struct err *e)
{
    return b->ops->next(b, ret, e);
}

const struct launcher_facts *backend_facts(const struct backend *b)
{
    return b->ops->facts(b);
}

int backend_open_template(struct backend *b, const struct backend_template *t,
                          struct backend_opened *ret, struct err *e)
{
    return b->ops->open_template(b, t, ret, e);
}

int backend_close_template(struct backend *b, uint32_t id, struct err *e)
{
    return b->ops->close_template(b, id, e);
}

int backend_make_guest(struct backend *b, const struct backend_guest *spec,
                       void (*born)(void *user, struct backend_birth *birth), void *user,
                       struct err *e)
{
    return b->ops->make_guest(b, spec, born, user, e);
}

int backend_adopt(struct backend *b, struct backend_heir *heir, struct err *e)
{
    return b->ops->adopt(b, heir, e);
}

int backend_arm(struct backend *b, uint32_t guest, uint64_t deadline_ms, struct err *e)
{
    return b->ops->arm(b, guest, deadline_ms, e);
}

int backend_usage(struct backend *b, uint32_t guest, bool want_disk, struct launcher_usage *ret,
                  struct err *e)
{
    return b->ops->usage(b, guest, want_disk, ret, e);
}

int backend_finish(struct backend *b, uint32_t guest, bool want_disk, struct launcher_usage *ret,
                   struct err *e)
{
    return b->ops->finish(b, guest, want_disk, ret, e);
}

void backend_kill(struct backend *b, uint32_t guest)
{
    struct err ignored; /* gone is as good */

    (void)b->ops->kill(b, guest, &ignored);
}

int backend_release(struct backend *b, uint32_t guest, struct err *e)
{
    return b->ops->release(b, guest, e);
}

int backend_freeze(struct backend *b, uint32_t guest, enum launcher_freeze how, struct err *e)
{
    return b->ops->freeze(b, guest, how, e);
}

void backend_keep(struct backend *b, uint32_t guest, const struct backend_kept *what)
{
    struct err ignored;

    (void)b->ops->keep(b, guest, what, &ignored);
}
