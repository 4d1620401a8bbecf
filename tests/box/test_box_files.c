/* SPDX-License-Identifier: Apache-2.0 */
/* File work in a live session: every operation, what it refuses, and what it says then. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/fiber.h"
#include "files_fixture.h"

TEST(what_is_written_is_what_the_box_reads_and_the_other_way_round)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    AUTO_BUF struct buf got = BUF_INIT(0);
    struct err e = {0};

    CHECK_DONE(fixture_write(f, "a/b/in.txt", "from outside", &e));
    CHECK_CELL(s, 0, "open('a/b/in.txt').read()", "'from outside'");
    CHECK_CELL(s, 0,
               "import os\ns = os.stat('a/b/in.txt')\n"
               "[s.st_uid == os.getuid(), s.st_gid == os.getgid(), oct(s.st_mode), "
               "oct(os.stat('a').st_mode), os.listdir('a/b')]",
               "[True, True, '0o100644', '0o40755', ['in.txt']]");
    CHECK_CELL(s, 0, "open('out', 'wb').write(bytes(range(256)) * 1000)", "256000");
    CHECK_DONE(fixture_read(f, "out", false, &got, &e));
    CHECK_INT(got.len, 256000);
    for (size_t i = 0; i < got.len; i++) {
        CHECK_INT((unsigned char)got.data[i], i % 256);
    }
}

TEST(a_write_replaces_a_file_as_a_whole_or_not_at_all)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct fixture_bytes bytes = {.data = "new", .left = 3, .portion = 1};
    struct box_files_write w = {.mode = 0750, .source = fixture_from(&bytes)};
    struct err e = {0};

    CHECK_DONE(box_files_write(f, "f", &w, &e));
    CHECK(w.created);
    CHECK_INT(w.written, 3);
    CHECK_CELL(s, 0, "import os; h = open('f'); [h.read(), oct(os.stat('f').st_mode)]",
               "['new', '0o100750']");
    CHECK_DONE(fixture_write(f, "f", "newer", &e));
    CHECK_CELL(s, 0, "h.seek(0); [h.read(), open('f').read(), os.listdir()]",
               "['new', 'newer', ['f']]");

    CHECK_CELL(s, 0, "os.mkdir('d'); os.symlink('f', 'l'); os.symlink('d', 'dl')", NULL);
    CHECK_FAILS(f, fixture_write(f, "d", "x", &e), "is_a_directory");
    CHECK_FAILS(f, fixture_write(f, "f/x", "x", &e), "not_a_directory");
    CHECK_FAILS(f, fixture_write(f, "dl/x", "x", &e), "not_a_directory");
    w.parents = false;
    CHECK_FAILS(f, box_files_write(f, "no/x", &w, &e), "not_found");
    CHECK_INT(e.sys_errno, ENOENT);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    /* A link of that name goes; what it led to stays. */
    CHECK_DONE(fixture_write(f, "l", "link no more", &e));
    CHECK_CELL(s, 0, "[os.path.islink('l'), open('f').read(), sorted(os.listdir())]",
               "[False, 'newer', ['d', 'dl', 'f', 'l']]");
}

static ssize_t give_up_later(void *user, void *to, size_t size)
{
    int *calls = user;

    memset(to, 'x', size);
    return ++*calls < 20 ? (ssize_t)size : -1;
}

TEST(an_upload_that_is_given_up_leaves_nothing)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    int calls = 0;
    struct box_files_write w = {.source = {.next = give_up_later, .user = &calls}};
    struct err e = {0};

    CHECK_DONE(fixture_write(f, "f", "old", &e));
    CHECK_FAILS(f, box_files_write(f, "f", &w, &e), "aborted");
    CHECK(box_files_is_usable(f));
    CHECK_CELL(s, 0, "import os; [os.listdir(), open('f').read()]", "[['f'], 'old']");
    CHECK_DONE(fixture_write(f, "f", "newer", &e));
}

TEST(a_read_gives_exactly_the_range_that_was_asked_for)
{
    static const struct {
        uint64_t offset, length;
        const char *want;
    } rows[] = {{0, 0, "0123456789"}, {3, 0, "3456789"}, {3, 2, "34"},
                {8, 100, "89"},       {10, 0, ""},       {UINT64_MAX, UINT64_MAX, ""}};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct err e = {0};

    CHECK_DONE(fixture_write(f, "f", "0123456789", &e));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf got = BUF_INIT(0);
        struct box_files_read r = {
            .offset = rows[i].offset, .length = rows[i].length, .sink = fixture_into(&got)};
        CASE("row %zu", i);
        CHECK_DONE(box_files_read(f, "f", &r, &e));
        CHECK_STR(got.len > 0 ? got.data : "", rows[i].want);
        CHECK_INT(r.sent, strlen(rows[i].want));
    }
}

TEST(only_regular_files_are_read_and_nothing_waits_for_them)
{
    static const struct {
        const char *path, *want;
        bool follow;
    } rows[] = {
        {"missing", "not_found", true},
        {"dir", "is_a_directory", true},
        {"dir/x/y", "not_found", true},
        {"file/x", "not_a_directory", true},
        {"pipe", "denied", true},
        {"socket", "denied", true},
        {"unreadable", "denied", true},
        {"absolute", "denied", true},
        {"climbs", "denied", true},
        {"proc", "denied", true},
        {"self/root/etc/passwd", "denied", true},
        {"loop", "denied", true},
        {"chain0", "denied", true},
        {"dangling", "not_found", true},
        {"device", "denied", true},
        {"inner", "ok", true},
        {"inner", "denied", false},
        {"indir/f", "ok", true},
        {"indir/f", "denied", false},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct err e = {0};

    CHECK_CELL(
        s, 0,
        "import os, socket\nos.makedirs('dir'); os.mkfifo('pipe')\n"
        "open('file', 'w').write('text'); open('dir/f', 'w').write('inside')\n"
        "socket.socket(socket.AF_UNIX).bind('socket')\n"
        "open('unreadable', 'w').write('x'); os.chmod('unreadable', 0)\n"
        "for target, name in [('/etc/passwd', 'absolute'), ('../etc/passwd', 'climbs'), "
        "('/proc/self/environ', 'proc'), ('/proc/self', 'self'), ('loop', 'loop'), "
        "('no', 'dangling'), ('/dev/zero', 'device'), ('dir/f', 'inner'), ('dir', 'indir')]:\n"
        "    os.symlink(target, name)\n"
        "for i in range(41): os.symlink(f'chain{i + 1}', f'chain{i}')",
        NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf got = BUF_INIT(0);
        CASE("%s, follow %d", rows[i].path, rows[i].follow);
        int r = fixture_read(f, rows[i].path, rows[i].follow, &got, &e);
        CHECK_STR(files_msg_status_name(box_files_status(f)), rows[i].want);
        CHECK_INT(r, str_eq(rows[i].want, "ok") ? 0 : -1);
        CHECK_STR(got.data, r == 0 ? "inside" : "");
    }
}

TEST(paths_that_lead_elsewhere_are_refused_before_anything_is_sent)
{
    static const char *const paths[] = {"/etc/passwd", "..",  "../x", "a/../b", "a//b",
                                        "./a",         "a/.", "a/",   "/",      "."};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    AUTO_BUF struct buf got = BUF_INIT(0);
    char longest[FILES_PATH_MAX + 2];
    struct files_info info;
    struct err e = {0};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        CASE("%s", paths[i]);
        CHECK_FAILS(f, fixture_write(f, paths[i], "x", &e), "invalid_path");
        CHECK_FAILS(f, box_files_stat(f, paths[i], true, &info, NULL, &e), "invalid_path");
        CHECK_FAILS(f, box_files_delete(f, paths[i], true, &e), "invalid_path");
        CHECK_FAILS(f, box_files_move(f, "a", paths[i], 0, &e), "invalid_path");
        CHECK_FAILS(f, box_files_mkdir(f, paths[i], 0, true, &e), "invalid_path");
    }
    CHECK_FAILS(f, box_files_delete(f, "", true, &e), "invalid_path");
    memset(longest, 'x', sizeof(longest));
    longest[FILES_PATH_MAX + 1] = '\0';
    CHECK_FAILS(f, fixture_write(f, longest, "x", &e), "invalid_path");
    longest[FILES_NAME_MAX + 1] = '\0';
    CHECK_FAILS(f, fixture_write(f, longest, "x", &e), "invalid_path");
    longest[FILES_NAME_MAX] = '\0';
    CHECK_DONE(fixture_write(f, longest, "x", &e));
    CHECK_DONE(fixture_read(f, longest, false, &got, &e));
    CHECK(box_files_is_usable(f));
}

TEST(a_listing_says_what_there_is_and_follows_no_link)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    AUTO_BUF struct buf flat = BUF_INIT(0);
    AUTO_BUF struct buf deep = BUF_INIT(0);
    AUTO_BUF struct buf none = BUF_INIT(0);
    AUTO_BUF struct buf link = BUF_INIT(0);
    struct err e = {0};

    CHECK_CELL(s, 0,
               "import os\nos.umask(0o022); os.makedirs('d/e'); open('d/e/f', 'w').write('12345')\n"
               "os.symlink('/', 'root'); os.mkfifo('p'); os.chmod('p', 0o600)\n"
               "open(b'd/\\xff\\n', 'w').close()",
               NULL);
    CHECK_DONE(fixture_list(f, "", false, &flat, &e));
    CHECK_STR(flat.data, "d 755 0 d\no 600 0 p\nl 777 0 root->/");
    CHECK_DONE(fixture_list(f, "", true, &deep, &e));
    CHECK_STR(deep.data, "d 755 0 d\nf 644 0 d/\\xff\n\n"
                         "d 755 0 d/e\nf 644 5 d/e/f\n"
                         "o 600 0 p\nl 777 0 root->/");
    CHECK_DONE(fixture_list(f, "d/e", false, &none, &e));
    CHECK_STR(none.data, "f 644 5 f");
    CHECK_FAILS(f, fixture_list(f, "root", true, &link, &e), "not_a_directory");
    buf_release(&link);
    CHECK_FAILS(f, fixture_list(f, "d/e/f", true, &link, &e), "not_a_directory");
    buf_release(&link);
    CHECK_FAILS(f, fixture_list(f, "no", true, &link, &e), "not_found");
}

TEST(stat_tells_of_the_thing_itself_or_of_what_a_link_leads_to)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct files_info info;
    struct err e = {0};
    char same[128];
    char target[FILES_PATH_MAX + 1];

    CHECK_CELL(s, 0,
               "import os\nopen('f', 'w').write('123'); os.chmod('f', 0o640)\n"
               "os.utime('f', ns=(1, 1700000000123456789))\n"
               "os.symlink('f', 'l'); os.symlink('/etc/passwd', 'out')",
               NULL);
    CHECK_DONE(box_files_stat(f, "f", false, &info, NULL, &e));
    CHECK_INT(info.kind, FILES_FILE);
    CHECK_INT(info.mode, 0640);
    CHECK_INT(info.size, 3);
    CHECK_INT(info.mtime_ns, 1700000000123456789);
    CHECK_CELL(s, 0, "st = os.stat('f')", NULL);
    str_format(same, sizeof(same), "(%" PRIu64 ", %" PRId64 ") == (st.st_ino, st.st_ctime_ns)",
               info.inode, info.ctime_ns);
    CHECK_CELL(s, 0, same, "True");
    CHECK_DONE(box_files_stat(f, "l", false, &info, NULL, &e));
    CHECK_INT(info.kind, FILES_LINK);
    CHECK_DONE(box_files_stat(f, "l", true, &info, NULL, &e));
    CHECK_INT(info.kind, FILES_FILE);
    CHECK_DONE(box_files_stat(f, "", false, &info, NULL, &e));
    CHECK_INT(info.kind, FILES_DIRECTORY);
    CHECK_DONE(box_files_stat(f, "out", false, &info, target, &e));
    CHECK_INT(info.kind, FILES_LINK);
    CHECK_STR(target, "/etc/passwd");
    CHECK_DONE(box_files_stat(f, "f", false, &info, target, &e));
    CHECK_STR(target, "");
    CHECK_FAILS(f, box_files_stat(f, "out", true, &info, NULL, &e), "denied");
    CHECK_INT(e.sys_errno, EXDEV);
}

TEST(move_replaces_only_when_asked)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct err e = {0};

    CHECK_DONE(fixture_write(f, "a", "A", &e));
    CHECK_DONE(fixture_write(f, "b", "B", &e));
    CHECK_FAILS(f, box_files_move(f, "a", "b", 0, &e), "exists");
    CHECK_STR(e.msg, "a to b: File exists");
    CHECK_DONE(box_files_move(f, "a", "b", FILES_REPLACE, &e));
    CHECK_FAILS(f, box_files_move(f, "a", "c", 0, &e), "not_found");
    CHECK_FAILS(f, box_files_move(f, "b", "d/e/b", 0, &e), "not_found");
    CHECK_STR(e.msg, "b to d/e/b: No such file or directory");
    CHECK_DONE(box_files_move(f, "b", "d/e/b", FILES_PARENTS, &e));
    CHECK_FAILS(f, box_files_move(f, "d", "d/e/inside", 0, &e), "invalid_path");
    CHECK_DONE(box_files_move(f, "d", "g", 0, &e));
    CHECK_DONE(fixture_write(f, "file", "x", &e));
    CHECK_FAILS(f, box_files_move(f, "file", "g", FILES_REPLACE, &e), "is_a_directory");
    CHECK_CELL(s, 0, "import os\n[open('g/e/b').read(), sorted(os.listdir())]",
               "['A', ['file', 'g']]");
    CHECK_CELL(s, 0, "os.symlink('/tmp', 'out')", NULL);
    CHECK_FAILS(f, box_files_move(f, "file", "out/file", 0, &e), "not_a_directory");
    CHECK_FAILS(f, box_files_move(f, "out/file", "x", 0, &e), "not_a_directory");
}

TEST(mkdir_makes_one_directory_or_all_of_them)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct err e = {0};

    CHECK_DONE(box_files_mkdir(f, "a", 0, false, &e));
    CHECK_FAILS(f, box_files_mkdir(f, "a", 0, false, &e), "exists");
    CHECK_FAILS(f, box_files_mkdir(f, "x/y", 0, false, &e), "not_found");
    CHECK_DONE(box_files_mkdir(f, "x/y", 0700, true, &e));
    CHECK_DONE(box_files_mkdir(f, "x/y", 0700, true, &e));
    CHECK_CELL(s, 0,
               "import os\nopen('f', 'w').close(); os.symlink('a', 'l')\n"
               "[oct(os.stat(n).st_mode) for n in ('a', 'x', 'x/y')]",
               "['0o40755', '0o40755', '0o40700']");
    CHECK_FAILS(f, box_files_mkdir(f, "f", 0, true, &e), "not_a_directory");
    CHECK_FAILS(f, box_files_mkdir(f, "f/g", 0, true, &e), "not_a_directory");
    CHECK_FAILS(f, box_files_mkdir(f, "l/g", 0, true, &e), "not_a_directory");
}

TEST(delete_takes_trees_only_when_asked_and_never_follows)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct err e = {0};

    CHECK_CELL(s, 0,
               "import os\nos.makedirs('t/u/v'); os.mkdir('keep'); open('keep/f', 'w').close()\n"
               "for i in range(2000): open(f't/u/{i}', 'w').close()\n"
               "os.symlink('../../keep', 't/u/link'); os.symlink('keep', 'l'); os.mkdir('empty')",
               NULL);
    CHECK_FAILS(f, box_files_delete(f, "t", false, &e), "not_empty");
    CHECK_DONE(box_files_delete(f, "t", true, &e));
    CHECK_FAILS(f, box_files_delete(f, "t", true, &e), "not_found");
    CHECK_DONE(box_files_delete(f, "empty", false, &e));
    CHECK_FAILS(f, box_files_delete(f, "l/f", true, &e), "not_a_directory");
    CHECK_DONE(box_files_delete(f, "l", true, &e));
    CHECK_CELL(s, 0, "[os.listdir(), os.listdir('keep')]", "[['keep'], ['f']]");
}

static ssize_t endless(void *user, void *to, size_t size)
{
    (void)user;
    memset(to, 'x', size);
    return (ssize_t)size;
}

TEST(a_full_disk_is_told_and_leaves_what_was_there)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_limits limits = {.disk_bytes = 4 * MIB, .memory_bytes = 64 * MIB, .inodes = 64};
    AUTO_SESSION struct husk_session *s = fixture_session(engine, &limits);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct box_files_write w = {.source = {.next = endless}};
    struct err e = {0};

    CHECK_DONE(fixture_write(f, "f", "old", &e));
    CHECK_INT(box_files_write(f, "f", &w, &e), -1);
    /* The largest file is as large as the disk: either limit may come first. */
    CHECK(box_files_status(f) == FILES_NO_SPACE || box_files_status(f) == FILES_TOO_LARGE);
    CHECK_CELL(s, 0, "import os; [os.listdir(), open('f').read()]", "[['f'], 'old']");
    CHECK_CELL(s, 0, "_ = open('ballast', 'wb').write(b'x' * (3 << 20))", NULL);
    CHECK_FAILS(f, box_files_write(f, "f", &w, &e), "no_space");
    CHECK_INT(e.code, ERR_STORAGE);
    CHECK_INT(e.sys_errno, ENOSPC);
    CHECK_DONE(box_files_delete(f, "ballast", false, &e));
    int r = 0;
    for (int i = 0; i < 100 && r == 0; i++) {
        char name[16];
        CHECK_INT(str_format(name, sizeof(name), "n%d", i), 0);
        r = box_files_mkdir(f, name, 0, false, &e);
    }
    CHECK_INT(r, -1);
    CHECK_STR(files_msg_status_name(box_files_status(f)), "no_space");
    CHECK(box_files_is_usable(f));
}

/* ---- many at a time, in fibers ---- */

struct traffic {
    struct husk_session *s;
    int id;
    bool done;
};

static int slow_sink(void *user, const void *data, size_t n)
{
    uint64_t *bytes = user;

    (void)data;
    *bytes += n;
    fiber_sleep(1); /* back-pressure: only the worker waits with us */
    return 0;
}

static void one_of_many(void *user)
{
    struct traffic *t = user;
    AUTO_FILES struct box_files *f = fixture_files(t->s);
    struct fixture_bytes bytes = {.data = "x", .left = 1};
    struct box_files_write w = {.source = fixture_from(&bytes)};
    uint64_t got = 0;
    struct box_files_read r = {.sink = {.on_data = slow_sink, .user = &got}};
    struct err e = {0};
    char name[16];

    CHECK_INT(str_format(name, sizeof(name), "own%d", t->id), 0);
    CHECK_DONE(box_files_write(f, name, &w, &e));
    CHECK_DONE(box_files_read(f, "big", &r, &e));
    CHECK_INT(got, 4 << 20);
    t->done = true;
}

TEST(several_connections_work_at_a_time_in_fibers)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct traffic traffic[6];

    CHECK_CELL(s, 0, "_ = open('big', 'wb').write(b'x' * (4 << 20))", NULL);
    for (int i = 0; i < 6; i++) {
        traffic[i] = (struct traffic){.s = s, .id = i};
        CHECK_INT(fiber_start(one_of_many, &traffic[i]), 0);
    }
    fiber_run_all();
    for (int i = 0; i < 6; i++) {
        CHECK(traffic[i].done);
    }
    fiber_release();
}
