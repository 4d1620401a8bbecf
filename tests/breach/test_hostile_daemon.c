/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A taken-over huskd at its socket to the launcher: it may name the operator's templates and make
 * boxes within their bounds, and nothing else. The launcher refuses or hangs up, and serves the
 * next client as if nothing had happened.
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "launcher_fixture.h"
#include "tap.h"

#define DAEMON_UID 65533
#define READY_MS 10000
#define TEMPLATES_TRIED 80 /* more than a launcher has room for */

static struct launcher_client taken_over(void)
{
    struct launcher_client c = launcher_open_for(DAEMON_UID);

    launcher_greet(&c);
    return c;
}

/* What every attempt ends with: the launcher still works for the daemon's successor. */
static void check_successor(struct launcher_client *c)
{
    launcher_succeed(c, DAEMON_UID);
    c->seq = 0;
    launcher_greet(c);
    struct launcher_box box = launcher_box(c, launcher_shell_template(c, 1), 0);
    launcher_box_release(&box);
}

static void check_hung_up(struct launcher_client *c)
{
    struct launcher_rep rep;

    CHECK(!launcher_next(c, &rep));
    check_successor(c);
}

static void check_refused(struct launcher_client *c, struct launcher_req *req, const int *fds,
                          size_t nfds, enum err_code code)
{
    struct launcher_rep rep = launcher_call(c, req, fds, nfds, LAUNCHER_EV_ERROR);

    CHECK_INT(rep.err.code, code);
}

/* ---- defining a template ---- */

static void try_part(enum launcher_op op, const char *text, bool has_asked)
{
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    AUTO_CLOSE int root = open("/", O_PATH | O_CLOEXEC);
    struct launcher_req req = {.op = op, .template_id = launcher_template(&c, 1)};

    if (op == LAUNCHER_MOUNT || op == LAUNCHER_LINK) {
        CHECK_INT(str_copy(req.place.path, sizeof(req.place.path), "/data"), 0);
        CHECK_INT(str_copy(req.place.link, sizeof(req.place.link), "/usr"), 0);
    } else if (op == LAUNCHER_ARG || op == LAUNCHER_ENV) {
        CHECK_INT(str_copy(req.text, sizeof(req.text), text), 0);
    } else if (op == LAUNCHER_FAIL) {
        req.fail.code = ERR_TEMPLATE;
    }
    if (has_asked) {
        (void)launcher_ask(&c, req.template_id);
    }
    launcher_send(&c, &req, &root, op == LAUNCHER_MOUNT ? 1 : 0);
    check_hung_up(&c);
}

TEST(a_daemon_lends_the_root_of_the_host)
{
    try_part(LAUNCHER_MOUNT, NULL, false);
}

TEST(a_daemon_adds_a_link)
{
    try_part(LAUNCHER_LINK, NULL, false);
}

TEST(a_daemon_chooses_the_program)
{
    try_part(LAUNCHER_ARG, "/bin/sh", false);
}

TEST(a_daemon_sets_a_variable_of_a_zygote)
{
    try_part(LAUNCHER_ENV, "LD_PRELOAD=/tmp/x.so", false);
}

TEST(a_daemon_starts_a_template)
{
    try_part(LAUNCHER_START, NULL, false);
}

TEST(a_daemon_answers_for_the_operator)
{
    try_part(LAUNCHER_FAIL, NULL, false);
}

/* Ids are one for the whole kernel: other launchers need some, too. */
TEST(a_daemon_asks_for_ids_without_end)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open_impatient_for(DAEMON_UID);
    struct launcher_req req = {.op = LAUNCHER_TEMPLATE,
                               .template = {.boxes = 100, .name = "hungry", .base = "shell"}};
    struct launcher_rep rep;
    int n = -1;

    launcher_greet(&c);
    do {
        launcher_send(&c, &req, NULL, 0);
        rep = launcher_answer(&c);
        n++;
    } while (rep.event == LAUNCHER_EV_OK);
    CHECK_INT(rep.err.code, ERR_LIMIT);
    CHECK_HAS(rep.err.msg, "host ids of one launcher");
    CHECK_INT(n, 4); /* eight wards, two for each */
    CASE("and does not ask for the definitions");
    while (launcher_next(&c, &rep) && --n > 0) {
        CHECK_INT(rep.event, LAUNCHER_EV_ERROR);
        CHECK_HAS(rep.err.msg, "did not ask for");
    }
    check_successor(&c);
}

/* While the operator sends its definition, a part from the daemon must not slip in. */
TEST(a_daemon_lends_the_root_while_the_operator_answers)
{
    try_part(LAUNCHER_MOUNT, NULL, true);
}

TEST(a_daemon_adds_an_argument_while_the_operator_answers)
{
    try_part(LAUNCHER_ARG, "hostile", true);
}

TEST(a_daemon_adds_a_variable_while_the_operator_answers)
{
    try_part(LAUNCHER_ENV, "BROWSER=/bin/sh", true);
}

TEST(a_daemon_starts_a_template_while_the_operator_answers)
{
    try_part(LAUNCHER_START, NULL, true);
}

TEST(a_daemon_asks_twice)
{
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    struct launcher_req ask = {.op = LAUNCHER_ASK, .template_id = launcher_template(&c, 1)};

    (void)launcher_ask(&c, ask.template_id);
    check_refused(&c, &ask, NULL, 0, ERR_INVALID);
    check_successor(&c);
}

TEST(a_daemon_names_a_template_by_a_path)
{
    static const char *const names[] = {"../python", "/etc/passwd", "a/b",          "..", ".",
                                        "",          "a b",         "a\nmount = /", "-x", "%s",
                                        "python\t",  "\xff"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_LAUNCHER struct launcher_client c = taken_over();
        struct launcher_rep rep;
        struct launcher_req req = {.op = LAUNCHER_TEMPLATE,
                                   .template = {.name = "test", .boxes = 1}};
        CASE("base \"%s\"", names[i]);
        CHECK_INT(str_copy(req.template.base, sizeof(req.template.base), names[i]), 0);
        launcher_send(&c, &req, NULL, 0);
        CHECK(!launcher_next(&c, &rep));
    }
}

TEST(a_daemon_names_a_template_without_an_end)
{
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    struct launcher_req req = {.op = LAUNCHER_TEMPLATE, .template = {.name = "test", .boxes = 1}};

    memset(req.template.base, 'a', sizeof(req.template.base));
    launcher_send(&c, &req, NULL, 0);
    check_hung_up(&c);
}

/* A newcomer is the supervisor's to bring: a daemon must not let a client in as root. */
TEST(a_daemon_brings_a_client_of_its_own)
{
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    const struct launcher_newcomer root = {.uid = 0};
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(launcher_send_raw(&c, &root, sizeof(root), &pair[1], 1), sizeof(root));
    close(pair[0]);
    close(pair[1]);
    check_hung_up(&c);
}

TEST(a_daemon_takes_every_template)
{
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    struct launcher_req req = {.op = LAUNCHER_TEMPLATE,
                               .template = {.name = "test", .base = "test", .boxes = 1}};
    struct launcher_rep rep = {.event = LAUNCHER_EV_OK};

    for (int i = 0; i < TEMPLATES_TRIED && rep.event == LAUNCHER_EV_OK; i++) {
        launcher_send(&c, &req, NULL, 0);
        rep = launcher_answer(&c);
    }
    CHECK(rep.event == LAUNCHER_EV_ERROR && rep.err.code == ERR_LIMIT);
    check_successor(&c);
}

/* ---- boxes ---- */

/* A template that runs, whose boxes have at most 512 MiB, half a core and 32 processes. */
static uint32_t bounded(struct launcher_client *c)
{
    uint32_t id = launcher_template(c, 2);
    struct launcher_req start = {
        .op = LAUNCHER_START,
        .template_id = id,
        .start.most = {.memory_bytes = 512 * MIB, .cpu_milli = 500, .pids = 32}};

    (void)launcher_ask(c, id);
    launcher_fill(c, id);
    launcher_text(c, id, LAUNCHER_ARG, "/husk/husk-init");
    launcher_text(c, id, LAUNCHER_ARG, "start");
    launcher_text(c, id, LAUNCHER_ARG, "/bin/bash");
    start.seq = c->ticket;
    CHECK_INT(fd_send(c->supervisor, &start, sizeof(start), NULL, 0, 0), sizeof(start));
    CHECK_INT(launcher_answer(c).event, LAUNCHER_EV_OK);
    return id;
}

static void try_limits(uint64_t memory, uint32_t cpu, uint32_t pids)
{
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    struct launcher_req box = {.op = LAUNCHER_BOX, .box.limits = limits_default()};
    int ours[LAUNCHER_BOX_FDS];
    int fds[LAUNCHER_BOX_FDS];

    box.template_id = bounded(&c);
    box.box.limits.memory_bytes = memory;
    box.box.limits.disk_bytes = 64 * MIB;
    box.box.limits.cpu_milli = cpu;
    box.box.limits.pids = pids;
    launcher_ends(ours, fds);
    check_refused(&c, &box, fds, LAUNCHER_BOX_FDS, ERR_INVALID);
    box.box.limits.memory_bytes = 256 * MIB;
    box.box.limits.cpu_milli = 500;
    box.box.limits.pids = 32;
    launcher_call(&c, &box, fds, LAUNCHER_BOX_FDS, LAUNCHER_EV_BOX);
    for (size_t i = 0; i < LAUNCHER_BOX_FDS; i++) {
        close(ours[i]);
        close(fds[i]);
    }
}

TEST(a_daemon_wants_more_memory_than_the_template_allows)
{
    try_limits(513 * MIB, 500, 32);
}

TEST(a_daemon_wants_more_cores_than_the_template_allows)
{
    try_limits(256 * MIB, 501, 32);
}

TEST(a_daemon_wants_more_processes_than_the_template_allows)
{
    try_limits(256 * MIB, 500, 33);
}

TEST(a_daemon_uses_templates_that_are_not_there)
{
    static const uint32_t ids[] = {1, 63, 64, 65, 4096, 0x7fffffff, 0x80000000, UINT32_MAX};
    static const enum launcher_op ops[] = {LAUNCHER_ASK, LAUNCHER_STOP, LAUNCHER_BOX};
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[LAUNCHER_BOX_FDS] = {null, null, null, null};

    CHECK_INT(launcher_template(&c, 1), 0);
    for (size_t i = 0; i < ARRAY_LEN(ids) * ARRAY_LEN(ops); i++) {
        enum launcher_op op = ops[i % ARRAY_LEN(ops)];
        struct launcher_req req = {.op = op, .template_id = ids[i / ARRAY_LEN(ops)]};
        if (op == LAUNCHER_BOX) {
            req.box.limits = limits_default();
        }
        CASE("operation %d, template %u", op, req.template_id);
        check_refused(&c, &req, fds, op == LAUNCHER_BOX ? LAUNCHER_BOX_FDS : 0, ERR_NOT_FOUND);
    }
    check_successor(&c);
}

TEST(a_daemon_makes_a_box_of_a_template_that_nobody_has_started)
{
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[LAUNCHER_BOX_FDS] = {null, null, null, null};
    struct launcher_req req = {.op = LAUNCHER_BOX, .box.limits = limits_default()};

    req.template_id = launcher_template(&c, 1);
    check_refused(&c, &req, fds, LAUNCHER_BOX_FDS, ERR_NOT_FOUND);
    (void)launcher_ask(&c, req.template_id);
    check_refused(&c, &req, fds, LAUNCHER_BOX_FDS, ERR_NOT_FOUND);
}

TEST(a_daemon_lends_a_directory_as_a_stream)
{
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    AUTO_CLOSE int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct launcher_req req = {.op = LAUNCHER_BOX, .box.limits = limits_default()};
    int pair[2];

    req.template_id = launcher_shell_template(&c, 1);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (size_t i = 0; i < LAUNCHER_BOX_FDS; i++) {
        int fds[LAUNCHER_BOX_FDS] = {pair[0], pair[0], pair[0], pair[0]};
        CASE("descriptor %zu", i);
        fds[i] = root;
        check_refused(&c, &req, fds, LAUNCHER_BOX_FDS, ERR_INVALID);
    }
    close(pair[0]);
    close(pair[1]);
}

/* What a daemon did not ask to keep ends with it, and its number opens nothing afterwards. */
TEST(a_daemon_uses_the_boxes_of_its_predecessor)
{
    static const enum launcher_op ops[] = {LAUNCHER_USAGE, LAUNCHER_FINISH};
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    struct pollfd ready = {.fd = box.ends[0], .events = POLLIN};

    CHECK_INT(poll(&ready, 1, READY_MS), 1); /* one that is not born yet ends when it is */
    launcher_succeed(&c, DAEMON_UID);
    launcher_greet(&c);
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        struct launcher_req req = {.op = ops[i], .box_id = box.id};
        check_refused(&c, &req, NULL, 0, ERR_NOT_FOUND);
    }
    CHECK(!launcher_finds_kept(&c, box.id));
    launcher_box_release(&box);
}

/* Only the box of a session that was prepared can be frozen; nothing else is touched. */
TEST(a_daemon_freezes_what_it_may_not)
{
    static const enum launcher_freeze ways[] = {LAUNCHER_PREPARE, LAUNCHER_FROZEN, LAUNCHER_THAWED};
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    struct launcher_box once = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    const uint32_t ids[] = {0, 1, once.id, once.id + 1, once.id + 4096, UINT32_MAX};
    struct pollfd ready = {.fd = once.ends[0], .events = POLLIN};

    CHECK_INT(poll(&ready, 1, READY_MS), 1);
    for (size_t i = 0; i < ARRAY_LEN(ids) * ARRAY_LEN(ways); i++) {
        struct launcher_req freeze = {.op = LAUNCHER_FREEZE,
                                      .box_id = ids[i / ARRAY_LEN(ways)],
                                      .freeze.how = ways[i % ARRAY_LEN(ways)]};
        CASE("box %u, way %u", freeze.box_id, freeze.freeze.how);
        check_refused(&c, &freeze, NULL, 0, ERR_NOT_FOUND);
    }
    struct launcher_req unknown = {
        .op = LAUNCHER_FREEZE, .box_id = once.id, .freeze.how = LAUNCHER_THAWED + 1};
    launcher_send(&c, &unknown, NULL, 0);
    check_hung_up(&c);
    launcher_box_release(&once);
}

TEST(a_daemon_keeps_what_is_no_box)
{
    static const uint32_t ids[] = {0, 1, 4095, 4096, 0x80000000, UINT32_MAX};
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = ids[i]};
        CASE("box %u", ids[i]);
        launcher_send(&c, &keep, &null, 1);
        CHECK(!launcher_finds_kept(&c, ids[i]));
    }
    check_successor(&c);
}

/* What is kept goes to its successor: its own socket would be a second way to the launcher. */
TEST(a_daemon_keeps_descriptors_of_another_kind)
{
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    struct launcher_box box = launcher_box(&c, launcher_shell_template(&c, 1), 0);
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    AUTO_CLOSE int root = open("/", O_PATH | O_CLOEXEC);
    AUTO_CLOSE int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int others[] = {null, root, tcp, c.sock};

    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = box.id, .keep.slot = 1};
        const int fds[] = {box.ends[0], others[i]};
        CASE("descriptor %zu", i);
        check_refused(&c, &keep, fds, ARRAY_LEN(fds), ERR_INVALID);
    }
    CHECK(!launcher_finds_kept(&c, box.id));
    launcher_box_release(&box);
    check_successor(&c);
}

TEST(a_daemon_keeps_in_a_place_that_is_not_there)
{
    AUTO_LAUNCHER struct launcher_client c = taken_over();
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct launcher_req keep = {.op = LAUNCHER_KEEP, .box_id = 1, .keep.slot = LAUNCHER_KEEP_SLOTS};

    launcher_send(&c, &keep, &null, 1);
    check_hung_up(&c);
}

/* ---- the shape of frames ---- */

TEST(a_daemon_sends_frames_of_other_sizes)
{
    static const size_t sizes[] = {1,
                                   4,
                                   15,
                                   16,
                                   sizeof(struct launcher_newcomer),
                                   sizeof(struct launcher_want),
                                   sizeof(struct launcher_req) - 1,
                                   sizeof(struct launcher_req) + 1,
                                   4096,
                                   65536};
    static char frame[65536];
    const struct launcher_req hello = {.op = LAUNCHER_ADOPT};

    memcpy(frame, &hello, sizeof(hello));
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        AUTO_LAUNCHER struct launcher_client c = taken_over();
        CASE("%zu bytes", sizes[i]);
        CHECK_INT(launcher_send_raw(&c, frame, sizes[i], NULL, 0), sizes[i]);
        check_hung_up(&c);
    }
}

TEST(a_daemon_sends_operations_that_do_not_exist)
{
    static const uint32_t ops[] = {0, LAUNCHER_OPS, LAUNCHER_OPS + 1, 0x80000000, UINT32_MAX};

    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        AUTO_LAUNCHER struct launcher_client c = taken_over();
        struct launcher_req req = {.op = ops[i]};
        CASE("operation %u", ops[i]);
        launcher_send(&c, &req, NULL, 0);
        check_hung_up(&c);
    }
}

TEST(a_daemon_sends_descriptors_where_none_belong)
{
    static const enum launcher_op ops[] = {LAUNCHER_ASK, LAUNCHER_STOP, LAUNCHER_USAGE,
                                           LAUNCHER_ADOPT, LAUNCHER_KILL};
    AUTO_CLOSE int root = open("/", O_PATH | O_CLOEXEC);

    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        AUTO_LAUNCHER struct launcher_client c = taken_over();
        struct launcher_req req = {.op = ops[i]};
        CASE("operation %d", ops[i]);
        launcher_send(&c, &req, &root, 1);
        check_hung_up(&c);
    }
}
