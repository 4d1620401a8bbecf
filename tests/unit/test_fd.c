/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/fd.h: ownership, whole reads and writes, small files. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* An empty folder. The test removes what it puts there, and the folder. */
static int make_dir(char path[64])
{
    snprintf(path, 64, "/tmp/husk-test-fd-XXXXXX");
    CHECK(mkdtemp(path) != NULL);
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static void put_file(int dirfd, const char *name, const char *text)
{
    AUTO_CLOSE int fd = -1;

    fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(fd_write_all(fd, text, strlen(text)), 0);
}

TEST(close_resets_and_keeps_errno)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int number = fd;

    CHECK(fd >= 0);
    errno = EXDEV;
    fd_close(&fd);
    CHECK_INT(fd, -1);
    CHECK_INT(errno, EXDEV);
    fd_close(&fd); /* nothing to close */
    CHECK_INT(fd, -1);
    CHECK_INT(errno, EXDEV);
    CHECK(!is_open(number));

    errno = EXDEV;
    fd_close(&number); /* not open: close() itself fails and sets errno */
    CHECK_INT(number, -1);
    CHECK_INT(errno, EXDEV);
}

TEST(auto_close_ends_with_its_scope)
{
    int number;
    int kept;

    {
        AUTO_CLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        AUTO_CLOSE int moved = open("/dev/null", O_RDONLY | O_CLOEXEC);

        CHECK(fd >= 0 && moved >= 0);
        number = fd;
        kept = take_fd(&moved);
        CHECK_INT(moved, -1);
    }
    CHECK(!is_open(number));
    CHECK(is_open(kept));
    close(kept);
}

/* A packet socket ends every read() at a message: pieces without waiting for them. */
TEST(read_all_collects_pieces_until_end)
{
    AUTO_CLOSE int in = -1;
    char got[16] = "";
    int s[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
    in = s[0];
    for (int i = 0; i < 5; i++) {
        CHECK_INT(fd_write_all(s[1], "ab", 2), 0);
    }
    close(s[1]);
    CHECK_INT(fd_read_all(in, got, 4), 4);
    CHECK_STR(got, "abab");
    CHECK_INT(fd_read_all(in, got, sizeof(got)), 6);
    CHECK_INT(fd_read_all(in, got, sizeof(got)), 0);
}

TEST(write_all_passes_a_full_pipe)
{
    static char big[300000];
    static char got[sizeof(big)];
    AUTO_CLOSE int in = -1;
    int p[2];

    for (size_t i = 0; i < sizeof(big); i++) {
        big[i] = (char)(i * 7);
    }
    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    in = p[0];
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_INT(fd_write_all(p[1], big, sizeof(big)), 0);
        _exit(0);
    }
    close(p[1]);
    CHECK_INT(fd_read_all(in, got, sizeof(got)), sizeof(big));
    CHECK_INT(memcmp(got, big, sizeof(big)), 0);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

static int alarm_pipe;

/* Interrupts the reader a few times before it gives it what it waits for. */
static void on_alarm(int sig)
{
    static int times;

    (void)sig;
    if (++times == 5 && write(alarm_pipe, "end", 3) != 3) {
        _exit(1);
    }
}

TEST(reads_go_on_after_a_signal)
{
    struct sigaction sa = {.sa_handler = on_alarm}; /* no SA_RESTART: read() returns EINTR */
    const struct itimerval every_ms = {{.tv_usec = 1000}, {.tv_usec = 1000}};
    const struct itimerval never = {{0}, {0}};
    AUTO_CLOSE int in = -1;
    AUTO_CLOSE int out = -1;
    char got[4] = "";
    int p[2];

    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    in = p[0];
    out = p[1];
    alarm_pipe = out;
    CHECK_INT(sigaction(SIGALRM, &sa, NULL), 0);
    CHECK_INT(setitimer(ITIMER_REAL, &every_ms, NULL), 0);
    CHECK_INT(fd_read_all(in, got, 3), 3);
    CHECK_STR(got, "end");
    CHECK_INT(setitimer(ITIMER_REAL, &never, NULL), 0);
}

TEST(errors_are_negative_errno)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    AUTO_CLOSE int out = -1;
    AUTO_CLOSE int null = -1;
    char c = 0;
    int p[2];

    CHECK_INT(fd_read_all(-1, &c, 1), -EBADF);
    CHECK_INT(fd_write_all(-1, &c, 1), -EBADF);
    CHECK_INT(fd_read_all(-1, &c, 0), 0); /* nothing asked, nothing tried */
    CHECK_INT(fd_set_nonblock(-1, true), -EBADF);

    null = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK(null >= 0);
    CHECK_INT(fd_write_all(null, "x", 1), -ENOSPC);

    CHECK_INT(sigaction(SIGPIPE, &ignore, NULL), 0);
    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    out = p[1];
    close(p[0]);
    CHECK_INT(fd_write_all(out, "x", 1), -EPIPE);
}

TEST(read_file_needs_room_for_the_end)
{
    static const struct {
        const char *text;
        size_t room;
        int want;
    } rows[] = {
        {"", 1, 0},    {"", 8, 0},         {"abc", 8, 3},
        {"abc", 4, 3}, {"abc", 3, -EFBIG}, {"abc", 0, -EFBIG},
    };
    char path[64];
    AUTO_CLOSE int dir = make_dir(path);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char got[16] = "untouched";

        CASE("row %zu", i);
        put_file(dir, "f", rows[i].text);
        CHECK_INT(fd_read_file(dir, "f", got, rows[i].room), rows[i].want);
        if (rows[i].want >= 0) {
            CHECK_STR(got, rows[i].text);
        }
    }
    char c;
    CASE("missing file");
    CHECK_INT(fd_read_file(dir, "absent", &c, 1), -ENOENT);
    CASE("directory");
    CHECK_INT(fd_read_file(dir, ".", &c, 1), -EISDIR);
    CHECK_INT(unlinkat(dir, "f", 0), 0);
    CHECK_INT(rmdir(path), 0);
}

TEST(write_file_changes_an_existing_file_only)
{
    char path[64];
    char got[16];
    AUTO_CLOSE int dir = make_dir(path);

    CHECK_INT(fd_write_file(dir, "f", "x"), -ENOENT);
    CHECK_INT(faccessat(dir, "f", F_OK, 0), -1); /* and did not make it */
    put_file(dir, "f", "1234");
    CHECK_INT(fd_write_file(dir, "f", "ab"), 0);
    CHECK_INT(fd_read_file(dir, "f", got, sizeof(got)), 4);
    CHECK_STR(got, "ab34"); /* kernel files have no length: it does not truncate */
    CHECK_INT(fd_write_file(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
    CHECK_INT(unlinkat(dir, "f", 0), 0);
    CHECK_INT(rmdir(path), 0);
}

TEST(nonblock_is_set_and_cleared)
{
    AUTO_CLOSE int in = -1;
    AUTO_CLOSE int out = -1;
    char c;
    int p[2];

    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    in = p[0];
    out = p[1];
    CHECK_INT(fd_set_nonblock(in, true), 0);
    CHECK_INT(fd_read_all(in, &c, 1), -EAGAIN);
    CHECK_INT(fd_set_nonblock(in, false), 0);
    CHECK_INT(fcntl(in, F_GETFL) & O_NONBLOCK, 0);
}

TEST(descriptors_are_scarce_when_an_eighth_is_left)
{
    struct rlimit files = {.rlim_cur = 64, .rlim_max = 64};
    int held[64];
    size_t n = 0;

    CHECK_INT(setrlimit(RLIMIT_NOFILE, &files), 0);
    CHECK(!fd_is_scarce());
    while (!fd_is_scarce() && n < ARRAY_LEN(held)) {
        held[n] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        CHECK(held[n] >= 0);
        n++;
    }
    CHECK(n > 0 && held[n - 1] == 64 - 64 / FD_SCARCE_PART);
    while (n > 0) {
        close(held[--n]);
    }
    CHECK(!fd_is_scarce());
}
