/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the store share: a directory, records with every field set, short commits. */
#pragma once

#include "store/store.h"

#define FIXTURE_PATH 200

/* A new directory below $TMPDIR; removed by fixture_remove(). */
void fixture_dir(char path[FIXTURE_PATH]);
void fixture_remove(const char *path);

/* Fails the test if it cannot. */
struct store *fixture_open(const char *dir);
void fixture_commit(struct store_batch *batch);

/* Fails the test if it can; the error. */
struct err fixture_open_fails(const char *dir);

/* Every column has a value of its own; texts with quotes, non-ASCII, line ends. */
struct store_session fixture_session(const char *id);
struct store_execution fixture_execution(const char *id, const char *session_id, int number);

void fixture_put_session(struct store *st, const struct store_session *s);
void fixture_put_execution(struct store *st, const struct store_execution *x);
bool fixture_has_execution(struct store *st, const char *id);

/* Runs SQL on the database behind the store's back. */
void fixture_sql(const char *dir, const char *sql);

/* ---- batches in flight ---- */

struct fixture_outcomes {
    int n;
    int done;
    struct store_result last[64]; /* in the order of the callbacks */
};

void fixture_note(void *user,
                  const struct store_result *r); /* the callback; user is the outcomes */
void fixture_start(struct store_batch *batch, struct fixture_outcomes *o);
void fixture_start_execution(struct store *st, const char *id, struct fixture_outcomes *o);
void fixture_await(struct store *st, const struct fixture_outcomes *o,
                   int n); /* runs callbacks until there were n */

/* Needs fault_vfs.h. From here on the writer hangs in a sync, with one batch of no interest. */
void fixture_hold_writer(struct store *st, struct fixture_outcomes *o);
