/* SPDX-License-Identifier: Apache-2.0 */
/* runner/fileagent_pack.c and fileagent_unpack.c: a workspace as a tar stream, and back. */
#include "runner_fixture.h"
#include "wire/tar.h"

#define ARCHIVE_MAX ((size_t)1 << 20)
#define ENTRIES_MAX 100

/* What agent_pack() sends, up to the end of the archive. It fits into the socket. */
static void take_archive(struct buf *ret)
{
    AUTO_BUF struct buf body = BUF_INIT(FILES_BODY_MAX);

    while (ret->len < agent.done.count) {
        CHECK_INT(take_message(&body), FILES_DATA);
        CHECK_INT(buf_add(ret, body.data, body.len), 0);
    }
}

static int unpack(const char *path, uint32_t flags, const struct buf *archive, size_t part)
{
    for (size_t at = 0; at < archive->len; at += part) {
        send_message(FILES_DATA, archive->data + at, MIN(part, archive->len - at));
    }
    send_message(FILES_END, NULL, 0);
    request(path, flags, ENTRIES_MAX);
    agent.stream_is_open = true;
    int r = agent_unpack(&agent);
    while (agent.stream_is_open) {
        (void)agent_read(&agent); /* the rest of an archive that was refused */
    }
    return r;
}

static void check_same(const char *a, const char *b)
{
    struct stat st[2];

    CASE("%s, %s", a, b);
    CHECK_INT(lstat(a, &st[0]) + lstat(b, &st[1]), 0);
    CHECK_INT(st[0].st_mode, st[1].st_mode);
    CHECK_INT(st[0].st_size, st[1].st_size);
    CHECK(!S_ISREG(st[0].st_mode) || st[0].st_mtim.tv_sec == st[1].st_mtim.tv_sec);
}

static void plant(void)
{
    CHECK_INT(mkdir("from", 0755) + mkdir("from/dir", 0751) + mkdir("from/empty", 0755), 0);
    put("from/dir/file", "content of a file", 0640);
    put("from/nothing", "", 0600);
    CHECK_INT(symlink("dir/file", "from/link") + mkfifo("from/pipe", 0600), 0);
    CHECK_INT(link("from/dir/file", "from/second"), 0);
    CHECK_INT(utimensat(AT_FDCWD, "from/dir/file", (struct timespec[2]){{1, 0}, {2, 0}}, 0), 0);
}

TEST(what_is_packed_comes_back_as_it_was)
{
    static const char *const names[] = {"dir", "empty", "dir/file", "nothing", "link", "second"};
    AUTO_BUF struct buf archive = BUF_INIT(ARCHIVE_MAX);
    struct stat st[2];
    char from[64];
    char to[64];

    open_agent();
    plant();
    request("from", FILES_COPY, 0);
    CHECK_INT(agent_pack(&agent), 0);
    CHECK_INT(agent.done.more, 0);
    take_archive(&archive);
    CHECK_INT(unpack("to", FILES_COPY, &archive, 100), 0); /* blocks may be torn apart */
    CHECK_INT(agent.done.count, ARRAY_LEN(names));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK_INT(str_format(from, sizeof(from), "from/%s", names[i]), 0);
        CHECK_INT(str_format(to, sizeof(to), "to/%s", names[i]), 0);
        check_same(from, to);
    }
    check_content("to/dir/file", "content of a file");
    CHECK(!exists("to/pipe"));
    CHECK_INT(stat("to/dir/file", &st[0]) + stat("to/second", &st[1]), 0);
    CHECK_INT(st[0].st_ino, st[1].st_ino); /* a copy keeps what is one file */
    close_agent();
}

TEST(an_archive_for_a_user_has_each_file_whole)
{
    AUTO_BUF struct buf archive = BUF_INIT(ARCHIVE_MAX);
    struct stat st[2];

    open_agent();
    plant();
    request("from", 0, 0);
    CHECK_INT(agent_pack(&agent), 0);
    take_archive(&archive);
    CHECK_INT(unpack("to", 0, &archive, 65536), 0);
    check_content("to/dir/file", "content of a file");
    check_content("to/second", "content of a file");
    CHECK_INT(stat("to/dir/file", &st[0]) + stat("to/second", &st[1]), 0);
    CHECK(st[0].st_ino != st[1].st_ino);
    request("none", 0, 0);
    CHECK_INT(agent_pack(&agent), -ENOENT);
    close_agent();
}

static void add_entry(struct buf *b, enum tar_kind kind, const char *name, const char *text)
{
    static const char zeros[TAR_BLOCK];
    bool is_file = kind == TAR_FILE;
    struct tar_entry entry = {.kind = kind,
                              .name = name,
                              .link = is_file ? "" : text,
                              .mode = 0644,
                              .size = is_file ? strlen(text) : 0};

    CHECK_INT(tar_put_header(b, &entry), 0);
    if (is_file) {
        CHECK_INT(buf_add(b, text, strlen(text)), 0);
        CHECK_INT(buf_add(b, zeros, -strlen(text) % TAR_BLOCK), 0);
    }
}

TEST(an_archive_cannot_write_through_a_link_that_it_brings)
{
    AUTO_BUF struct buf archive = BUF_INIT(ARCHIVE_MAX);

    open_agent();
    CHECK_INT(mkdir("elsewhere", 0755), 0);
    add_entry(&archive, TAR_LINK, "way", "../elsewhere");
    add_entry(&archive, TAR_FILE, "way/file", "x");
    CHECK_INT(tar_put_end(&archive), 0);
    CHECK_INT(unpack("to", 0, &archive, 65536), -EBADMSG); /* a user's link must stay below */
    CHECK_STR(agent.text, "way: a link that leads out");
    CHECK(!exists("elsewhere/file"));
    /* A copy's link may lead anywhere, and nothing is written through it. */
    CHECK_INT(unpack("copy", FILES_COPY, &archive, 65536), 0);
    CHECK_INT(agent.done.more, 1);
    CHECK(exists("copy/way") && !exists("elsewhere/file"));
    close_agent();
}

TEST(an_unpacking_that_ends_early_leaves_no_unfinished_file)
{
    AUTO_BUF struct buf archive = BUF_INIT(ARCHIVE_MAX);

    open_agent();
    add_entry(&archive, TAR_FILE, "whole", "all of it");
    add_entry(&archive, TAR_FILE, "half", "cut off");
    send_message(FILES_DATA, archive.data, archive.len - TAR_BLOCK + 3);
    send_message(FILES_ABORT, NULL, 0);
    request("to", 0, ENTRIES_MAX);
    agent.stream_is_open = true;
    CHECK_INT(agent_unpack(&agent), -ECANCELED);
    CHECK(!agent.stream_is_open);
    check_content("to/whole", "all of it");
    CHECK_INT(unlink("to/whole") + rmdir("to"), 0); /* nothing else is there */

    archive.len -= TAR_BLOCK - 3;
    CHECK_INT(unpack("to", 0, &archive, 65536), -EBADMSG);
    CHECK_STR(agent.text, "half: the archive is cut off");
    CHECK_INT(unlink("to/whole") + rmdir("to"), 0);
    close_agent();
}
