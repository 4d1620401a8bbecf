/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What children print: it arrives line by line, harmless and bounded, and a child that prints
 * without end neither holds the supervisor up nor fills the disk.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/log.h"
#include "place_fixture.h"
#include "supervisor/output.h"

static struct output output;
static struct output_sink sink = {.folder = -1};
static int kept = -1;   /* the stderr of the test */
static int reader = -1; /* of what is our stderr meanwhile */

/* Our stderr is a pipe from then on. */
static void begin(void)
{
    struct err e = {0};
    int p[2];

    kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    CHECK(dup2(p[1], STDERR_FILENO) >= 0);
    fd_close(&p[1]);
    reader = p[0];
    CHECK_INT(fd_set_nonblock(reader, true), 0);
    CHECK_INT(output_open(&output, "child", &e), 0);
}

static void end(void)
{
    output_close(&output);
    CHECK(dup2(kept, STDERR_FILENO) >= 0);
    fd_close(&kept);
    fd_close(&reader);
}

static void print(const char *text, size_t n)
{
    CHECK_INT(fd_write_all(output.theirs, text, n), 0);
}

#define PRINT(text) print(text, sizeof(text) - 1)

static void check_said(const char *want)
{
    static char said[65536];
    ssize_t n = read(reader, said, sizeof(said) - 1);

    said[n > 0 ? n : 0] = '\0';
    CHECK_STR(said, want);
}

TEST(lines_are_passed_on_whole)
{
    begin();
    CHECK(!output_pump(&output, &sink));
    PRINT("one\ntw");
    CHECK(output_pump(&output, &sink));
    check_said("one\n");
    PRINT("o\n\nthree\nfour");
    CHECK(output_pump(&output, &sink));
    check_said("two\n\nthree\n");
    output_finish(&output, &sink);
    check_said("four\n");
    end();
}

TEST(control_characters_are_shown_as_text)
{
    begin();
    PRINT("\x1b]0;title\x07\x1b[2J\r\0\ttab \xc3\xa4 \xff\xc2\x9b\n");
    CHECK(output_pump(&output, &sink));
    check_said("\\x1b]0;title\\x07\\x1b[2J\\x0d\\x00\ttab \xc3\xa4 \\xff\\xc2\\x9b\n");
    end();
}

TEST(a_line_without_end_is_cut)
{
    static char line[40000];
    static char want[OUTPUT_LINE_MAX + 64];

    begin();
    memset(line, 'x', sizeof(line));
    memset(want, 'x', OUTPUT_LINE_MAX);
    CHECK_INT(str_format(want + OUTPUT_LINE_MAX, 64, " [cut]\nnext\n"), 0);
    print(line, sizeof(line));
    PRINT("\nnext\n");
    while (output_pump(&output, &sink)) {
    }
    check_said(want);
    /* Shown as text it would be four times as long. */
    memset(line, 1, OUTPUT_LINE_MAX);
    line[OUTPUT_LINE_MAX] = '\n';
    print(line, OUTPUT_LINE_MAX + 1);
    CHECK(output_pump(&output, &sink));
    CHECK(read(reader, line, sizeof(line)) <= 4096);
    end();
}

/* Prints the same line until its pipe breaks. */
static pid_t start_flood(void)
{
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        char lines[64 * 256];

        memset(lines, 'y', sizeof(lines));
        for (size_t i = 255; i < sizeof(lines); i += 256) {
            lines[i] = '\n';
        }
        fd_close(&output.ours);
        while (write(output.theirs, lines, sizeof(lines)) > 0) {
        }
        _exit(0);
    }
    return pid;
}

TEST(a_flood_is_dropped_and_counted)
{
    static char said[1 << 20];
    size_t bytes = 0;
    int status;

    begin();
    log_set_level(LOG_WARN);
    pid_t pid = start_flood();
    for (size_t taken = 0; taken < 8 * OUTPUT_BURST;) {
        taken += output_pump(&output, &sink) ? output.have : 0;
        ssize_t n = read(reader, said, sizeof(said));
        bytes += n > 0 ? (size_t)n : 0;
    }
    CHECK(bytes > OUTPUT_BURST / 2);
    CHECK(bytes < 3 * OUTPUT_BURST); /* those 32 MiB take less than 8 s */
    CHECK(output.dropped > 0);
    output.budget = OUTPUT_BURST;
    while (!output_pump(&output, &sink)) {
    }
    CHECK_INT(output.dropped, 0);
    ssize_t n = read(reader, said, sizeof(said) - 1);
    CHECK(n > 0);
    said[n] = '\0';
    CHECK(strstr(said, "output_dropped source=child lines=") != NULL);
    fd_close(&output.ours);
    fd_close(&output.theirs);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    end();
}

TEST(a_stderr_that_takes_nothing_is_not_waited_for)
{
    char bytes[4096] = {0};
    size_t lines = 0;

    begin();
    while (output_sink_takes()) {
        CHECK_INT(write(STDERR_FILENO, bytes, sizeof(bytes)), sizeof(bytes));
    }
    for (int i = 0; i < 100; i++) {
        PRINT("kept\n");
    }
    for (int i = 0; i < 10; i++) {
        (void)output_pump(&output, &sink);
    }
    output_finish(&output, &sink);
    /* Nothing is lost: it is written once there is room. */
    for (int i = 0; i < 100; i++) {
        ssize_t n = read(reader, bytes, sizeof(bytes));
        for (ssize_t k = 0; k < n; k++) {
            lines += bytes[k] == '\n';
        }
        (void)output_pump(&output, &sink);
    }
    CHECK_INT(lines, 100);
    end();
}

TEST(a_stderr_that_is_gone_ends_nothing)
{
    begin();
    fd_close(&reader);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    for (int i = 0; i < 100; i++) {
        PRINT("lost\n");
        CHECK(output_pump(&output, &sink));
    }
    end();
}

TEST(the_log_file_stays_small)
{
    static char line[1024];
    char path[PATH_SIZE];
    struct err e = {0};
    struct stat st;

    make_top();
    int place = place_open(&config, &e);
    int log = place_open_log(place, &config, &e);
    CHECK(log >= 0);
    begin();
    sink = (struct output_sink){.folder = place, .config = &config};
    CHECK(dup2(log, STDERR_FILENO) >= 0);
    memset(line, 'z', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\n';
    for (uint64_t sent = 0; sent < 5 * OUTPUT_LOG_MAX; sent += sizeof(line)) {
        output.budget = OUTPUT_BURST;
        print(line, sizeof(line));
        CHECK(output_pump(&output, &sink));
    }
    end();
    in_folder("husk.log", path);
    CHECK_INT(stat(path, &st), 0);
    CHECK(st.st_size > 0 && st.st_size < (off_t)OUTPUT_LOG_MAX + (1 << 20));
    in_folder("husk.log.1", path);
    CHECK_INT(stat(path, &st), 0);
    CHECK(st.st_size > (off_t)OUTPUT_LOG_MAX - (1 << 20));
    CHECK(st.st_size < (off_t)OUTPUT_LOG_MAX + (1 << 20));
    fd_close(&log);
    fd_close(&place);
    remove_top();
}
