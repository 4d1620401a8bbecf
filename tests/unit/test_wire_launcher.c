/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of launcher requests and answers: what is refused before its meaning is checked.
 */
#include "wire/launcher_msg.h"

#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "launcher_shapes.h"
#include "tap.h"

static bool is_fine(const struct launcher_req *req)
{
    return launcher_req_check(req, sizeof(*req), shape_fds(req->op));
}

TEST(every_operation_has_a_shape_that_passes)
{
    for (uint32_t op = LAUNCHER_HELLO; op < LAUNCHER_OPS; op++) {
        struct launcher_req req = shape_of(op);
        CASE("operation %u", op);
        CHECK(is_fine(&req));
    }
}

TEST(only_the_exact_size_and_number_of_descriptors_pass)
{
    for (uint32_t op = LAUNCHER_HELLO; op < LAUNCHER_OPS; op++) {
        struct launcher_req req = shape_of(op);
        CASE("operation %u", op);
        CHECK(!launcher_req_check(&req, sizeof(req) - 1, shape_fds(op)));
        CHECK(!launcher_req_check(&req, sizeof(req) + 1, shape_fds(op)));
        CHECK(!launcher_req_check(&req, 0, shape_fds(op)));
        for (size_t nfds = 0; nfds < 17; nfds++) {
            CHECK(launcher_req_check(&req, sizeof(req), nfds) ==
                  (nfds >= shape_fds(op) && nfds <= shape_most_fds(op)));
        }
    }
}

TEST(operations_that_do_not_exist_are_refused)
{
    static const uint32_t ops[] = {0, LAUNCHER_OPS, LAUNCHER_OPS + 1, 1u << 31, UINT32_MAX};

    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        struct launcher_req req = {.op = ops[i]};
        CASE("operation %u", ops[i]);
        CHECK(!launcher_req_check(&req, sizeof(req), 0));
    }
}

TEST(paths_are_absolute_and_plain)
{
    static const char *const good[] = {"/a", "/a/b", "/..a", "/a..", "/...", "/a b", "/\xff"};
    static const char *const bad[] = {"",    "a",    "/",       "//",     "/a/",  "/a//b",
                                      "/.",  "/./a", "/..",     "/../a",  "/a/.", "/a/..",
                                      "a/b", ".",    "../../a", "/a/../b"};

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        CASE("%s", good[i]);
        CHECK(launcher_path_check(good[i]));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct launcher_req mount = shape_of(LAUNCHER_MOUNT);
        struct launcher_req link = shape_of(LAUNCHER_LINK);
        CASE("%s", bad[i]);
        CHECK(!launcher_path_check(bad[i]));
        CHECK_INT(str_copy(mount.place.path, sizeof(mount.place.path), bad[i]), 0);
        CHECK_INT(str_copy(link.place.path, sizeof(link.place.path), bad[i]), 0);
        CHECK(!is_fine(&mount));
        CHECK(!is_fine(&link));
    }
}

TEST(strings_fill_their_field_only_up_to_the_last_byte)
{
#define FIELD(op, field)                                                                           \
    {                                                                                              \
        (op), offsetof(struct launcher_req, field), sizeof(shape_of(0).field)                      \
    }
    const struct {
        uint32_t op;
        size_t offset, size;
    } rows[] = {
        FIELD(LAUNCHER_TEMPLATE, template.name),
        FIELD(LAUNCHER_TEMPLATE, template.base),
        FIELD(LAUNCHER_FAIL, fail.msg),
        FIELD(LAUNCHER_MOUNT, place.path),
        FIELD(LAUNCHER_MOUNT, place.link),
        FIELD(LAUNCHER_LINK, place.path),
        FIELD(LAUNCHER_LINK, place.link),
        FIELD(LAUNCHER_ARG, text),
        FIELD(LAUNCHER_ENV, text),
    };
#undef FIELD

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct launcher_req req = shape_of(rows[i].op);
        char *text = (char *)&req + rows[i].offset;
        CASE("operation %u, offset %zu", rows[i].op, rows[i].offset);
        memset(text + 1, 'a', rows[i].size - 2); /* its first byte stays: '/', a letter, or NUL */
        text[rows[i].size - 1] = '\0';
        CHECK(is_fine(&req));
        text[0] = text[0] == '\0' ? 'a' : text[0];
        text[rows[i].size - 1] = 'a';
        CHECK(!is_fine(&req));
    }
}

TEST(numbers_out_of_range_are_refused)
{
    struct launcher_req hello = shape_of(LAUNCHER_HELLO);
    struct launcher_req template = shape_of(LAUNCHER_TEMPLATE);
    struct launcher_req mount = shape_of(LAUNCHER_MOUNT);
    struct launcher_req box = shape_of(LAUNCHER_BOX);

    hello.hello.isolation = LAUNCHER_USERNS;
    CHECK(is_fine(&hello));
    hello.hello.isolation = LAUNCHER_USERNS + 1;
    CHECK(!is_fine(&hello));

    template.template.boxes = LAUNCHER_BOXES_MAX;
    CHECK(is_fine(&template));
    template.template.boxes = LAUNCHER_BOXES_MAX + 1;
    CHECK(!is_fine(&template));
    template.template.boxes = 0;
    CHECK(!is_fine(&template));

    mount.place.kind = LAUNCHER_COPY;
    CHECK(is_fine(&mount));
    mount.place.kind = LAUNCHER_COPY + 1;
    CHECK(!is_fine(&mount));

    box.box.mode = LAUNCHER_SESSION;
    box.box.warmth = LAUNCHER_COOL;
    CHECK(is_fine(&box));
    box.box.mode = LAUNCHER_SESSION + 1;
    CHECK(!is_fine(&box));
    box.box.mode = LAUNCHER_ONCE;
    box.box.warmth = LAUNCHER_COOL + 1;
    CHECK(!is_fine(&box));
    box.box.warmth = LAUNCHER_FRESH;
    box.box.limits.pids = 0;
    CHECK(!is_fine(&box));
}

TEST(deadlines_that_would_overflow_are_refused)
{
    struct launcher_req box = shape_of(LAUNCHER_BOX);
    struct launcher_req deadline = shape_of(LAUNCHER_DEADLINE);

    box.box.deadline_ms = deadline.deadline.ms = (uint64_t)7 * 24 * 3600 * 1000; /* the most */
    CHECK(is_fine(&box));
    CHECK(is_fine(&deadline));
    box.box.deadline_ms = deadline.deadline.ms = UINT64_MAX / 1000000 + 1;
    CHECK(!is_fine(&box));
    CHECK(!is_fine(&deadline));
}

static bool answer_is_fine(const struct launcher_rep *rep)
{
    return launcher_rep_check(rep, sizeof(*rep));
}

TEST(every_answer_has_a_shape_that_passes)
{
    for (uint32_t event = LAUNCHER_EV_OK; event <= LAUNCHER_EV_KEPT; event++) {
        struct launcher_rep rep = {.event = event};
        CASE("event %u", event);
        CHECK(answer_is_fine(&rep));
        CHECK(!launcher_rep_check(&rep, sizeof(rep) - 1));
        CHECK(!launcher_rep_check(&rep, sizeof(rep) + 1));
    }
    static const uint32_t events[] = {0, LAUNCHER_EV_KEPT + 1, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        struct launcher_rep rep = {.event = events[i]};
        CASE("event %u", events[i]);
        CHECK(!answer_is_fine(&rep));
    }
}

TEST(answers_with_open_strings_or_unknown_codes_are_refused)
{
    struct launcher_rep error = {.event = LAUNCHER_EV_ERROR};
    struct launcher_rep exit = {.event = LAUNCHER_EV_EXIT};

    memset(error.err.msg, 'a', sizeof(error.err.msg));
    CHECK(!answer_is_fine(&error));
    error.err.msg[sizeof(error.err.msg) - 1] = '\0';
    CHECK(answer_is_fine(&error));
    error.err.code = ERR_CODES;
    CHECK(!answer_is_fine(&error));
    error.err.code = (enum err_code) - 1;
    CHECK(!answer_is_fine(&error));

    struct launcher_rep box = {.event = LAUNCHER_EV_BOX, .view.n = USAGE_VIEW_FDS};
    CHECK(answer_is_fine(&box));
    box.view.n = USAGE_VIEW_FDS + 1;
    CHECK(!answer_is_fine(&box));

    exit.box.end = LAUNCHER_END_ZYGOTE;
    CHECK(answer_is_fine(&exit));
    exit.box.end = LAUNCHER_END_ZYGOTE + 1;
    CHECK(!answer_is_fine(&exit));

    for (int i = 0; i < 3; i++) {
        struct launcher_rep facts = {.event = i < 2 ? LAUNCHER_EV_HELLO : LAUNCHER_EV_BOX};
        CASE("string %d", i);
        memset(i == 0   ? facts.facts.cgroup
               : i == 1 ? facts.facts.missing
                        : facts.facts.seccomp,
               'a',
               i == 0   ? sizeof(facts.facts.cgroup)
               : i == 1 ? sizeof(facts.facts.missing)
                        : sizeof(facts.facts.seccomp));
        CHECK(!answer_is_fine(&facts));
    }
}
