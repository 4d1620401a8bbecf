/* SPDX-License-Identifier: Apache-2.0 */
/* A supervised launcher: its client names templates, its supervisor says what they consist of. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/str.h"
#include "launcher_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define DAEMON_UID 65533

static struct launcher_req part(enum launcher_op op, uint32_t id)
{
    struct launcher_req req = {.op = op, .template_id = id};

    if (op == LAUNCHER_MOUNT || op == LAUNCHER_LINK) {
        (void)str_copy(req.place.path, sizeof(req.place.path), "/data");
        (void)str_copy(req.place.link, sizeof(req.place.link), "/usr");
    } else if (op == LAUNCHER_FAIL) {
        req.fail.code = ERR_TEMPLATE;
    } else if (op != LAUNCHER_START) {
        (void)str_copy(req.text, sizeof(req.text), "A=b");
    }
    return req;
}

/* A daemon that was taken over lends nothing, chooses no program and no variable. */
TEST(a_supervised_client_that_defines_a_template_is_hung_up_on)
{
    static const enum launcher_op ops[] = {LAUNCHER_MOUNT, LAUNCHER_LINK,  LAUNCHER_ARG,
                                           LAUNCHER_ENV,   LAUNCHER_START, LAUNCHER_FAIL};
    AUTO_CLOSE int root = open("/", O_PATH | O_CLOEXEC);

    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        AUTO_LAUNCHER struct launcher_client c = launcher_open_for(DAEMON_UID);
        struct launcher_rep rep;
        CASE("operation %d", ops[i]);
        launcher_greet(&c);
        struct launcher_req req = part(ops[i], launcher_template(&c, 1));
        launcher_send(&c, &req, &root, ops[i] == LAUNCHER_MOUNT ? 1 : 0);
        CHECK(!launcher_next(&c, &rep));
    }
}

TEST(a_supervised_launcher_has_one_client_at_a_time)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open_for(DAEMON_UID);
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = 1};

    launcher_greet(&c);
    AUTO_CLOSE int old = fcntl(c.sock, F_DUPFD_CLOEXEC, 0);
    launcher_succeed(&c, DAEMON_UID);
    launcher_greet(&c);
    char byte;
    CHECK_INT(recv(old, &byte, 1, 0), 0);                  /* hung up on */
    launcher_call(&c, &usage, NULL, 0, LAUNCHER_EV_ERROR); /* there is no such box */
}

/* With the supervisor gone the client may finish, and may no more than before. */
TEST(a_client_has_no_more_rights_when_its_supervisor_is_gone)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open_for(DAEMON_UID);
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = 1};
    struct launcher_rep rep;

    launcher_greet(&c);
    uint32_t id = launcher_template(&c, 1);
    fd_close(&c.supervisor);
    launcher_call(&c, &usage, NULL, 0, LAUNCHER_EV_ERROR);
    struct launcher_req ask = {.op = LAUNCHER_ASK, .template_id = id};
    launcher_call(&c, &ask, NULL, 0, LAUNCHER_EV_ERROR);
    struct launcher_req arg = part(LAUNCHER_ARG, launcher_template(&c, 1));
    launcher_send(&c, &arg, NULL, 0);
    CHECK(!launcher_next(&c, &rep));
}

TEST(the_supervisor_is_asked_for_what_the_client_named)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open_for(DAEMON_UID);
    struct launcher_req req = {
        .op = LAUNCHER_TEMPLATE,
        .template = {.name = "mine", .base = "python", .modules = 5, .preload = 1, .boxes = 1}};

    launcher_greet(&c);
    uint32_t id = launcher_call(&c, &req, NULL, 0, LAUNCHER_EV_OK).template_id;
    struct launcher_want want = launcher_ask(&c, id);
    CHECK_STR(want.base, "python");
    CHECK_INT(want.modules, 5);
    CHECK_INT(want.preload, 1);
    struct launcher_req fail = part(LAUNCHER_FAIL, id);
    (void)str_copy(fail.fail.msg, sizeof(fail.fail.msg), "no such thing");
    fail.seq = want.ticket;
    CHECK_INT(fd_send(c.supervisor, &fail, sizeof(fail), NULL, 0, 0), sizeof(fail));
    struct launcher_rep rep = launcher_answer(&c);
    CHECK_INT(rep.event, LAUNCHER_EV_ERROR);
    CHECK_STR(rep.err.msg, "template mine: no such thing");
}

/* Its place may be another template's by the time the supervisor answers. */
TEST(a_definition_for_a_template_that_is_gone_is_dropped)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open_for(DAEMON_UID);

    launcher_greet(&c);
    uint32_t id = launcher_template(&c, 1);
    struct launcher_want old = launcher_ask(&c, id);
    struct launcher_req stop = {.op = LAUNCHER_STOP, .template_id = id};
    launcher_call(&c, &stop, NULL, 0, LAUNCHER_EV_OK);
    CHECK_INT(launcher_template(&c, 1), id);
    struct launcher_want fresh = launcher_ask(&c, id);
    CHECK(fresh.ticket != old.ticket);
    struct launcher_req fail = part(LAUNCHER_FAIL, id);
    fail.seq = old.ticket;
    CHECK_INT(fd_send(c.supervisor, &fail, sizeof(fail), NULL, 0, 0), sizeof(fail));
    struct launcher_req fail_now = part(LAUNCHER_FAIL, id);
    (void)str_copy(fail_now.fail.msg, sizeof(fail_now.fail.msg), "the new one");
    fail_now.seq = fresh.ticket;
    CHECK_INT(fd_send(c.supervisor, &fail_now, sizeof(fail_now), NULL, 0, 0), sizeof(fail_now));
    struct launcher_rep rep = launcher_answer(&c);
    CHECK(rep.event == LAUNCHER_EV_ERROR && strstr(rep.err.msg, "the new one") != NULL);
}

/*
 * A box that was kept and died with its zygote: by now another template has its place, and the
 * successor would take the box for one of that. It learns only what was kept.
 */
TEST(a_successor_is_told_what_was_kept_of_boxes_whose_template_is_gone)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open_for(DAEMON_UID);
    struct launcher_req adopt = {.op = LAUNCHER_ADOPT};
    struct launcher_rep rep = {0};
    struct launcher_box boxes[2];
    uint32_t ids[2];
    int found[2] = {0};

    launcher_greet(&c);
    for (int i = 0; i < 2; i++) {
        ids[i] = launcher_shell_template(&c, 1);
        boxes[i] = launcher_box(&c, ids[i], 0);
        struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = boxes[i].id};
        launcher_send(&c, &keep, &boxes[i].ends[0], 1);
        if (i == 0) {
            proc_kill(proc_zygote(c.pid));
            while (rep.event != LAUNCHER_EV_GONE) {
                CHECK(launcher_next(&c, &rep));
            }
        }
    }
    CHECK_INT(ids[0], ids[1]);

    launcher_succeed(&c, DAEMON_UID);
    launcher_greet(&c);
    launcher_send(&c, &adopt, NULL, 0);
    do {
        CHECK(launcher_next(&c, &rep));
        CHECK(rep.box_id != boxes[0].id || rep.event == LAUNCHER_EV_KEPT);
        found[0] += rep.event == LAUNCHER_EV_KEPT && rep.box_id == boxes[0].id;
        found[1] += rep.event == LAUNCHER_EV_KEPT && rep.box_id == boxes[1].id;
    } while (rep.event != LAUNCHER_EV_OK || rep.seq != c.seq);
    CHECK(found[0] == 1 && found[1] == 1);
    CHECK(!launcher_finds_kept(&c, boxes[0].id)); /* once */
    launcher_box_release(&boxes[0]);
    launcher_box_release(&boxes[1]);
}

TEST(a_box_has_no_more_than_its_template_allows)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_req box = {.op = LAUNCHER_BOX, .box.limits = limits_default()};
    const int fds[LAUNCHER_BOX_FDS] = {0, 1, 2, 2};

    launcher_greet(&c);
    uint32_t id = launcher_template(&c, 1);
    struct launcher_req start = {
        .op = LAUNCHER_START, .template_id = id, .start.most.memory_bytes = 512 * MIB};
    launcher_fill(&c, id);
    launcher_text(&c, id, LAUNCHER_ARG, "/husk/husk-init");
    launcher_text(&c, id, LAUNCHER_ARG, "start");
    launcher_text(&c, id, LAUNCHER_ARG, "/bin/bash");
    launcher_call(&c, &start, NULL, 0, LAUNCHER_EV_OK);
    box.template_id = id;
    box.box.limits.memory_bytes = 513 * MIB;
    struct launcher_rep rep = launcher_call(&c, &box, fds, LAUNCHER_BOX_FDS, LAUNCHER_EV_ERROR);
    CHECK(rep.err.code == ERR_INVALID && strstr(rep.err.msg, "memory") != NULL);
}
