/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of writing: collecting changes, handing them over, and telling what became of
 * them. Copies everything: the writer thread must not look at memory of the owner's.
 */
#include <errno.h>
#include <unistd.h>

#include "base/attr.h"
#include "store/internal.h"

#define FIRST_CHANGES 4

void batch_list_add(struct batch_list *l, struct store_batch *batch)
{
    batch->next = NULL;
    *l->last = batch;
    l->last = &batch->next;
}

struct store_batch *batch_list_take(struct batch_list *l)
{
    struct store_batch *batch = l->first;

    if (batch != NULL) {
        l->first = batch->next;
        if (l->first == NULL) {
            l->last = &l->first;
        }
    }
    return batch;
}

struct store_batch *store_batch_new(struct store *st)
{
    struct store_batch *batch = calloc(1, sizeof(*batch));

    if (batch != NULL) {
        batch->st = st;
        batch->bytes = sizeof(*batch);
    }
    return batch;
}

void store_batch_free(struct store_batch *batch)
{
    if (batch == NULL) {
        return;
    }
    for (size_t i = 0; i < batch->n; i++) {
        free(batch->changes[i].rec);
    }
    free(batch->changes);
    free(batch);
}

/* Room for one more change, or NULL with the reason in the batch. */
static struct change *new_change(struct store_batch *batch)
{
    if (batch->err.code != ERR_NONE) {
        return NULL;
    }
    if (batch->n == STORE_BATCH_MAX) {
        err_set(&batch->err, ERR_LIMIT, "more than %d changes in one batch", STORE_BATCH_MAX);
        return NULL;
    }
    if (batch->n == batch->cap) {
        size_t cap = batch->cap > 0 ? 2 * batch->cap : FIRST_CHANGES;
        struct change *more = reallocarray(batch->changes, cap, sizeof(*more));

        if (more == NULL) {
            err_sys(&batch->err, ENOMEM, "batch");
            return NULL;
        }
        batch->changes = more;
        batch->cap = cap;
    }
    batch->bytes += sizeof(struct change);
    return &batch->changes[batch->n];
}

static void add_change(struct store_batch *batch, enum change_kind kind, enum record_type type,
                       const void *rec, int from)
{
    struct change *change = new_change(batch);
    size_t size = 0;

    if (change == NULL || record_check(&records[type], rec, &batch->err) != 0) {
        return;
    }
    void *copy = record_copy(&records[type], rec, &size);
    if (copy == NULL) {
        err_sys(&batch->err, ENOMEM, "batch");
        return;
    }
    *change = (struct change){.kind = kind, .type = type, .rec = copy, .from = from};
    batch->bytes += size;
    batch->n++;
}

void store_put_session(struct store_batch *batch, const struct store_session *s)
{
    add_change(batch, CHANGE_PUT, RECORD_SESSION, s, 0);
}

void store_put_execution(struct store_batch *batch, const struct store_execution *x)
{
    add_change(batch, CHANGE_PUT, RECORD_EXECUTION, x, 0);
}

void store_put_template(struct store_batch *batch, const struct store_template *t)
{
    add_change(batch, CHANGE_PUT, RECORD_TEMPLATE, t, 0);
}

void store_move_session(struct store_batch *batch, int from, const struct store_session *s)
{
    add_change(batch, CHANGE_MOVE, RECORD_SESSION, s, from);
}

void store_move_execution(struct store_batch *batch, int from, const struct store_execution *x)
{
    add_change(batch, CHANGE_MOVE, RECORD_EXECUTION, x, from);
}

void store_claim_key(struct store_batch *batch, const struct store_key *key)
{
    size_t before = batch->n;

    add_change(batch, CHANGE_CLAIM, RECORD_KEY, key, 0);
    if (batch->n > before) {
        batch->changes[before].expired = key->created_ms - batch->st->key_retention_ms;
    }
}

void store_free_key(struct store_batch *batch, const struct store_key *key)
{
    add_change(batch, CHANGE_FREE, RECORD_KEY, key, 0);
}

void store_delete_session(struct store_batch *batch, const char *id)
{
    add_change(batch, CHANGE_DELETE, RECORD_SESSION, &(struct store_session){.id = id}, 0);
}

void store_delete_template(struct store_batch *batch, const char *name)
{
    add_change(batch, CHANGE_DELETE, RECORD_TEMPLATE, &(struct store_template){.name = name}, 0);
}

void store_expire_keys(struct store_batch *batch, int64_t now_ms)
{
    struct change *change = new_change(batch);

    if (change != NULL) {
        *change = (struct change){.kind = CHANGE_EXPIRE,
                                  .type = RECORD_KEY,
                                  .expired = now_ms - batch->st->key_retention_ms};
        batch->n++;
    }
}

/* With the mutex held. A single batch larger than the bound is let through when it is alone. */
static int check_room(const struct store *st, const struct store_batch *batch, struct err *e)
{
    if (st->is_stopping) {
        return err_set(e, ERR_STORAGE, "the store is closing");
    }
    if (st->waiting >= st->queue_max) {
        return err_set(e, ERR_LIMIT, "%zu changes wait to be written", st->waiting);
    }
    if (st->waiting > 0 && st->waiting_bytes + batch->bytes > st->queue_bytes_max) {
        return err_set(e, ERR_LIMIT, "%zu bytes wait to be written", st->waiting_bytes);
    }
    return 0;
}

/* Takes the batch only when it returns 0. */
static int hand_over(struct store_batch *batch, struct err *e)
{
    struct store *st = batch->st;

    if (batch->err.code != ERR_NONE) {
        *e = batch->err;
        return -1;
    }
    pthread_mutex_lock(&st->mutex);
    int rc = check_room(st, batch, e);
    if (rc == 0) {
        batch_list_add(&st->queue, batch);
        st->waiting++;
        st->waiting_bytes += batch->bytes;
        pthread_cond_signal(&st->work);
    }
    pthread_mutex_unlock(&st->mutex);
    return rc;
}

int store_commit(struct store_batch *batch, void (*done)(void *user, const struct store_result *r),
                 void *user, struct err *e)
{
    batch->done = done;
    batch->user = user;
    if (hand_over(batch, e) != 0) {
        store_batch_free(batch);
        return -1;
    }
    return 0;
}

int store_commit_wait(struct store_batch *batch, struct store_result *ret, struct err *e)
{
    struct store *st = batch->st;

    batch->has_waiter = true;
    if (hand_over(batch, e) != 0) {
        if (ret != NULL) {
            *ret = (struct store_result){.outcome = STORE_FAILED, .err = *e};
        }
        store_batch_free(batch);
        return -1;
    }
    pthread_mutex_lock(&st->mutex);
    while (!batch->is_finished) {
        pthread_cond_wait(&st->news, &st->mutex);
    }
    pthread_mutex_unlock(&st->mutex);

    bool is_done = batch->result.outcome == STORE_DONE;
    if (!is_done) {
        *e = batch->result.err;
    }
    if (ret != NULL) {
        *ret = batch->result;
    }
    store_batch_free(batch);
    return is_done ? 0 : -1;
}

int store_fd(const struct store *st)
{
    return st->event_fd;
}

void store_dispatch(struct store *st)
{
    struct batch_list due = {.first = NULL, .last = &due.first};
    struct store_batch *batch;
    uint64_t count;

    /* Before the list is taken: what finishes afterwards makes the descriptor readable again. */
    (void)!read(st->event_fd, &count, sizeof(count));
    pthread_mutex_lock(&st->mutex);
    while ((batch = batch_list_take(&st->finished)) != NULL) {
        batch_list_add(&due, batch);
    }
    pthread_mutex_unlock(&st->mutex);

    while ((batch = batch_list_take(&due)) != NULL) {
        if (batch->done != NULL) {
            batch->done(batch->user, &batch->result);
        }
        store_batch_free(batch);
    }
    reader_dispatch(st);
}
