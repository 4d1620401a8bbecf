/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that claim what no runner would: most of them told by code that has found the token of its
 * run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "core/channel.h"
#include "core/run.h"
#include "core/run_frames.h"
#include "engine_fixture.h"
#include "tap.h"

struct claim {
    enum frame_key key;
    const char *data;
    size_t len;
};

#define N(n) KEY_SEQ, n "\0\0\0", 4
#define S(key, text) key, text, sizeof(text) - 1

/* Takes one frame into a result that has everything allowed. True: accepted. */
static bool take(struct husk_result *result, const struct husk_spec *spec, enum frame_type type,
                 const struct claim claims[8])
{
    struct run run = {.spec = spec, .result = result, .phase = RUN_RUNNING};
    AUTO_BUF struct buf b = BUF_INIT(FRAME_FROM_BOX_MAX);
    struct frame_head head;

    CHECK_INT(frame_begin(&b, type, run.token), 0);
    for (size_t i = 0; i < 8 && claims[i].key != 0; i++) {
        CHECK_INT(frame_add(&b, claims[i].key, claims[i].data, claims[i].len), 0);
    }
    CHECK_INT(frame_end(&b), 0);
    CHECK_INT(frame_parse_head(b.data, b.len, FRAME_FROM_BOX_MAX, &head), 1);
    return run_take_frame(&run, &head, b.data + sizeof(head));
}

TEST(displays_that_no_runner_sends_break_the_protocol)
{
    static const struct {
        const char *what;
        struct claim claims[8];
        bool ok;
    } rows[] = {
        {"one form", {{N("\0")}, {S(KEY_MIME, "a/b")}, {S(KEY_DATA, "\xff\0")}}, true},
        {"no data", {{N("\0")}, {S(KEY_MIME, "a/b")}, {S(KEY_DATA, "")}}, true},
        {"dropped", {{N("\0")}, {S(KEY_DROPPED, "")}}, true},
        {"nothing", {{0}}, false},
        {"no form", {{N("\0")}}, false},
        {"no number", {{S(KEY_MIME, "a/b")}, {S(KEY_DATA, "x")}}, false},
        {"another number", {{N("\1")}, {S(KEY_MIME, "a/b")}, {S(KEY_DATA, "x")}}, false},
        {"a short number", {{S(KEY_SEQ, "\0")}, {S(KEY_MIME, "a/b")}, {S(KEY_DATA, "x")}}, false},
        {"number last", {{S(KEY_MIME, "a/b")}, {S(KEY_DATA, "x")}, {N("\0")}}, false},
        {"a type alone", {{N("\0")}, {S(KEY_MIME, "a/b")}}, false},
        {"data alone", {{N("\0")}, {S(KEY_DATA, "x")}}, false},
        {"data first", {{N("\0")}, {S(KEY_DATA, "x")}, {S(KEY_MIME, "a/b")}}, false},
        {"two types", {{N("\0")}, {S(KEY_MIME, "a/b")}, {S(KEY_MIME, "a/c")}}, false},
        {"twice",
         {{N("\0")},
          {S(KEY_MIME, "a/b")},
          {S(KEY_DATA, "x")},
          {S(KEY_MIME, "a/b")},
          {S(KEY_DATA, "x")}},
         false},
        {"other keys", {{N("\0")}, {S(KEY_VALUE, "a/b")}, {S(KEY_DATA, "x")}}, false},
        {"dropped and more",
         {{N("\0")}, {S(KEY_DROPPED, "")}, {S(KEY_MIME, "a/b")}, {S(KEY_DATA, "x")}},
         false},
        {"dropped twice", {{N("\0")}, {S(KEY_DROPPED, "")}, {S(KEY_DROPPED, "")}}, false},
        {"form, then dropped",
         {{N("\0")}, {S(KEY_MIME, "a/b")}, {S(KEY_DATA, "x")}, {S(KEY_DROPPED, "")}},
         false},
        {"a NUL in a type", {{N("\0")}, {S(KEY_MIME, "a/b\0c")}, {S(KEY_DATA, "x")}}, false},
    };
    const struct husk_spec spec = {.rich = true};
    const struct husk_spec plain = {0};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].what);
        AUTO_RESULT struct husk_result *r = calloc(1, sizeof(*r));
        CHECK_INT(take(r, &spec, FRAME_DISPLAY, rows[i].claims), rows[i].ok);
        CHECK_INT(r->n_displays + r->displays_dropped, rows[i].ok);
        CHECK(!take(r, &plain, FRAME_DISPLAY, rows[i].claims)); /* was not asked for */
    }
}

TEST(types_that_no_runner_sends_break_the_protocol)
{
    static const struct {
        const char *type;
        const char *data;
        bool ok;
    } rows[] = {
        {"text/html", "\xc3\xa4", true},
        {"image/png", "\xff", true},
        {"!#$%&'*+-.^_`|~/0", "", true},
        {"text/html", "\xff", false},
        {"text/html", "\xc3", false},
        {"image/svg+xml", "\xff", false},
        {"x/y+json", "\xff", false},
        {"application/json", "\xff", false},
        {"", "", false},
        {"a/", "", false},
        {"/b", "", false},
        {"/", "", false},
        {"ab", "", false},
        {"a/b/c", "", false},
        {"Text/html", "", false},
        {"a/b; c=d", "", false},
        {"a/b\r\nx: y", "", false},
        {"a/\"", "", false},
        {"a/\xc3\xa4", "", false},
        {"a/1234567890123456789012345678901234567890123456789012345678901234567890123456789012345"
         "6789012345678",
         "", true}, /* 100 bytes */
        {"a/1234567890123456789012345678901234567890123456789012345678901234567890123456789012345"
         "67890123456789",
         "", false},
    };
    const struct husk_spec spec = {.rich = true};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct claim claims[8] = {{N("\0")},
                                        {KEY_MIME, rows[i].type, strlen(rows[i].type)},
                                        {KEY_DATA, rows[i].data, strlen(rows[i].data)}};
        CASE("%s", rows[i].type);
        AUTO_RESULT struct husk_result *r = calloc(1, sizeof(*r));
        CHECK_INT(take(r, &spec, FRAME_DISPLAY, claims), rows[i].ok);
        CHECK_INT(r->n_displays, rows[i].ok);
    }
}

TEST(a_flood_of_displays_breaks_the_protocol)
{
    const struct husk_spec spec = {.rich = true};
    AUTO_RESULT struct husk_result *many = calloc(1, sizeof(*many));
    AUTO_RESULT struct husk_result *large = calloc(1, sizeof(*large));
    AUTO_FREE char *data = calloc(1, FRAME_DISPLAY_BYTES_MAX);

    for (uint32_t i = 0; i < FRAME_DISPLAYS_MAX + 1; i++) {
        const struct claim one[8] = {
            {KEY_SEQ, (const char *)&i, 4}, {S(KEY_MIME, "a/b")}, {S(KEY_DATA, "")}};
        CHECK_INT(take(many, &spec, FRAME_DISPLAY, one), i < FRAME_DISPLAYS_MAX);
    }
    CHECK_INT(many->n_displays, FRAME_DISPLAYS_MAX);
    const struct claim all[8] = {
        {N("\0")}, {S(KEY_MIME, "a/b")}, {KEY_DATA, data, FRAME_DISPLAY_BYTES_MAX}};
    const struct claim more[8] = {{N("\1")}, {S(KEY_MIME, "a/b")}, {S(KEY_DATA, "x")}};
    const struct claim dropped[8] = {{N("\1")}, {S(KEY_DROPPED, "")}};
    const struct claim again[8] = {{N("\2")}, {S(KEY_DROPPED, "")}};
    CHECK(take(large, &spec, FRAME_DISPLAY, all));
    CHECK(!take(large, &spec, FRAME_DISPLAY, more));
    CHECK(take(large, &spec, FRAME_DISPLAY, dropped));
    CHECK(large->displays_dropped);
    CHECK(!take(large, &spec, FRAME_DISPLAY, again));
}

TEST(variables_that_no_runner_sends)
{
    static const char *const names[] = {"x", NULL};
    const struct husk_spec spec = {.variables = names};
    const struct husk_spec plain = {0};
    AUTO_FREE char *data = malloc(FRAME_VARIABLES_MAX + 1);
    AUTO_RESULT struct husk_result *r = calloc(1, sizeof(*r));

    CHECK(data != NULL);
    memset(data, ' ', FRAME_VARIABLES_MAX + 1);
    const struct claim good[8] = {{S(KEY_VARIABLES, "{\"x\": 1e3}")}};
    const struct claim list[8] = {{S(KEY_VARIABLES, "[1]")}};
    const struct claim huge[8] = {{KEY_VARIABLES, data, FRAME_VARIABLES_MAX + 1}};
    CHECK(!take(r, &plain, FRAME_DONE, good));
    CHECK(!take(r, &spec, FRAME_DONE, huge));
    CHECK(take(r, &spec, FRAME_DONE, list));
    CHECK_STR(r->variables_json, NULL);
    CHECK(r->variables_dropped);
    CHECK(take(r, &spec, FRAME_DONE, good));
    CHECK_STR(r->variables_json, "{\"x\": 1e3}");
}

TEST(artifacts_that_no_runner_sends)
{
    static const char *const no_lists_of_names[] = {"{}", "1", "\"a\"", "[1]", "[\"a\", null]",
                                                    "["};
    const struct husk_spec spec = {.artifacts = true};
    const struct husk_spec plain = {0};
    AUTO_FREE char *data = malloc(FRAME_ARTIFACTS_MAX + 1);
    AUTO_RESULT struct husk_result *r = calloc(1, sizeof(*r));

    CHECK(data != NULL);
    memset(data, ' ', FRAME_ARTIFACTS_MAX + 1);
    const struct claim good[8] = {{S(KEY_ARTIFACTS, "[\"a\", \"b/c\"]")}};
    const struct claim huge[8] = {{KEY_ARTIFACTS, data, FRAME_ARTIFACTS_MAX + 1}};
    CHECK(!take(r, &plain, FRAME_DONE, good));
    CHECK(!take(r, &spec, FRAME_DONE, huge));
    for (size_t i = 0; i < ARRAY_LEN(no_lists_of_names); i++) {
        const struct claim claims[8] = {
            {KEY_ARTIFACTS, no_lists_of_names[i], strlen(no_lists_of_names[i])}};
        CASE("%s", no_lists_of_names[i]);
        CHECK(take(r, &spec, FRAME_DONE, claims));
        CHECK_STR(r->artifacts_json, NULL);
    }
    CASE("names");
    CHECK(take(r, &spec, FRAME_DONE, good));
    CHECK_STR(r->artifacts_json, "[\"a\", \"b/c\"]");
}

/* One frame as it is, to a run that has a token of its own. */
static bool say(struct run *run, enum frame_type type, const uint8_t *token, const char *message)
{
    AUTO_BUF struct buf b = BUF_INIT(FRAME_FROM_BOX_MAX);
    struct frame_head head;

    CHECK_INT(frame_begin(&b, type, token), 0);
    CHECK_INT(frame_add_str(&b, KEY_ERROR_MESSAGE, message), 0);
    CHECK_INT(frame_end(&b), 0);
    CHECK_INT(frame_parse_head(b.data, b.len, FRAME_FROM_BOX_MAX, &head), 1);
    return run_take_frame(run, &head, b.data + sizeof(head));
}

/*
 * Before it is ready only our own code sends frames; afterwards it may be user code, and the token
 * is required.
 */
TEST(a_box_that_is_ready_says_nothing_of_its_set_up_any_more)
{
    const struct husk_spec spec = {0};
    AUTO_RESULT struct husk_result *r = calloc(1, sizeof(*r));
    struct run run = {.spec = &spec, .result = r, .token = {1, 2, 3}};
    const uint8_t near[FRAME_TOKEN_SIZE] = {1, 2, 3, [FRAME_TOKEN_SIZE - 1] = 1};

    CHECK(say(&run, FRAME_FAILED, NULL, "no\x1b[2J"));
    CHECK_STR(strchr(run.failure, '\x1b'), NULL);
    run.failure[0] = '\0';
    run.phase = RUN_STARTING;
    CHECK(say(&run, FRAME_READY, NULL, ""));
    CHECK_INT(run.phase, RUN_RUNNING);
    CHECK(!say(&run, FRAME_READY, NULL, ""));
    CHECK(!say(&run, FRAME_READY, run.token, ""));
    CHECK(!say(&run, FRAME_FAILED, NULL, "forged"));
    CHECK(!say(&run, FRAME_FAILED, run.token, "forged"));
    CHECK_STR(run.failure, "");
    CHECK(!say(&run, FRAME_DONE, NULL, "forged"));
    CHECK(!say(&run, FRAME_DONE, near, "forged"));
    CHECK_STR(r->error.message, NULL);
    CHECK_INT(run.phase, RUN_RUNNING);
    CHECK(say(&run, FRAME_DONE, run.token, "true"));
    CHECK_INT(run.phase, RUN_DONE);
}

TEST(an_answer_that_ends_in_the_middle_of_a_field_is_none)
{
    const struct husk_spec spec = {0};
    AUTO_RESULT struct husk_result *r = calloc(1, sizeof(*r));
    struct run run = {.spec = &spec, .result = r, .phase = RUN_RUNNING};
    AUTO_BUF struct buf b = BUF_INIT(FRAME_FROM_BOX_MAX);
    struct frame_head head;

    CHECK_INT(frame_begin(&b, FRAME_DONE, run.token), 0);
    CHECK_INT(frame_add_u32(&b, KEY_EXIT, 0), 0);
    CHECK_INT(buf_add(&b, "\1\0\0", 3), 0);
    CHECK_INT(frame_end(&b), 0);
    CHECK_INT(frame_parse_head(b.data, b.len, FRAME_FROM_BOX_MAX, &head), 1);
    CHECK(!run_take_frame(&run, &head, b.data + sizeof(head)));
    CHECK_INT(run.phase, RUN_RUNNING);
}

/* What comes out of the channel once a box has sent that head and a descriptor, or none. */
static int channel_after(const struct frame_head *sent, const int *fd)
{
    struct channel c;
    struct frame_head head;
    const char *body;
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    channel_init(&c, pair[0]);
    CHECK_INT(fd_send(pair[1], sent, sizeof(*sent), fd, fd != NULL, 0), sizeof(*sent));
    int r = channel_frame(&c, &head, &body);
    channel_release(&c);
    close(pair[1]);
    return r;
}

/* Nothing is kept in store for it, and nothing of it is held: the harness counts descriptors. */
TEST(a_box_hands_over_neither_descriptors_nor_endless_frames)
{
    const struct frame_head plain = {.type = FRAME_READY};
    const struct frame_head most = {.type = FRAME_DONE, .len = FRAME_FROM_BOX_MAX};
    const struct frame_head more = {.type = FRAME_DONE, .len = FRAME_FROM_BOX_MAX + 1};
    const struct frame_head all = {.type = FRAME_DONE, .len = UINT32_MAX};
    const int fd = STDERR_FILENO;

    CHECK_INT(channel_after(&plain, NULL), 1);
    CHECK_INT(channel_after(&plain, &fd), -EBADMSG);
    CHECK_INT(channel_after(&most, NULL), 0); /* the rest is waited for */
    CHECK_INT(channel_after(&more, NULL), -EMSGSIZE);
    CHECK_INT(channel_after(&all, NULL), -EMSGSIZE);
}
