/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's thread: lists whose rows may be many are read here, one after the other, through a
 * connection of its own. The owner's thread serves other clients meanwhile.
 *
 * Must not call back into the owner's code but by `shrink`, which sees one row and nothing else.
 */
#include <unistd.h>

#include "base/attr.h"
#include "store/list.h"

#define READS_MAX 4096

static void queue_add(struct read_queue *q, struct store_read *r)
{
    r->next_read = NULL;
    *q->last = r;
    q->last = &r->next_read;
}

static struct store_read *queue_take(struct read_queue *q)
{
    struct store_read *r = q->first;

    if (r != NULL) {
        q->first = r->next_read;
        q->last = q->first != NULL ? q->last : &q->first;
    }
    return r;
}

int store_read(struct store *st, struct store_read *r, struct err *e)
{
    int rc = 0;

    r->err = (struct err){.code = ERR_NONE};
    pthread_mutex_lock(&st->mutex);
    if (st->is_stopping) {
        rc = err_set(e, ERR_STORAGE, "the store is closing");
    } else if (st->reads >= READS_MAX) {
        rc = err_set(e, ERR_LIMIT, "%zu lists wait to be read: try again later", st->reads);
    } else {
        queue_add(&st->asked, r);
        st->reads++;
        pthread_cond_signal(&st->asks);
    }
    pthread_mutex_unlock(&st->mutex);
    return rc;
}

static void answer(struct store *st, struct store_read *r)
{
    struct row_list l = {.shrink = r->shrink};
    bool of_sessions = r->kind == STORE_SESSIONS;

    if (list_read(&st->lister, of_sessions ? RECORD_SESSION : RECORD_EXECUTION, &r->filter,
                  r->with_total, &l, &r->err) != 0) {
        return;
    }
    if (of_sessions) {
        r->sessions = (struct store_session_list){
            .rows = (struct store_session **)l.rows, .n = l.n, .total = l.total, .next = l.next};
    } else {
        r->executions = (struct store_execution_list){
            .rows = (struct store_execution **)l.rows, .n = l.n, .total = l.total, .next = l.next};
    }
}

void *reader_main(void *store)
{
    struct store *st = store;
    struct store_read *r;
    uint64_t one = 1;

    pthread_mutex_lock(&st->mutex);
    for (;;) {
        while ((r = queue_take(&st->asked)) == NULL && !st->is_stopping) {
            pthread_cond_wait(&st->asks, &st->mutex);
        }
        if (r == NULL) {
            break;
        }
        pthread_mutex_unlock(&st->mutex);
        answer(st, r);
        pthread_mutex_lock(&st->mutex);
        queue_add(&st->answered, r);
        (void)!write(st->event_fd, &one, sizeof(one));
    }
    pthread_mutex_unlock(&st->mutex);
    return NULL;
}

void reader_dispatch(struct store *st)
{
    struct store_read *r;

    do {
        pthread_mutex_lock(&st->mutex);
        r = queue_take(&st->answered);
        st->reads -= r != NULL;
        pthread_mutex_unlock(&st->mutex);
        if (r != NULL) {
            r->done(r->user);
        }
    } while (r != NULL);
}
