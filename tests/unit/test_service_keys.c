/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency keys (service/keys.c, service/records.c) on a real store. */
#include <string.h>

#include "base/clock.h"
#include "service/service_impl.h"
#include "store_fixture.h"
#include "tap.h"

struct keys_world {
    char dir[FIXTURE_PATH];
    struct service svc;
};

static void world_open(struct keys_world *w)
{
    fixture_dir(w->dir);
    w->svc = (struct service){.store = fixture_open(w->dir)};
}

static void world_close(struct keys_world *w)
{
    store_close(w->svc.store);
    fixture_remove(w->dir);
}

static struct request_key key_of(const char *key, uint8_t request)
{
    struct request_key k = {.scope = "test", .key = key};

    memset(k.hash, request, sizeof(k.hash));
    return k;
}

/* As keyed_commit(). */
static int claim(struct keys_world *w, const struct request_key *k, const char *failed,
                 const char *id, char ret_known[ID_SIZE], struct err *e)
{
    struct store_batch *b = keyed_batch(&w->svc, k, failed, id, clock_wall_ms());

    CHECK(b != NULL);
    return keyed_commit(&w->svc, b, k, ret_known, e);
}

TEST(a_repeated_request_finds_what_the_first_one_made)
{
    struct keys_world w;
    char known[ID_SIZE] = "";
    struct err e = {0};

    world_open(&w);
    struct request_key k = key_of("k", 1);
    CHECK(!service_key_used(&w.svc, &k, known));
    CHECK_INT(claim(&w, &k, NULL, "exec_1", known, &e), 0);
    CHECK_INT(claim(&w, &k, NULL, "exec_2", known, &e), 1);
    CHECK_STR(known, "exec_1");
    memset(known, 0, sizeof(known));
    CHECK(service_key_used(&w.svc, &k, known));
    CHECK_STR(known, "exec_1");
    world_close(&w);
}

TEST(another_request_may_not_use_the_key)
{
    struct keys_world w;
    char known[ID_SIZE] = "";
    struct err e = {0};

    world_open(&w);
    struct request_key first = key_of("k", 1);
    struct request_key other = key_of("k", 2);
    CHECK_INT(claim(&w, &first, NULL, "exec_1", known, &e), 0);
    CHECK_INT(claim(&w, &other, NULL, "exec_2", known, &e), -1);
    CHECK_INT(e.code, ERR_CONFLICT);
    CHECK(!service_key_used(&w.svc, &other, known));
    world_close(&w);
}

TEST(a_holder_that_failed_gives_its_key_up)
{
    struct keys_world w;
    char known[ID_SIZE] = "";
    struct err e = {0};

    world_open(&w);
    struct request_key k = key_of("k", 1);
    CHECK_INT(claim(&w, &k, NULL, "sess_1", known, &e), 0);
    CHECK_INT(claim(&w, &k, "sess_1", "sess_2", known, &e), 0);
    CHECK(service_key_used(&w.svc, &k, known));
    CHECK_STR(known, "sess_2");
    /* One that another request took over since stays where it is. */
    CHECK_INT(claim(&w, &k, "sess_1", "sess_3", known, &e), 1);
    CHECK_STR(known, "sess_2");
    world_close(&w);
}

TEST(a_request_without_a_key_claims_none)
{
    struct keys_world w;
    char known[ID_SIZE] = "";
    struct err e = {0};

    world_open(&w);
    struct request_key none = key_of(NULL, 1);
    CHECK_INT(claim(&w, &none, NULL, "exec_1", known, &e), 0);
    CHECK_INT(claim(&w, &none, NULL, "exec_2", known, &e), 0);
    CHECK(!service_key_used(&w.svc, &none, known));
    world_close(&w);
}

TEST(a_withdrawn_key_starts_nothing)
{
    struct keys_world w;
    struct execution_entry it = {0};
    char known[ID_SIZE] = "x";
    struct err e = {0};

    world_open(&w);
    struct request_key k = key_of("k", 1);
    CHECK_INT(execution_withdraw(&w.svc, &k, 0, &it, &e), 0);
    CHECK_INT(execution_withdraw(&w.svc, &k, 0, &it, &e), 0); /* again is fine */
    CHECK(it.live == NULL && it.row == NULL);
    CHECK_INT(claim(&w, &k, NULL, "exec_1", known, &e), 1);
    CHECK_STR(known, "");
    world_close(&w);
}
