/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of store/store.h: a killed daemon and a machine without power lose nothing acknowledged. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "fault_vfs.h"
#include "store_fixture.h"
#include "tap.h"

#define ROUNDS 20
#define IN_FLIGHT 8
#define ACKS_MAX 100000

struct committer {
    struct store *st;
    int out;
    int round;
    int next;
};

static void number_to_id(char id[40], int round, int number)
{
    snprintf(id, 40, "x-%d-%d", round, number);
}

static void commit_one(struct committer *c);

struct ticket {
    struct committer *c;
    int number;
};

static void acknowledged(void *user, const struct store_result *r)
{
    struct ticket *t = user;

    CHECK_INT(r->outcome, STORE_DONE);
    CHECK_INT(fd_write_all(t->c->out, &t->number, sizeof(t->number)), 0);
    struct committer *c = t->c;
    free(t);
    commit_one(c);
}

static void commit_one(struct committer *c)
{
    char id[40] = "";
    struct store_execution x = fixture_execution(id, "", 1);
    struct store_batch *batch = store_batch_new(c->st);
    struct ticket *t = malloc(sizeof(*t));
    struct err e;

    CHECK(t != NULL);
    *t = (struct ticket){c, c->next++};
    number_to_id(id, c->round, t->number);
    store_put_execution(batch, &x);
    CHECK_INT(store_commit(batch, acknowledged, t, &e), 0);
}

static void commit_until_killed(const char *dir, int out, int round)
{
    struct committer c = {.st = fixture_open(dir), .out = out, .round = round};

    for (int i = 0; i < IN_FLIGHT; i++) {
        commit_one(&c);
    }
    for (;;) {
        struct pollfd p = {.fd = store_fd(c.st), .events = POLLIN};

        CHECK(poll(&p, 1, -1) == 1);
        store_dispatch(c.st);
    }
}

/* Kills the child after `wanted` acknowledgements; those and whatever came meanwhile, in `acks`. */
static int run_and_kill(const char *dir, int round, int wanted, int *acks)
{
    int ends[2];
    int n = 0;
    int status;

    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        commit_until_killed(dir, ends[1], round);
        _exit(0);
    }
    close(ends[1]);
    while (n < ACKS_MAX && fd_read_all(ends[0], &acks[n], sizeof(int)) == (ssize_t)sizeof(int)) {
        if (++n == wanted) {
            CHECK_INT(kill(pid, SIGKILL), 0);
        }
    }
    close(ends[0]);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return n;
}

static void check_acks(struct store *st, int round, const int *acks, int n)
{
    for (int i = 0; i < n; i++) {
        char id[40] = "";

        number_to_id(id, round, acks[i]);
        CASE("round %d: %s", round, id);
        CHECK(fixture_has_execution(st, id));
    }
}

TEST_TIMEOUT(acknowledged_records_survive_kill_9, 120)
{
    static int acks[ACKS_MAX];
    char dir[FIXTURE_PATH];
    unsigned seed = (unsigned)getpid();

    fprintf(stderr, "# seed %u\n", seed);
    srandom(seed);
    fixture_dir(dir);
    for (int round = 0; round < ROUNDS; round++) {
        int n = run_and_kill(dir, round, 1 + (int)(random() % 150), acks);
        struct store *st = fixture_open(dir);

        CHECK_INT(store_epoch(st), 2 * round + 2);
        check_acks(st, round, acks, n);
        store_close(st);
    }
    fixture_remove(dir);
}

/* A kill leaves the kernel's cache; this leaves only what had been synced. */
TEST_TIMEOUT(acknowledged_records_survive_a_loss_of_power, 120)
{
    static int acks[ACKS_MAX];
    unsigned seed = (unsigned)getpid();

    fprintf(stderr, "# seed %u\n", seed);
    srandom(seed);
    fault_vfs_install();
    for (int round = 0; round < ROUNDS; round++) {
        char dir[FIXTURE_PATH];
        char disk[FIXTURE_PATH];

        fixture_dir(dir);
        fixture_dir(disk);
        fault_vfs_record(disk);
        int n = run_and_kill(dir, round, 1 + (int)(random() % 60), acks);
        fault_vfs_record("");

        struct store *st = fixture_open(disk);
        check_acks(st, round, acks, n);
        store_close(st);
        fixture_remove(dir);
        fixture_remove(disk);
    }
}
