/* SPDX-License-Identifier: Apache-2.0 */
/* Output to terminals: hostile bytes become visible, whatever the pieces they arrive in. */
#include <fcntl.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fd.h"
#include "cli/common/hostfile.h"
#include "cli/common/term.h"
#include "tap.h"

/* Sends text through a filter in pieces of the given size and reads back what was written. */
static void check_filtered(const char *in, size_t n, size_t piece, const char *want)
{
    struct term_out o;
    char got[512];
    int fds[2];

    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    term_out_init(&o, fds[1], false);
    CHECK(!o.filter); /* a pipe is no terminal */
    o.filter = true;
    for (size_t at = 0; at < n; at += piece) {
        term_out_write(&o, in + at, MIN(piece, n - at));
    }
    term_out_end(&o);
    close(fds[1]);
    ssize_t len = fd_read_all(fds[0], got, sizeof(got) - 1);
    close(fds[0]);
    CHECK(len >= 0);
    got[len] = '\0';
    CASE("in pieces of %zu", piece);
    CHECK_STR(got, want);
}

TEST(hostile_sequences_become_visible_in_any_pieces)
{
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {
        {"plain\n\ttext\n", "plain\n\ttext\n"},
        {"\033]52;c;ZXZpbA==\a", "\\x1b]52;c;ZXZpbA==\\x07"}, /* clipboard */
        {"\033]0;title\033\\", "\\x1b]0;title\\x1b\\"},       /* title */
        {"\033P$q\"p\033\\", "\\x1bP$q\"p\\x1b\\"},           /* DECRQSS */
        {"\xc2\x9b"
         "2J\xc2\x90x\xc2\x9c",
         "\\xc2\\x9b2J\\xc2\\x90x\\xc2\\x9c"}, /* C1 as UTF-8 */
        {"\x9b"
         "2J",
         "\\x9b2J"}, /* C1 as a byte */
        {"a\rb\bc\x7f", "a\\x0db\\x08c\\x7f"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xe2\x82", "\\xe2\\x82"}, /* cut off at the end */
        {"\xe2\x82z", "\\xe2\\x82z"},
        {"\xf0\x9f\x1b", "\\xf0\\x9f\\x1b"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"}, /* a surrogate */
        {"\xc0\x9b", "\\xc0\\x9b"},          /* overlong escape */
        {"\xff\xfe", "\\xff\\xfe"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t piece = 1; piece < 8; piece++) {
            check_filtered(cases[i].in, strlen(cases[i].in), piece, cases[i].out);
        }
    }
    check_filtered("a\0b", 3, 2, "a\\x00b");
}

TEST(without_a_terminal_bytes_pass_unchanged)
{
    static const char bytes[] = "\033]0;x\a\xff\0\x9b";
    struct term_out o;
    char got[64];
    int fds[2];

    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    term_out_init(&o, fds[1], false);
    term_out_write(&o, bytes, sizeof(bytes));
    CHECK(o.mid_line);
    term_out_line_end(&o);
    CHECK(!o.mid_line);
    term_out_line_end(&o);
    close(fds[1]);
    CHECK_INT(fd_read_all(fds[0], got, sizeof(got)), sizeof(bytes) + 1);
    close(fds[0]);
    CHECK(memcmp(got, bytes, sizeof(bytes)) == 0);
    CHECK_INT(got[sizeof(bytes)], '\n');
}

TEST(a_terminal_is_filtered_unless_raw)
{
    struct term_out o;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (master < 0) {
        SKIP("no pseudo-terminals");
    }
    CHECK_INT(grantpt(master) | unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(slave >= 0);
    term_out_init(&o, slave, false);
    CHECK(o.filter);
    term_out_init(&o, slave, true);
    CHECK(!o.filter);

    CHECK_INT(setenv("TERM", "xterm", 1) | unsetenv("NO_COLOR"), 0);
    CHECK(term_has_color(slave));
    CHECK_INT(setenv("NO_COLOR", "1", 1), 0);
    CHECK(!term_has_color(slave));
    CHECK_INT(setenv("NO_COLOR", "", 1) | setenv("TERM", "dumb", 1), 0);
    CHECK(!term_has_color(slave));
    close(slave);
    close(master);
}

TEST(a_failed_write_is_remembered)
{
    struct term_out o;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    CHECK(full >= 0);
    term_out_init(&o, full, false);
    term_out_write(&o, "x", 1);
    CHECK_INT(o.error, -28); /* ENOSPC */
    close(full);
}

TEST(a_file_at_the_maximum_is_read_and_one_byte_more_is_refused)
{
    char path[] = "/tmp/husk-file-XXXXXX";
    AUTO_BUF struct buf fits = BUF_INIT(5);
    AUTO_BUF struct buf small = BUF_INIT(4);
    struct err e;

    int fd = mkostemp(path, O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(fd_write_all(fd, "12345", 5), 0);
    close(fd);
    CHECK_INT(hostfile_read(path, &fits, &e), 0);
    CHECK_STR(fits.data, "12345");
    CHECK_INT(hostfile_read(path, &small, &e), -1);
    CHECK_INT(e.code, ERR_INVALID);
    CHECK(strstr(e.msg, "is larger than 4 bytes") != NULL);
    CHECK_INT(hostfile_check_target(path, &e), 0);
    CHECK_INT(unlink(path), 0);
    buf_release(&small);
    CHECK_INT(hostfile_read(path, &small, &e), -1);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    CHECK_INT(hostfile_check_target("/tmp", &e), -1);
    CHECK_INT(hostfile_check_target("/nonexistent/x", &e), -1);
}
