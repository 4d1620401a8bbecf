/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of requests: a malformed one closes the connection at once. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "launcher_fixture.h"
#include "launcher_shapes.h"
#include "proc_fixture.h"
#include "tap.h"

#define FDS_TRIED 17 /* one more than a message may bring */

/* Sends one frame to a new launcher and expects to be hung up on. */
static void expect_hangup(bool greeted, const void *frame, size_t n, size_t nfds)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int fds[FDS_TRIED];

    CHECK(null >= 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = null;
    }
    if (greeted) {
        launcher_greet(&c);
        launcher_template(&c, 1); /* number 0, under construction */
    }
    CHECK_INT(launcher_send_raw(&c, frame, n, fds, nfds), n);
    launcher_expect_hangup(&c);
}

TEST(nothing_is_answered_before_hello)
{
    for (uint32_t op = LAUNCHER_HELLO + 1; op < LAUNCHER_OPS; op++) {
        struct launcher_req req = shape_of(op);
        CASE("operation %u", op);
        expect_hangup(false, &req, sizeof(req), shape_fds(op));
    }
}

TEST(a_second_hello_is_one_too_many)
{
    struct launcher_req req = shape_of(LAUNCHER_HELLO);

    expect_hangup(true, &req, sizeof(req), 0);
}

TEST(hello_tells_what_the_host_enforces)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_req req = shape_of(LAUNCHER_HELLO);
    struct launcher_rep rep = launcher_call(&c, &req, NULL, 0, LAUNCHER_EV_HELLO);

    CHECK_INT(rep.facts.isolation, LAUNCHER_FULL);
    CHECK_STR(rep.facts.missing, "");
    CHECK(rep.facts.cgroup[0] != '\0');
}

TEST(another_protocol_is_an_error_that_says_so)
{
    AUTO_LAUNCHER struct launcher_client c = launcher_open();
    struct launcher_req req = shape_of(LAUNCHER_HELLO);

    req.hello.protocol = LAUNCHER_PROTOCOL + 1;
    struct launcher_rep rep = launcher_call(&c, &req, NULL, 0, LAUNCHER_EV_ERROR);
    CHECK_INT(rep.err.code, ERR_PROTOCOL);
    struct launcher_req next = shape_of(LAUNCHER_TEMPLATE); /* it does not count as a greeting */
    CHECK_INT(launcher_send_raw(&c, &next, sizeof(next), NULL, 0), sizeof(next));
    launcher_expect_hangup(&c);
}

TEST(frames_of_the_wrong_size_end_the_connection)
{
    static const size_t sizes[] = {1, 4, sizeof(struct launcher_req) - 1,
                                   sizeof(struct launcher_req) + 1, 65536};
    static char frame[65536];
    struct launcher_req req = shape_of(LAUNCHER_TEMPLATE);

    memcpy(frame, &req, sizeof(req));
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        CASE("%zu bytes", sizes[i]);
        expect_hangup(true, frame, sizes[i], 0);
    }
}

TEST(unknown_operations_end_the_connection)
{
    static const uint32_t ops[] = {0, LAUNCHER_OPS, LAUNCHER_OPS + 1, 0x80000000u, UINT32_MAX};

    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        struct launcher_req req = shape_of(ops[i]);
        CASE("operation %u", ops[i]);
        expect_hangup(true, &req, sizeof(req), 0);
    }
}

TEST(descriptors_that_do_not_belong_end_the_connection)
{
    for (uint32_t op = LAUNCHER_TEMPLATE; op < LAUNCHER_OPS; op++) {
        const size_t counts[] = {shape_fds(op) - 1, shape_most_fds(op) + 1, FDS_TRIED - 1};
        for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
            struct launcher_req req = shape_of(op);
            if (counts[i] < FDS_TRIED) { /* none has fewer than none */
                CASE("operation %u with %zu descriptors", op, counts[i]);
                expect_hangup(true, &req, sizeof(req), counts[i]);
            }
        }
    }
}

struct wrong {
    const char *what;
    uint32_t op;
    size_t offset; /* where the request is changed */
    const char *bytes;
    size_t n;
};

#define AT(field) offsetof(struct launcher_req, field)
#define BAD(what, op, field, text)                                                                 \
    {                                                                                              \
        (what), (op), AT(field), (text), sizeof(text)                                              \
    }

TEST(fields_out_of_range_end_the_connection)
{
    static const struct wrong rows[] = {
        BAD("isolation", LAUNCHER_HELLO, hello.isolation, "\2\0\0"),
        BAD("empty name", LAUNCHER_TEMPLATE, template.name, ""),
        BAD("name in capitals", LAUNCHER_TEMPLATE, template.name, "Test"),
        BAD("name with a slash", LAUNCHER_TEMPLATE, template.name, "a/b"),
        BAD("name that is a path", LAUNCHER_TEMPLATE, template.name, "../test"),
        BAD("empty base", LAUNCHER_TEMPLATE, template.base, ""),
        BAD("base that is a path", LAUNCHER_TEMPLATE, template.base, "../test"),
        BAD("preload neither yes nor no", LAUNCHER_TEMPLATE, template.preload, "\2\0\0"),
        BAD("imports neither yes nor no", LAUNCHER_START, start.imports, "\2\0\0"),
        BAD("failure without a code", LAUNCHER_FAIL, fail.code, "\0\0\0"),
        BAD("no boxes", LAUNCHER_TEMPLATE, template.boxes, "\0\0\0"),
        BAD("4096 boxes", LAUNCHER_TEMPLATE, template.boxes, "\0\20\0"),
        BAD("empty path", LAUNCHER_MOUNT, place.path, ""),
        BAD("relative path", LAUNCHER_MOUNT, place.path, "data"),
        BAD("the root", LAUNCHER_MOUNT, place.path, "/"),
        BAD("a way up", LAUNCHER_MOUNT, place.path, "/.."),
        BAD("a way up inside", LAUNCHER_MOUNT, place.path, "/a/../b"),
        BAD("a dot", LAUNCHER_MOUNT, place.path, "/a/./b"),
        BAD("an empty component", LAUNCHER_MOUNT, place.path, "/a//b"),
        BAD("a slash at the end", LAUNCHER_MOUNT, place.path, "/a/"),
        BAD("a way up as a link", LAUNCHER_LINK, place.path, "/a/.."),
        BAD("unknown kind of place", LAUNCHER_MOUNT, place.kind, "\3\0\0"),
        BAD("empty argument", LAUNCHER_ARG, text, ""),
        BAD("empty variable", LAUNCHER_ENV, text, ""),
        BAD("unknown mode", LAUNCHER_BOX, box.mode, "\2\0\0"),
        BAD("a fourth warmth", LAUNCHER_BOX, box.warmth, "\3\0\0"),
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct launcher_req req = shape_of(rows[i].op);
        memcpy((char *)&req + rows[i].offset, rows[i].bytes, rows[i].n);
        CASE("%s", rows[i].what);
        expect_hangup(rows[i].op != LAUNCHER_HELLO, &req, sizeof(req), shape_fds(rows[i].op));
    }
}

TEST(strings_without_an_end_end_the_connection)
{
    static const struct {
        uint32_t op;
        size_t offset;
        size_t size;
    } rows[] = {
        {LAUNCHER_TEMPLATE, AT(template.name), LAUNCHER_NAME_MAX},
        {LAUNCHER_MOUNT, AT(place.path), LAUNCHER_PATH_MAX},
        {LAUNCHER_MOUNT, AT(place.link), LAUNCHER_PATH_MAX},
        {LAUNCHER_LINK, AT(place.path), LAUNCHER_PATH_MAX},
        {LAUNCHER_LINK, AT(place.link), LAUNCHER_PATH_MAX},
        {LAUNCHER_ARG, AT(text), LAUNCHER_TEXT_MAX},
        {LAUNCHER_ENV, AT(text), LAUNCHER_TEXT_MAX},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct launcher_req req = shape_of(rows[i].op);
        char *field = (char *)&req + rows[i].offset;
        /* Its first byte stays as it was: '/' or a letter. */
        memset(field + 1, 'a', rows[i].size - 1);
        CASE("operation %u, offset %zu", rows[i].op, rows[i].offset);
        expect_hangup(true, &req, sizeof(req), shape_fds(rows[i].op));
    }
}

TEST(limits_out_of_range_end_the_connection)
{
#define LIMIT(field, value)                                                                        \
    {                                                                                              \
#        field, offsetof(struct limits, field), (value)                                            \
    }
    static const struct {
        const char *field;
        size_t offset;
        uint64_t value;
    } rows[] = {
        LIMIT(memory_bytes, 1), LIMIT(memory_bytes, UINT64_MAX),
        LIMIT(disk_bytes, 1),   LIMIT(disk_bytes, (uint64_t)1 << 30), /* as much as the memory */
        LIMIT(timeout_ms, 0),   LIMIT(timeout_ms, UINT64_MAX),
        LIMIT(output_bytes, 1), LIMIT(output_bytes, UINT64_MAX),
        LIMIT(cpu_milli, 1),    LIMIT(cpu_milli, UINT32_MAX),
        LIMIT(pids, 0),         LIMIT(pids, UINT32_MAX),
        LIMIT(inodes, 1),       LIMIT(inodes, UINT32_MAX),
        LIMIT(open_files, 1),   LIMIT(open_files, UINT32_MAX),
    };
#undef LIMIT

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct launcher_req req = shape_of(LAUNCHER_BOX);
        bool wide = rows[i].offset < offsetof(struct limits, cpu_milli);
        memcpy((char *)&req.box.limits + rows[i].offset, &rows[i].value,
               wide ? sizeof(uint64_t) : sizeof(uint32_t));
        CASE("%s is %" PRIu64, rows[i].field, rows[i].value);
        expect_hangup(true, &req, sizeof(req), LAUNCHER_BOX_FDS);
    }
}

/* A deadline must not wrap around into the past or into nothing. */
TEST(deadlines_out_of_range_end_the_connection)
{
    static const uint64_t deadlines[] = {UINT64_MAX, UINT64_MAX / 1000000 + 1, (uint64_t)1 << 62};

    for (size_t i = 0; i < ARRAY_LEN(deadlines); i++) {
        struct launcher_req box = shape_of(LAUNCHER_BOX);
        struct launcher_req arm = shape_of(LAUNCHER_DEADLINE);
        box.box.deadline_ms = deadlines[i];
        arm.deadline.ms = deadlines[i];
        CASE("BOX with %" PRIu64 " ms", deadlines[i]);
        expect_hangup(true, &box, sizeof(box), LAUNCHER_BOX_FDS);
        CASE("DEADLINE with %" PRIu64 " ms", deadlines[i]);
        expect_hangup(true, &arm, sizeof(arm), 0);
    }
}

/* A supervisor that breaks the protocol is disconnected; the client that it has sent may finish. */
TEST(newcomers_of_the_wrong_shape_are_not_let_in)
{
    static const struct {
        const char *what;
        size_t size;
        size_t fds;
    } rows[] = {
        {"a short message", sizeof(struct launcher_newcomer) - 1, 1},
        {"a long message", sizeof(struct launcher_newcomer) + 1, 1},
        {"no socket", sizeof(struct launcher_newcomer), 0},
        {"two sockets", sizeof(struct launcher_newcomer), 2},
    };
    static const char bytes[sizeof(struct launcher_newcomer) + 1];
    struct launcher_req usage = {.op = LAUNCHER_USAGE, .box_id = 1};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_LAUNCHER struct launcher_client c = launcher_open_for(0);
        char byte;
        int pair[2];
        CASE("%s", rows[i].what);
        CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        const int fds[2] = {pair[1], pair[1]};
        launcher_greet(&c);
        CHECK_INT(fd_send(c.supervisor, bytes, rows[i].size, fds, rows[i].fds, 0), rows[i].size);
        close(pair[1]);
        CHECK_INT(recv(pair[0], &byte, 1, 0), 0); /* it was closed, not answered */
        CHECK_INT(recv(c.supervisor, &byte, 1, 0), 0);
        launcher_call(&c, &usage, NULL, 0, LAUNCHER_EV_ERROR);
        close(pair[0]);
    }
}
