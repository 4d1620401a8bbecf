/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the right shape at the wrong time or beyond a bound: an error, and the launcher goes
 * on.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "launcher_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define TEMPLATES_MAX 64
#define MEMORY_KIB_MAX (64 << 10) /* what a launcher may use; it has used less than 8 MiB */
#define FLOOD 3000
#define STALLED_MS 500 /* nothing was read for so long: it has stopped reading */

static void expect_error(struct launcher_client *c, struct launcher_req *req, const int *fds,
                         size_t nfds, enum err_code want)
{
    struct launcher_rep rep = launcher_call(c, req, fds, nfds, LAUNCHER_EV_ERROR);

    CHECK_INT(rep.err.code, want);
    CHECK(rep.err.msg[0] != '\0');
}

static void stop(struct launcher_client *c, uint32_t id)
{
    struct launcher_req req = {.op = LAUNCHER_STOP, .template_id = id};

    launcher_call(c, &req, NULL, 0, LAUNCHER_EV_OK);
}

TEST(templates_that_are_not_there_are_an_error)
{
    static const uint32_t ids[] = {0, 1, TEMPLATES_MAX - 1, TEMPLATES_MAX, UINT32_MAX};
    static const uint32_t ops[] = {LAUNCHER_LINK, LAUNCHER_ARG, LAUNCHER_ENV, LAUNCHER_START,
                                   LAUNCHER_STOP};
    AUTO_LAUNCHER struct launcher_client c = launcher_open();

    launcher_greet(&c);
    for (size_t i = 0; i < ARRAY_LEN(ids) * ARRAY_LEN(ops); i++) {
        struct launcher_req req = {.op = ops[i / ARRAY_LEN(ids)],
                                   .template_id = ids[i % ARRAY_LEN(ids)]};
        if (req.op == LAUNCHER_LINK) {
            req.place.path[0] = '/';
            req.place.path[1] = req.place.link[0] = 'a';
        } else {
            req.text[0] = 'a';
        }
        CASE("operation %u on template %u", req.op, req.template_id);
        expect_error(&c, &req, NULL, 0, ERR_NOT_FOUND);
    }
}

TEST(a_template_that_is_not_started_has_no_boxes)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_req box = {.op = LAUNCHER_BOX, .box.limits = limits_default()};
    const int fds[LAUNCHER_BOX_FDS] = {0, 1, 2, 2};

    launcher_greet(&c);
    box.template_id = launcher_template(&c, 1);
    expect_error(&c, &box, fds, LAUNCHER_BOX_FDS, ERR_NOT_FOUND);
}

TEST(a_template_that_runs_cannot_be_changed)
{
    static const uint32_t ops[] = {LAUNCHER_ARG, LAUNCHER_ENV, LAUNCHER_START};
    AUTO_LAUNCHER struct launcher_client c = launcher_open();

    launcher_greet(&c);
    uint32_t id = launcher_shell_template(&c, 1);
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        struct launcher_req req = {.op = ops[i], .template_id = id, .text = "A=b"};
        CASE("operation %u", ops[i]);
        expect_error(&c, &req, NULL, 0, ERR_NOT_FOUND);
    }
    stop(&c, id);
    struct launcher_req again = {.op = LAUNCHER_STOP, .template_id = id};
    expect_error(&c, &again, NULL, 0, ERR_NOT_FOUND);
}

TEST(a_template_that_cannot_start_is_taken_apart)
{
    static const char *const programs[] = {NULL, "/no/such/program", "/usr", "/usr/bin/true"};
    AUTO_LAUNCHER struct launcher_client c = launcher_open();

    launcher_greet(&c);
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        launcher_wait_place(&c); /* of the one before */
        uint32_t id = launcher_template(&c, 1);
        struct launcher_req start = {.op = LAUNCHER_START, .template_id = id};
        struct launcher_req arg = {.op = LAUNCHER_ARG, .template_id = id, .text = "x"};
        CASE("%s", programs[i] != NULL ? programs[i] : "no program");
        launcher_fill(&c, id);
        if (programs[i] != NULL) {
            launcher_text(&c, id, LAUNCHER_ARG, programs[i]);
        }
        launcher_call(&c, &start, NULL, 0, LAUNCHER_EV_ERROR);
        expect_error(&c, &arg, NULL, 0, ERR_NOT_FOUND);
    }
}

/*
 * No client may reach the host's files through the launcher, although the host's root is still
 * there while a template's is built.
 */
TEST(no_link_of_a_template_leads_the_launcher_anywhere)
{
    char dir[] = "/var/tmp/husk-links-XXXXXX"; /* /tmp is covered while a root is built */
    ;
    char inside[64];
    struct {
        const char *what;
        struct launcher_req req;
    } rows[] = {
        {"a link", {.op = LAUNCHER_LINK, .place = {.path = "/a/planted", .link = "/etc/passwd"}}},
        {"a file", {.op = LAUNCHER_MOUNT, .place = {.path = "/a/planted", .kind = LAUNCHER_COPY}}},
        {"a folder", {.op = LAUNCHER_LINK, .place = {.path = "/a/planted/x", .link = "y"}}},
        {"a mount", {.op = LAUNCHER_MOUNT, .place = {.path = "/a/planted"}}},
    };
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    AUTO_CLOSE int file = open("/etc/hostname", O_RDONLY | O_CLOEXEC);

    CHECK(mkdtemp(dir) != NULL && chmod(dir, 0777) == 0 && file >= 0);
    (void)str_format(inside, sizeof(inside), "%s/planted", dir);
    launcher_greet(&c);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t id = launcher_template(&c, 1);
        struct launcher_req start = {.op = LAUNCHER_START, .template_id = id};
        struct launcher_req away = {
            .op = LAUNCHER_LINK, .template_id = id, .place = {.path = "/a"}};
        CASE("%s", rows[i].what);
        (void)str_copy(away.place.link, sizeof(away.place.link), dir);
        launcher_fill(&c, id);
        launcher_text(&c, id, LAUNCHER_ARG, "/usr/bin/true");
        launcher_call(&c, &away, NULL, 0, LAUNCHER_EV_OK);
        rows[i].req.template_id = id;
        launcher_call(&c, &rows[i].req, &file, rows[i].req.op == LAUNCHER_MOUNT, LAUNCHER_EV_OK);
        struct launcher_rep rep = launcher_call(&c, &start, NULL, 0, LAUNCHER_EV_ERROR);
        CHECK(strstr(rep.err.msg, "/a/planted") != NULL);
        CHECK(access(inside, F_OK) < 0);
    }
    CHECK_INT(rmdir(dir), 0);
}

/*
 * What a box mounts over is not a template's to prepare: a mask over /proc is made of /run/empty.
 */
TEST(places_that_every_box_has_of_its_own_are_refused)
{
    static const char *const paths[] = {"/run/empty", "/proc", "/dev/null", "/tmp/x", "/workspace"};
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    AUTO_CLOSE int file = open("/etc/hostname", O_RDONLY | O_CLOEXEC);

    launcher_greet(&c);
    uint32_t id = launcher_template(&c, 1);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct launcher_req link = {.op = LAUNCHER_LINK, .template_id = id, .place.link = "/x"};
        struct launcher_req copy = {
            .op = LAUNCHER_MOUNT, .template_id = id, .place.kind = LAUNCHER_COPY};
        CASE("%s", paths[i]);
        (void)str_copy(link.place.path, sizeof(link.place.path), paths[i]);
        (void)str_copy(copy.place.path, sizeof(copy.place.path), paths[i]);
        expect_error(&c, &link, NULL, 0, ERR_INVALID);
        expect_error(&c, &copy, &file, 1, ERR_INVALID);
    }
}

TEST(everything_that_can_be_asked_for_is_bounded)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_req link = {.op = LAUNCHER_LINK, .place = {.path = "/a", .link = "b"}};
    struct launcher_req arg = {.op = LAUNCHER_ARG, .text = "a"};
    struct launcher_req env = {.op = LAUNCHER_ENV, .text = "A=b"};
    struct launcher_req more = {.op = LAUNCHER_TEMPLATE,
                                .template = {.name = "more", .base = "more", .boxes = 1}};
    struct launcher_req *const lists[] = {&link, &arg, &env};
    static const int most[] = {96, 160, 64};

    launcher_greet(&c);
    launcher_template(&c, 1);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        CASE("operation %u", lists[i]->op);
        for (int n = 0; n < most[i]; n++) {
            if (lists[i] == &link) { /* each in a place of its own */
                CHECK_INT(str_format(link.place.path, sizeof(link.place.path), "/a%d", n), 0);
            }
            launcher_call(&c, lists[i], NULL, 0, LAUNCHER_EV_OK);
        }
        if (lists[i] == &link) {
            CHECK_INT(str_copy(link.place.path, sizeof(link.place.path), "/one-more"), 0);
        }
        expect_error(&c, lists[i], NULL, 0, ERR_LIMIT);
    }
    CASE("templates");
    for (int n = 1; n < TEMPLATES_MAX; n++) {
        launcher_call(&c, &more, NULL, 0, LAUNCHER_EV_OK);
    }
    expect_error(&c, &more, NULL, 0, ERR_LIMIT);
    stop(&c, 17);
    launcher_call(&c, &more, NULL, 0, LAUNCHER_EV_OK);
}

TEST(a_template_has_no_more_boxes_than_it_said)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    const int fds[LAUNCHER_BOX_FDS] = {0, 1, 2, 2};

    launcher_greet(&c);
    struct launcher_req req = {.op = LAUNCHER_BOX, .box.limits = limits_default()};
    req.template_id = launcher_shell_template(&c, 2);
    struct launcher_box one = launcher_box(&c, req.template_id, 0);
    struct launcher_box two = launcher_box(&c, req.template_id, 0);
    expect_error(&c, &req, fds, LAUNCHER_BOX_FDS, ERR_LIMIT);
    launcher_box_release(&one);
    launcher_box_release(&two);
}

TEST(no_place_is_given_twice)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_req link = {.op = LAUNCHER_LINK, .place = {.path = "/a", .link = "b"}};

    launcher_greet(&c);
    launcher_template(&c, 1);
    launcher_call(&c, &link, NULL, 0, LAUNCHER_EV_OK);
    expect_error(&c, &link, NULL, 0, ERR_INVALID);
}

TEST(only_files_and_directories_can_be_mounted)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    AUTO_CLOSE int device = open("/dev/null", O_PATH | O_CLOEXEC);
    AUTO_CLOSE int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    AUTO_CLOSE int roots = open("/etc", O_PATH | O_CLOEXEC);
    struct launcher_req req = {.op = LAUNCHER_MOUNT, .place.path = "/data"};

    launcher_greet(&c);
    launcher_template(&c, 1);
    expect_error(&c, &req, &device, 1, ERR_INVALID);
    expect_error(&c, &req, &sock, 1, ERR_INVALID);
    req.place.kind = LAUNCHER_WRITABLE; /* what belongs to host id 0 is never lent for writing */
    expect_error(&c, &req, &roots, 1, ERR_INVALID);
    req.place.kind = LAUNCHER_READ_ONLY;
    launcher_call(&c, &req, &roots, 1, LAUNCHER_EV_OK);
}

TEST(a_profile_that_does_not_exist_is_an_error)
{
    static const uint32_t indexes[] = {3, 1000, UINT32_MAX};
    AUTO_LAUNCHER struct launcher_client c = launcher_open();

    launcher_greet(&c);
    for (size_t i = 0; i < ARRAY_LEN(indexes); i++) {
        struct launcher_req req = {.op = LAUNCHER_START,
                                   .template_id = launcher_template(&c, 1),
                                   .start.seccomp = indexes[i]};
        CASE("profile %u", indexes[i]);
        launcher_text(&c, req.template_id, LAUNCHER_ARG, "/bin/true");
        expect_error(&c, &req, NULL, 0, ERR_INVALID);
    }
}

TEST(all_boxes_and_zygotes_are_measured_together)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_req all = {.op = LAUNCHER_USAGE, .box_id = LAUNCHER_ALL_BOXES};

    launcher_greet(&c);
    struct launcher_rep none = launcher_call(&c, &all, NULL, 0, LAUNCHER_EV_USAGE);
    CHECK_INT(none.box.usage.processes, 0);
    uint32_t id = launcher_shell_template(&c, 1);
    struct launcher_box box = launcher_box(&c, id, 0);
    struct launcher_rep some = launcher_call(&c, &all, NULL, 0, LAUNCHER_EV_USAGE);
    CHECK(some.box.usage.processes >= 1 && some.box.usage.cpu_ns > 0);
    launcher_box_release(&box);
}

TEST(boxes_are_known_by_their_whole_number)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();

    launcher_greet(&c);
    uint32_t id = launcher_shell_template(&c, 1);
    struct launcher_box box = launcher_box(&c, id, 0);
    const uint32_t others[] = {0, 1, box.id + 1, box.id + 4096, box.id - 4096, UINT32_MAX - 1};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = others[i]};
        struct launcher_req finish = {.op = LAUNCHER_FINISH, .box_id = others[i]};
        struct launcher_req kill = {.op = LAUNCHER_KILL, .box_id = others[i]};
        struct launcher_req arm = {.op = LAUNCHER_DEADLINE, .box_id = others[i], .deadline.ms = 1};
        CASE("box %u instead of %u", others[i], box.id);
        expect_error(&c, &usage, NULL, 0, ERR_NOT_FOUND);
        expect_error(&c, &finish, NULL, 0, ERR_NOT_FOUND);
        struct launcher_req release = {.op = LAUNCHER_RELEASE, .box_id = others[i]};
        launcher_send(&c, &kill, NULL, 0);
        launcher_send(&c, &arm, NULL, 0);
        launcher_send(&c, &release, NULL, 0);
    }
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = box.id};
    CASE("the box itself was left alone");
    launcher_call(&c, &usage, NULL, 0, LAUNCHER_EV_USAGE);
    launcher_box_release(&box);
}

/* Its client has said that it is done with it: nothing of it is kept for another. */
TEST(a_kept_box_that_is_released_while_it_dies_is_forgotten)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_req adopt = {.op = LAUNCHER_ADOPT};
    struct launcher_rep rep;

    launcher_greet(&c);
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = box.id};
    struct launcher_req kill_it = {.op = LAUNCHER_KILL, .box_id = box.id};
    struct launcher_req release = {.op = LAUNCHER_RELEASE, .box_id = box.id};
    struct pollfd ready = {.fd = box.ends[0], .events = POLLIN};
    pid_t zygote = proc_zygote(c.pid);
    CHECK_INT(poll(&ready, 1, 10000), 1);
    CHECK_INT(kill(zygote, SIGSTOP), 0); /* so that the box is neither alive nor buried */
    launcher_send(&c, &keep, &box.ends[0], 1);
    launcher_send(&c, &kill_it, NULL, 0);
    launcher_send(&c, &release, NULL, 0);
    launcher_send(&c, &adopt, NULL, 0);
    do {
        CHECK(launcher_next(&c, &rep));
        CHECK(rep.event != LAUNCHER_EV_BOX && rep.event != LAUNCHER_EV_KEPT);
    } while (rep.event != LAUNCHER_EV_OK || rep.seq != c.seq);
    CHECK_INT(kill(zygote, SIGCONT), 0);
    launcher_box_release(&box);
}

/* So a client knows whether what an earlier one left was left with this launcher. */
TEST(every_client_learns_which_one_was_the_first)
{
    static const uint64_t epochs[] = {7, 9, 8};
    AUTO_LAUNCHER struct launcher_client c = launcher_open_for(geteuid());

    for (size_t i = 0; i < ARRAY_LEN(epochs); i++) {
        struct launcher_req adopt = {.op = LAUNCHER_ADOPT, .adopt.epoch = epochs[i]};
        if (i > 0) {
            launcher_succeed(&c, geteuid());
        }
        launcher_greet(&c);
        struct launcher_rep rep = launcher_call(&c, &adopt, NULL, 0, LAUNCHER_EV_OK);
        CHECK_INT(rep.adopted.epoch, 7);
    }
}

/* A client that was killed just after it asked for it: its successor finds the box. */
TEST(what_was_asked_to_be_kept_is_kept_although_nobody_had_read_it)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open_for(geteuid());

    launcher_greet(&c);
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = box.id};
    struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = box.id};
    CHECK_INT(kill(c.pid, SIGSTOP), 0);
    for (int i = 0; i < 10; i++) {
        launcher_send(&c, &usage, NULL, 0);
    }
    launcher_send(&c, &keep, &box.ends[0], 1);
    launcher_succeed(&c, geteuid());
    CHECK_INT(kill(c.pid, SIGCONT), 0);
    launcher_greet(&c);
    CHECK(launcher_finds_kept(&c, box.id));
    launcher_box_release(&box);
}

/* The supervisor may send a successor of the client, which is told of kept boxes only. */
TEST(boxes_that_nobody_can_speak_to_any_more_end)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open_for(0);
    static struct proc_list boxes;
    struct launcher_box two[2];

    launcher_greet(&c);
    uint32_t id = launcher_shell_template(&c, 2);
    for (size_t i = 0; i < ARRAY_LEN(two); i++) {
        two[i] = launcher_box(&c, id, 0);
        struct pollfd ready = {.fd = two[i].ends[0], .events = POLLIN};
        CHECK_INT(poll(&ready, 1, 10000), 1);
    }
    struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = two[1].id};
    launcher_send(&c, &keep, &two[1].ends[0], 1);
    proc_children(proc_zygote(c.pid), &boxes);
    CHECK_INT(boxes.n, 2);
    const struct proc_list first = {.pids = {boxes.pids[0]}, .n = 1};
    fd_close(&c.sock);
    proc_wait_gone(&first);
    CHECK(proc_is_alive(boxes.pids[1]));
    launcher_box_release(&two[0]);
    launcher_box_release(&two[1]);
}

TEST(a_box_that_has_ended_is_gone)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_rep rep;

    launcher_greet(&c);
    uint32_t id = launcher_shell_template(&c, 1);
    struct launcher_box box = launcher_box(&c, id, 0);
    struct launcher_req kill = {.op = LAUNCHER_KILL, .box_id = box.id};
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = box.id};
    launcher_send(&c, &kill, NULL, 0);
    do {
        CHECK(launcher_next(&c, &rep));
    } while (rep.event != LAUNCHER_EV_EXIT);
    CHECK_INT(rep.box_id, box.id);
    CHECK_INT(rep.box.end, LAUNCHER_END_KILLED);
    expect_error(&c, &usage, NULL, 0, ERR_NOT_FOUND);
    launcher_box_release(&box);
    struct launcher_box next = launcher_box(&c, id, 50); /* its place is free, its number is not */
    CHECK(next.id != box.id);
    do {
        CHECK(launcher_next(&c, &rep));
    } while (rep.event != LAUNCHER_EV_EXIT);
    CHECK_INT(rep.box.end, LAUNCHER_END_TIMEOUT);
    launcher_box_release(&next);
}

static long memory_kib(pid_t pid)
{
    char text[32];

    proc_status(pid, "VmHWM", text, sizeof(text));
    return strtol(text, NULL, 10);
}

TEST(a_client_that_asks_and_reads_can_do_so_for_ever)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_req req = {.op = LAUNCHER_USAGE, .box_id = 1};
    size_t fds = 0;

    launcher_greet(&c);
    for (int i = 0; i < FLOOD; i++) {
        launcher_call(&c, &req, NULL, 0, LAUNCHER_EV_ERROR);
        if (i == 0) {
            fds = proc_count_fds(c.pid);
        }
    }
    CHECK_INT(proc_count_fds(c.pid), fds);
    CHECK(memory_kib(c.pid) < MEMORY_KIB_MAX);
}

/* Requests and answers wait in the socket, not in the launcher. A client that never reads goes. */
TEST_TIMEOUT(a_client_that_asks_and_never_reads_is_given_up, 60)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_req req = {.op = LAUNCHER_USAGE, .box_id = 1};
    struct pollfd room = {.fd = c.sock, .events = POLLOUT};
    const struct proc_list launcher = {.pids = {c.pid}, .n = 1};
    int sent = 0;

    launcher_greet(&c);
    while (poll(&room, 1, STALLED_MS) == 1) {
        sent += launcher_send_raw(&c, &req, sizeof(req), NULL, 0) > 0;
        CHECK(sent < FLOOD);
    }
    CHECK(memory_kib(c.pid) < MEMORY_KIB_MAX);
    CHECK(proc_is_alive(c.pid));
    proc_wait_gone(&launcher);
}

TEST(more_births_than_can_be_served_wait_their_turn)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_box boxes[100];

    launcher_greet(&c);
    uint32_t id = launcher_shell_template(&c, 100);
    for (size_t i = 0; i < ARRAY_LEN(boxes); i++) {
        boxes[i] = launcher_box(&c, id, 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(boxes); i++) {
        struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = boxes[i].id};
        launcher_call(&c, &usage, NULL, 0, LAUNCHER_EV_USAGE);
        launcher_box_release(&boxes[i]);
    }
}
