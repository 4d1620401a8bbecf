/* SPDX-License-Identifier: Apache-2.0 */
/* runner/program.h: PID 1 around an interpreter, here in a child of the test. */
#include "runner/program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/setup.h"
#include "runner/control.h"
#include "tap.h"

#define SHELL ((char *const[]){"/bin/sh", NULL})

static const uint8_t token[FRAME_TOKEN_SIZE] = "token of a run.";
static struct buf got = {.max = 65536};
static int control = -1; /* our end */
static pid_t child = -1;

static void start(const struct program *p)
{
    const struct timeval patience = {.tv_sec = 10};
    int pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    child = fork();
    if (child == 0) {
        int out = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (out < 0 || dup2(out, STDERR_FILENO) < 0 || dup2(pair[1], BOX_CONTROL_FD) < 0 ||
            fcntl(BOX_CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0 || chdir("/") < 0) {
            _exit(99);
        }
        close_range(BOX_CONTROL_FD + 1, ~0u, 0);
        /* The first process of a pid namespace ignores it without this. */
        sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
        program_serve(p);
    }
    close(pair[1]);
    control = pair[0];
}

static uint32_t take_frame(void)
{
    struct fd_set_msg fds = {.n = 0};
    struct frame_head head;

    CHECK_INT(control_recv(control, &head, &got, &fds), 1);
    if (head.type == FRAME_DONE) {
        CHECK_INT(memcmp(head.token, token, sizeof(token)), 0);
    }
    return head.type;
}

/* False also if the frame has several: a reader could take either. */
static bool find(enum frame_key key, struct frame_field *ret)
{
    struct frame_field f;
    size_t n = 0;

    for (size_t at = 0; frame_next(got.data, got.len, &at, &f) > 0;) {
        if (f.key == key) {
            *ret = f;
            n++;
        }
    }
    return n == 1;
}

static uint32_t number(enum frame_key key)
{
    struct frame_field f;
    uint32_t n = UINT32_MAX;

    return find(key, &f) && frame_field_u32(&f, &n) == 0 ? n : UINT32_MAX;
}

static bool has_text(enum frame_key key, const char *want)
{
    struct frame_field f;

    return find(key, &f) && f.len == strlen(want) && memcmp(f.data, want, f.len) == 0;
}

struct extra {
    enum frame_key key;
    const char *value;
};

static void run(const char *code, const struct extra *extras, size_t n)
{
    AUTO_BUF struct buf b = BUF_INIT(FRAME_TO_BOX_MAX);

    CHECK_INT(take_frame(), FRAME_READY);
    CHECK(number(KEY_PID) == (uint32_t)child);
    CHECK_INT(frame_begin(&b, FRAME_RUN, token) + frame_add_str(&b, KEY_CODE, code), 0);
    for (size_t i = 0; i < n; i++) {
        CHECK_INT(frame_add_str(&b, extras[i].key, extras[i].value), 0);
    }
    CHECK_INT(frame_end(&b) + control_send(control, &b), 0);
}

/* PID 1 stays until its client closes the socket, and ends as its program did. */
static void finish(int want)
{
    int status = 0;

    fd_close(&control);
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), want);
    buf_release(&got);
}

TEST(a_program_gets_its_arguments_and_variables_and_its_end_is_reported)
{
    static const struct extra extras[] = {
        {KEY_NAME, "name"}, {KEY_ARG, "one"}, {KEY_ARG, "two words"}, {KEY_ENV, "GIVEN=value"}};

    start(&(struct program){.argv = SHELL});
    run("[ \"$0-$1-$2-$GIVEN\" = 'name-one-two words-value' ] && exit 7", extras,
        ARRAY_LEN(extras));
    CHECK_INT(take_frame(), FRAME_DONE);
    CHECK_INT(number(KEY_EXIT), 7);
    CHECK_INT(number(KEY_SIGNAL), UINT32_MAX);
    finish(7);
}

TEST(a_signal_that_ends_the_program_is_reported)
{
    start(&(struct program){.argv = SHELL});
    run("kill -TERM $$", NULL, 0);
    CHECK_INT(take_frame(), FRAME_DONE);
    CHECK_INT(number(KEY_EXIT), 128 + SIGTERM);
    CHECK_INT(number(KEY_SIGNAL), SIGTERM);
    finish(128 + SIGTERM);
}

TEST(an_interpreter_that_cannot_be_started_ends_as_in_shells)
{
    start(&(struct program){.argv = (char *const[]){"/none/such", NULL}});
    run("true", NULL, 0);
    CHECK_INT(take_frame(), FRAME_DONE);
    CHECK_INT(number(KEY_EXIT), 127);
    finish(127);
}

TEST(a_run_that_cannot_be_applied_is_refused_as_its_result)
{
    static const struct extra bad = {KEY_PUT, "a name without an end"};

    start(&(struct program){.argv = SHELL});
    run("exit 0", &bad, 1);
    CHECK_INT(take_frame(), FRAME_DONE);
    CHECK_INT(number(KEY_EXIT), 126);
    CHECK(has_text(KEY_ERROR_TYPE, "OSError"));
    CHECK(has_text(KEY_ERROR_MESSAGE, "a file to put has no usable name"));
    finish(126);
}

TEST(requested_files_are_sent_before_the_result)
{
    static const struct extra want = {KEY_GET, "none/such"};

    start(&(struct program){.argv = SHELL});
    run("exit 0", &want, 1);
    CHECK_INT(take_frame(), FRAME_FILE);
    CHECK(has_text(KEY_NAME, "none/such"));
    CHECK_INT(take_frame(), FRAME_DONE);
    CHECK_INT(number(KEY_EXIT), 0);
    finish(0);
}

/* A prestarted shell that reports a forged exit code and a value over descriptor 4. */
TEST(a_prestarted_interpreter_reports_values_but_not_how_it_ended)
{
    char script[256];

    CHECK_INT(str_format(script, sizeof(script),
                         "head -c 1 <&4 >/dev/null;"
                         "printf '\\%03o\\000\\000\\000\\004\\000\\000\\000zero' >&4;"
                         "printf '\\%03o\\000\\000\\000\\003\\000\\000\\000yes' >&4; exit 5",
                         KEY_EXIT, KEY_VALUE),
              0);
    start(&(struct program){.argv = (char *const[]){"/bin/sh", "-c", script, NULL},
                            .prestart = true});
    run("code of the run", NULL, 0);
    CHECK_INT(take_frame(), FRAME_DONE);
    CHECK_INT(number(KEY_EXIT), 5);
    CHECK(has_text(KEY_VALUE, "yes"));
    finish(5);
}

TEST(a_prestarted_interpreter_that_dies_early_is_reported_at_its_run)
{
    start(&(struct program){.argv = (char *const[]){"/bin/sh", "-c", "exit 3", NULL},
                            .prestart = true});
    run("code of the run", NULL, 0);
    CHECK_INT(take_frame(), FRAME_DONE);
    CHECK_INT(number(KEY_EXIT), 3);
    finish(3);
}

TEST(a_box_that_gets_no_run_ends)
{
    start(&(struct program){.argv = SHELL});
    CHECK_INT(take_frame(), FRAME_READY);
    finish(0);
}
