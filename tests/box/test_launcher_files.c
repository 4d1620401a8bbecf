/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launcher that may open no more files: what needs one is refused, and no client loses a box or a
 * connection.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "launcher_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define FILES 768    /* enough for BOXES, and soon full */
#define RESERVED 269 /* for receiving: as many as one message can bring, and some */
#define BOXES 20
#define BOXES_MAX 64

/* A supervised one with few files. */
static struct launcher_client open_small(void)
{
    const struct rlimit few = {.rlim_cur = FILES, .rlim_max = FILES};

    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct launcher_client c = launcher_open_for(geteuid());
    launcher_greet(&c);
    return c;
}

/* *ret_end is our end of the control socket; the ends of its streams are closed at once. */
static struct launcher_rep ask_for_box(struct launcher_client *c, uint32_t id, int *ret_end)
{
    struct launcher_req req = {
        .op = LAUNCHER_BOX, .template_id = id, .box = {.limits = limits_default()}};
    int ours[LAUNCHER_BOX_FDS];
    int theirs[LAUNCHER_BOX_FDS];

    launcher_ends(ours, theirs);
    launcher_send(c, &req, theirs, LAUNCHER_BOX_FDS);
    for (int i = 0; i < LAUNCHER_BOX_FDS; i++) {
        close(theirs[i]);
        if (i > 0) {
            close(ours[i]);
        }
    }
    *ret_end = ours[0];
    return launcher_answer(c);
}

/* Has it keep as much as it takes, and more. */
static void fill_up(struct launcher_client *c, uint32_t box)
{
    int ends[2];
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    const int fds[LAUNCHER_KEEP_FDS] = {ends[0], ends[0], ends[0], ends[0]};

    for (uint32_t slot = 0; slot < LAUNCHER_KEEP_SLOTS; slot++) {
        struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = box, .keep.slot = slot};
        launcher_send(c, &keep, fds, slot < FILES / LAUNCHER_KEEP_FDS ? LAUNCHER_KEEP_FDS : 1);
    }
    close(ends[0]);
    close(ends[1]);
}

static void check_alive(struct launcher_client *c, uint32_t box)
{
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = box};

    launcher_call(c, &usage, NULL, 0, LAUNCHER_EV_USAGE);
}

/* Nothing that stays has one of the numbers for receiving; but a client may have come by one. */
static void check_reserve(const struct launcher_client *c, int most)
{
    char path[64];
    int n = 0;

    for (int fd = FILES - RESERVED; fd < FILES; fd++) {
        CHECK_INT(str_format(path, sizeof(path), "/proc/%d/fd/%d", c->pid, fd), 0);
        n += faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    }
    CHECK(n <= most);
}

TEST(what_finds_no_room_is_refused_and_nobody_is_lost)
{
    AUTO_LAUNCHER struct launcher_client c = open_small();
    uint32_t id = launcher_shell_template(&c, BOXES_MAX);
    struct launcher_rep rep;
    int ends[BOXES_MAX];
    uint32_t boxes[BOXES_MAX];
    size_t n = 0;

    for (;;) {
        CHECK(n < BOXES_MAX);
        rep = ask_for_box(&c, id, &ends[n]);
        if (rep.event != LAUNCHER_EV_BOX) {
            break;
        }
        boxes[n++] = rep.box_id;
    }
    CHECK_INT(rep.event, LAUNCHER_EV_ERROR);
    CHECK_INT(rep.err.code, ERR_LIMIT);
    close(ends[n]);
    fill_up(&c, boxes[0]);
    CHECK_INT(ask_for_box(&c, id, &ends[n]).event, LAUNCHER_EV_ERROR);
    close(ends[n]);
    for (size_t i = 0; i < n; i++) {
        check_alive(&c, boxes[i]);
        close(ends[i]);
    }
    check_reserve(&c, 0);
}

/* Cgroups that are kept for the next boxes have their files: only the pidfd needs a number. */
TEST(a_box_that_could_not_be_signalled_is_not_made)
{
    AUTO_LAUNCHER struct launcher_client c = open_small();
    uint32_t id = launcher_shell_template(&c, BOXES_MAX);
    struct launcher_rep rep;
    uint32_t first = 0;
    int ends[BOXES];

    for (int i = 0; i < BOXES; i++) {
        rep = ask_for_box(&c, id, &ends[i]);
        CHECK_INT(rep.event, LAUNCHER_EV_BOX);
        first = i == 0 ? rep.box_id : first;
    }
    for (int i = 1; i < BOXES; i++) {
        struct launcher_req kill = {.op = LAUNCHER_KILL, .box_id = first + (uint32_t)i};
        launcher_send(&c, &kill, NULL, 0);
        do {
            CHECK(launcher_next(&c, &rep));
        } while (rep.event != LAUNCHER_EV_EXIT);
        close(ends[i]);
    }
    fill_up(&c, first);
    for (int i = 1; i < BOXES; i++) {
        rep = ask_for_box(&c, id, &ends[i]);
        CHECK_INT(rep.event, LAUNCHER_EV_ERROR);
        CHECK_INT(rep.err.code, ERR_LIMIT);
        close(ends[i]);
    }
    CASE("there is room for one, and for nothing else when it is born");
    pid_t zygote = proc_zygote(c.pid);
    for (uint32_t slot = 0; slot < 2; slot++) {
        struct launcher_req drop = {.op = LAUNCHER_DROP, .box_id = first, .keep.slot = slot};
        launcher_send(&c, &drop, NULL, 0);
    }
    CHECK_INT(kill(zygote, SIGSTOP), 0);
    rep = ask_for_box(&c, id, &ends[1]);
    CHECK_INT(rep.event, LAUNCHER_EV_BOX);
    fill_up(&c, first);
    CHECK_INT(ask_for_box(&c, id, &ends[2]).event, LAUNCHER_EV_ERROR);
    CHECK_INT(kill(zygote, SIGCONT), 0);
    struct pollfd ready = {.fd = ends[1], .events = POLLIN};
    CHECK_INT(poll(&ready, 1, 10000), 1);
    CHECK_INT(ask_for_box(&c, id, &ends[3]).event, LAUNCHER_EV_ERROR);
    struct launcher_req end = {.op = LAUNCHER_KILL, .box_id = rep.box_id};
    launcher_send(&c, &end, NULL, 0);
    do {
        CHECK(launcher_next(&c, &rep));
    } while (rep.event != LAUNCHER_EV_EXIT);
    check_alive(&c, first); /* it was not their zygote that ended */
    check_reserve(&c, 0);
    for (int i = 0; i < 4; i++) {
        close(ends[i]);
    }
}

TEST(a_successor_is_let_in_where_nothing_else_is)
{
    AUTO_LAUNCHER struct launcher_client c = open_small();
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);

    fill_up(&c, box.id);
    for (int i = 0; i < 3; i++) {
        launcher_succeed(&c, geteuid());
        launcher_greet(&c);
        check_reserve(&c, 1);
    }
    CHECK(launcher_finds_kept(&c, box.id));
    launcher_box_release(&box);
}

static void set_files(rlim_t most)
{
    struct rlimit files;

    CHECK_INT(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = MIN(most, files.rlim_max);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* The number that the next descriptor gets. */
static rlim_t next_number(void)
{
    int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

    CHECK(fd >= 0);
    close(fd);
    return (rlim_t)fd;
}

/* The launcher's answer brings descriptors of its own: what finds no room is no reason to part. */
TEST(a_client_without_room_is_refused_and_keeps_its_launcher)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, "6 * 7");
    struct husk_error e;
    bool refused = false;
    bool done = false;

    husk_result_free(fixture_cell(engine, "1"));
    pid_t launcher = proc_launcher();
    for (rlim_t room = 0; room < 32; room++) {
        AUTO_RESULT struct husk_result *r = NULL;
        CASE("room for %d", (int)room);
        set_files(next_number() + room);
        int result = husk_run(engine, &spec, &r, &e);
        set_files(RLIM_INFINITY);
        if (result < 0) {
            CHECK_STR(e.type, "limit_reached");
            refused = true;
        } else {
            CHECK_STR(r->value, "42");
            done = true;
        }
        AUTO_RESULT struct husk_result *next = fixture_cell(engine, "6 * 7");
        CHECK_STR(next->value, "42");
        CHECK_INT(proc_launcher(), launcher);
    }
    CHECK(refused && done);
}
