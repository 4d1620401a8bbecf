/* SPDX-License-Identifier: Apache-2.0 */
/* What is held for boxes; see budget.h. */
#include "core/budget.h"

#include <errno.h>

#include "base/attr.h"

void budget_open(struct budget *b, struct budget_share *s, uint64_t memory_bytes,
                 void (*on_lost)(void *user), void *user)
{
    *s = (struct budget_share){.of = b,
                               .next = b->first,
                               .max = memory_bytes / BUDGET_PART,
                               .on_lost = on_lost,
                               .user = user};
    if (s->next != NULL) {
        s->next->prev = s;
    }
    b->first = s;
}

void budget_close(struct budget_share *s)
{
    struct budget *b = s->of;

    if (b == NULL) {
        return;
    }
    budget_credit(s, s->held);
    if (s->next != NULL) {
        s->next->prev = s->prev;
    }
    *(s->prev != NULL ? &s->prev->next : &b->first) = s->next;
    s->of = NULL;
}

/* The one that would hold the most if s got n more; those that give theirs back do not count. */
static struct budget_share *find_largest(const struct budget *b, struct budget_share *s, uint64_t n)
{
    struct budget_share *largest = s;
    uint64_t most = s->held + n;

    for (struct budget_share *at = b->first; at != NULL; at = at->next) {
        if (at != s && !at->is_dying && at->held > most) {
            largest = at;
            most = at->held;
        }
    }
    return largest;
}

int budget_charge(struct budget_share *s, uint64_t n)
{
    if (s == NULL || s->of == NULL) {
        return 0;
    }
    struct budget *b = s->of;
    if (s->is_dying || n > s->max || s->held > s->max - n) {
        return -EDQUOT;
    }
    while (b->max != 0 && b->held - b->dying + n > b->max) {
        struct budget_share *loser = find_largest(b, s, n);
        if (loser == s) {
            return -EDQUOT;
        }
        loser->is_dying = true;
        loser->losses++;
        b->dying += loser->held;
        loser->on_lost(loser->user);
    }
    s->held += n;
    b->held += n;
    return 0;
}

void budget_credit(struct budget_share *s, uint64_t n)
{
    if (s == NULL || s->of == NULL) {
        return;
    }
    n = MIN(n, s->held);
    if (s->is_dying && n > 0) { /* it has heard; what is left follows, or is charged as before */
        s->of->dying -= s->held;
        s->is_dying = false;
    }
    s->held -= n;
    s->of->held -= n;
}
