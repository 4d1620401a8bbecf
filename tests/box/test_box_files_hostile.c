/* SPDX-License-Identifier: Apache-2.0 */
/* File work against hostile code inside the box. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "files_fixture.h"

/* Finds the file workers from inside the box. */
#define FIND                                                                                       \
    "import ctypes, errno, os, signal, time\n"                                                     \
    "def workers():\n"                                                                             \
    "    found = []\n"                                                                             \
    "    for p in os.listdir('/proc'):\n"                                                          \
    "        try:\n"                                                                               \
    "            if p.isdigit() and open(f'/proc/{p}/comm').read() == 'husk-files\\n' and "        \
    "'State:\\tZ' not in open(f'/proc/{p}/status').read(): found.append(int(p))\n"                 \
    "        except OSError: pass\n"                                                               \
    "    return found\n"

TEST(user_code_sees_the_worker_and_cannot_reach_into_it)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct husk_error error;
    struct err e = {0};

    CHECK_DONE(fixture_write(f, "f", "x", &e));
    CHECK_CELL(s, 0, FIND "w, = workers(); me = os.getpid(); w != me", "True");
    /* Each of these works on a process of user code's own, so that a refusal means something. */
    CHECK_CELL(
        s, 0,
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def ways(pid):\n"
        "    def op(name): return lambda: os.close(os.open(f'/proc/{pid}/{name}', os.O_RDONLY))\n"
        "    yield 'mem', op('mem')\n"
        "    yield 'maps', op('maps')\n"
        "    yield 'environ', lambda: open(f'/proc/{pid}/environ', 'rb').read()\n"
        "    yield 'fds', lambda: os.listdir(f'/proc/{pid}/fd')\n"
        "    yield 'fdinfo', lambda: os.listdir(f'/proc/{pid}/fdinfo')\n"
        "    yield 'socket', lambda: os.readlink(f'/proc/{pid}/fd/3')\n"
        "    yield 'exe', lambda: os.readlink(f'/proc/{pid}/exe')\n"
        "    yield 'cwd', lambda: os.listdir(f'/proc/{pid}/cwd')\n"
        "    yield 'root', lambda: os.listdir(f'/proc/{pid}/root')\n"
        "    yield 'auxv', lambda: open(f'/proc/{pid}/auxv', 'rb').read()\n"
        "def tried(pid):\n"
        "    done = []\n"
        "    for name, way in ways(pid):\n"
        "        try: way(); done.append(name)\n"
        "        except OSError: pass\n"
        "    return done\n"
        "[tried(w), len(tried(me))]",
        "[[], 10]");
    CHECK_CELL(
        s, 0,
        "def call(*args):\n"
        "    ctypes.set_errno(0); r = libc.syscall(*args); return r < 0 and ctypes.get_errno()\n"
        "arm = os.uname().machine == 'aarch64'\n"
        "ptrace, readv, writev = (117, 270, 271) if arm else (101, 310, 311)\n"
        "[call(ptrace, 16, w, 0, 0), call(ptrace, 0x4206, w, 0, 0), call(readv, w, 0, 0, 0, 0, 0), "
        "call(writev, w, 0, 0, 0, 0, 0), call(438, os.pidfd_open(w), 3, 0)] == [errno.EPERM] * 5",
        "True");
    /* Nor does a context that is born while a worker serves hold its socket. */
    static const char sockets[] =
        "import os, stat; [fd for fd in range(100) if os.path.exists(f'/proc/self/fd/{fd}') and "
        "stat.S_ISSOCK(os.fstat(fd).st_mode)]";
    CHECK_CELL(s, 0, sockets, "[3]");
    CHECK_OK(husk_session_reset(s, 0, &error), &error);
    CHECK_CELL(s, 0, sockets, "[3]");
    CHECK_DONE(fixture_write(f, "f", "y", &e));
}

TEST(a_worker_that_is_killed_fails_its_request_and_nothing_else)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct err e = {0};

    for (int i = 0; i < 20; i++) {
        AUTO_FILES struct box_files *f = fixture_files(s);
        CHECK_DONE(fixture_write(f, "f", "x", &e));
        CHECK_CELL(s, 0, FIND "for w in workers(): os.kill(w, 9)", NULL);
        CHECK_FAILS(f, fixture_write(f, "f", "y", &e), "worker_lost");
        CHECK(!box_files_is_usable(f));
        CHECK_FAILS(f, fixture_write(f, "f", "y", &e), "worker_lost");
    }
    CHECK_CELL(s, 0, "open('f').read()", "'x'");
}

static bool has_no_worker(struct husk_session *s)
{
    AUTO_RESULT struct husk_result *r = fixture_in(s, 0, 0, FIND "len(workers())");

    return str_eq(r->value, "0");
}

TEST(a_worker_that_is_stopped_holds_nobody_and_is_got_rid_of)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_BUF struct buf got = BUF_INIT(0);
    struct err e = {0};

    for (int i = 0; i < 12; i++) { /* more than may live at a time */
        struct box_files *f = fixture_files(s);
        box_files_set_patience(f, 200);
        CHECK_DONE(fixture_write(f, "f", "x", &e));
        CHECK_CELL(s, 0, FIND "for w in workers(): os.kill(w, signal.SIGSTOP)", NULL);
        uint64_t before = clock_ms();
        CHECK_FAILS(f, fixture_read(f, "f", false, &got, &e), "timeout");
        buf_release(&got);
        CHECK(clock_ms() - before < 5000);
        CHECK_INT(e.code, ERR_TIMEOUT);
        box_files_close(f);
    }
    AWAIT(has_no_worker(s));
    AUTO_FILES struct box_files *again = fixture_files(s);
    CHECK_DONE(fixture_read(again, "f", false, &got, &e));
    CHECK_STR(got.data, "x");
}

TEST(the_number_of_workers_is_bounded_and_they_end_with_their_connection)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct box_files *many[32] = {NULL};
    size_t n = 0;
    struct err e = {0};

    while (n < ARRAY_LEN(many) && (many[n] = box_files_open(s->inner, &e)) != NULL) {
        n++;
    }
    CHECK_INT(n, 8);
    CHECK_INT(e.code, ERR_LIMIT);
    for (size_t i = 0; i < n; i++) {
        box_files_close(many[i]);
    }
    for (int i = 0; i < 50; i++) {
        AUTO_FILES struct box_files *f = fixture_files(s);
        CHECK(box_files_is_usable(f));
    }
    AWAIT(has_no_worker(s));
    CHECK_CELL(s, 0, "1 + 1", "2");
}

TEST(a_box_that_ends_ends_the_file_work)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct err e = {0};

    CHECK_DONE(fixture_write(f, "f", "x", &e));
    fixture_session_close(&s);
    AWAIT(fixture_write(f, "f", "y", &e) != 0); /* its processes are dying */
    CHECK_STR(files_msg_status_name(box_files_status(f)), "worker_lost");
}

/* ---- races ---- */

/*
 * Exchanges, as fast as it can, directories and files with links that lead out of the workspace:
 * to a canary in /tmp, to /etc, through /proc.
 */
#define SWAP                                                                                       \
    "import ctypes, os\n"                                                                          \
    "os.mkdir('/tmp/out'); open('/tmp/out/name', 'w').write('CANARY')\n"                           \
    "os.mkdir('/tmp/out/sub'); open('/tmp/out/sub/canary', 'w').write('CANARY')\n"                 \
    "os.mkdir('tree'); os.chdir('tree')\n"                                                         \
    "os.makedirs('d/sub'); open('d/name', 'w').write('mine'); open('file', 'w').write('mine')\n"   \
    "os.symlink('/tmp/out', 'l0'); os.symlink('/etc', 'l1'); os.symlink('../../tmp/out', 'l2')\n"  \
    "os.symlink('/proc/self/root/tmp/out', 'l3'); os.symlink('/tmp/out/name', 'lf0')\n"            \
    "os.symlink('/etc/passwd', 'lf1'); os.symlink('../../etc/passwd', 'lf2')\n"                    \
    "libc = ctypes.CDLL(None); kids = []\n"                                                        \
    "def swap(a, b): libc.renameat2(-100, a, -100, b, 2)\n"                                        \
    "def child():\n"                                                                               \
    "    while True:\n"                                                                            \
    "        for i in range(4): swap(b'd', b'l%d' % i); swap(b'd', b'l%d' % i)\n"                  \
    "        for i in range(3): swap(b'file', b'lf%d' % i); swap(b'file', b'lf%d' % i)\n"          \
    "        swap(b'd/sub', b'l0'); swap(b'd/sub', b'l0')\n"                                       \
    "kids.append(os.fork())\n"                                                                     \
    "if kids[-1] == 0:\n"                                                                          \
    "    try: child()\n"                                                                           \
    "    finally: os._exit(0)\n"                                                                   \
    "os.chdir('..')"

static bool has_secret(const struct buf *b)
{
    return b->data != NULL && (memmem(b->data, b->len, "CANARY", 6) != NULL ||
                               memmem(b->data, b->len, "root:", 5) != NULL);
}

static void race_reads(struct box_files *f, size_t *mine)
{
    static const char *const paths[] = {"tree/d/name", "tree/file", "tree/d/sub/canary"};
    struct err e = {0};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        AUTO_BUF struct buf got = BUF_INIT(0);
        int r = fixture_read(f, paths[i], true, &got, &e);
        CHECK(!has_secret(&got));
        CHECK(r < 0 || str_eq(got.data, "mine"));
        *mine += r == 0 ? 1 : 0;
    }
}

static int no_outsider(void *user, const struct files_entry *entry, const char *name,
                       const char *target)
{
    size_t *entries = user;
    size_t len = entry->name_len;

    (void)target;
    /* Only below a link to /tmp/out or /etc are there such names. */
    CHECK(memmem(name, len, "canary", 6) == NULL && memmem(name, len, "passwd", 6) == NULL);
    ++*entries;
    return 0;
}

static void race_walks(struct box_files *f, size_t *entries)
{
    AUTO_BUF struct buf archive = BUF_INIT(0);
    struct box_files_sink sink = fixture_into(&archive);
    struct box_files_list all = {.recursive = true, .on_entry = no_outsider, .user = entries};
    struct box_files_list one = {.follow = true, .on_entry = no_outsider, .user = entries};
    struct err e = {0};

    CHECK_DONE(box_files_list(f, "", &all, &e));
    (void)box_files_list(f, "tree/d", &one, &e);
    CHECK_DONE(box_files_pack(f, "", &sink, &e));
    CHECK(!has_secret(&archive));
}

static void race_writes(struct box_files *f, const struct buf *archive)
{
    struct err e = {0};

    (void)fixture_write(f, "tree/d/written", "x", &e);
    (void)box_files_mkdir(f, "tree/d/made/made", 0, true, &e);
    (void)box_files_delete(f, "tree/d/name", false, &e);
    (void)box_files_delete(f, "tree/d/sub/canary", true, &e);
    (void)box_files_move(f, "tree/file", "tree/d/moved", FILES_REPLACE, &e);
    (void)box_files_move(f, "tree/d/moved", "tree/file", FILES_REPLACE, &e);
    (void)fixture_unpack(f, "tree/d", archive, &e);
    (void)fixture_write(f, "tree/d/name", "mine", &e);
    CHECK(box_files_is_usable(f));
}

TEST_TIMEOUT(nothing_outside_is_read_or_touched_while_paths_are_swapped, 120)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    AUTO_BUF struct buf archive = BUF_INIT(0);
    struct box_files_sink sink = fixture_into(&archive);
    size_t mine = 0;
    size_t entries = 0;
    struct err e = {0};

    CHECK_DONE(fixture_write(f, "packed/unpacked/x", "x", &e));
    CHECK_DONE(box_files_pack(f, "packed", &sink, &e));
    CHECK_CELL(s, 0, SWAP, NULL);
    uint64_t until = clock_ms() + 5000;
    for (size_t rounds = 0; clock_ms() < until || rounds < 20; rounds++) {
        for (int i = 0; i < 20; i++) {
            race_reads(f, &mine);
        }
        race_walks(f, &entries);
    }
    for (size_t rounds = 0; clock_ms() < until + 5000 || rounds < 20; rounds++) {
        race_writes(f, &archive);
    }
    CHECK(mine > 10); /* otherwise nothing was proven */
    CHECK(entries > 100);
    CHECK_CELL(
        s, 0,
        "os.kill(kids[0], 9)\n"
        "[sorted(os.listdir('/tmp/out')), open('/tmp/out/name').read(), "
        "os.listdir('/tmp/out/sub'), open('/tmp/out/sub/canary').read(), os.listdir('/tmp')]",
        "[['name', 'sub'], 'CANARY', ['canary'], 'CANARY', ['out']]");
}

/* A delete against code that makes files as fast as they go: it ends, one way or the other. */
TEST_TIMEOUT(a_tree_that_grows_while_it_is_deleted, 120)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    struct err e = {0};

    CHECK_CELL(s, 0,
               "import os, time\nk = os.fork()\n"
               "if k == 0:\n"
               "    end = time.time() + 3; i = 0\n"
               "    while time.time() < end:\n"
               "        try: i += 1; os.makedirs(f't/{i % 7}/{i}'); open(f't/{i}', 'w').close()\n"
               "        except OSError: pass\n"
               "    os._exit(0)\n"
               "while not os.path.exists('t'): pass",
               NULL);
    while (box_files_delete(f, "t", true, &e) == 0) { /* until it loses the race, or is not there */
    }
    CHECK(box_files_is_usable(f));
    CHECK_CELL(s, 0, "os.waitpid(k, 0)[1]", "0");
    (void)box_files_delete(f, "t", true, &e);
    CHECK_FAILS(f, box_files_delete(f, "t", true, &e), "not_found");
}

/* ---- trees ---- */

TEST_TIMEOUT(trees_of_any_depth_are_bounded_in_lists_and_can_be_deleted, 120)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    AUTO_BUF struct buf archive = BUF_INIT(0);
    struct box_files_sink sink = fixture_into(&archive);
    size_t n = 0;
    struct box_files_list list = {.recursive = true, .on_entry = fixture_count_entry, .user = &n};
    struct err e = {0};

    CHECK_CELL(s, 0,
               "import os\nhome = os.getcwd()\n"
               "os.mkdir('top'); os.chdir('top')\n"
               "for i in range(3000): os.mkdir('d'); os.chdir('d')\n"
               "os.chdir(home)",
               NULL);
    CHECK_DONE(box_files_list(f, "", &list, &e));
    CHECK(list.more);
    CHECK_INT(n, FILES_DEPTH_MAX);
    CHECK_FAILS(f, box_files_pack(f, "", &sink, &e), "too_large");
    CHECK(box_files_is_usable(f));
    CHECK_DONE(box_files_delete(f, "top", true, &e));
    CHECK_CELL(s, 0, "os.listdir()", "[]");
}

TEST(a_listing_stops_where_it_was_told_to)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    size_t n = 0;
    struct box_files_list list = {.limit = 4999, .on_entry = fixture_count_entry, .user = &n};
    struct err e = {0};

    CHECK_CELL(s, 0, "for i in range(5000): open('n' * 200 + str(i), 'w').close()", NULL);
    CHECK_DONE(box_files_list(f, "", &list, &e));
    CHECK_INT(n, 4999);
    CHECK(list.more);
    list.limit = 5000;
    n = 0;
    CHECK_DONE(box_files_list(f, "", &list, &e));
    CHECK_INT(n, 5000);
    CHECK(!list.more);
}

static int refuse_data(void *user, const void *data, size_t n)
{
    (void)data;
    *(size_t *)user += n;
    return -1;
}

TEST(a_download_that_is_given_up_ends_the_connection_and_its_worker)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    struct box_files *f = fixture_files(s);
    size_t got = 0;
    struct box_files_read r = {.sink = {.on_data = refuse_data, .user = &got}};
    struct err e = {0};

    CHECK_CELL(s, 0, "_ = open('big', 'wb').truncate(200 << 20)", NULL);
    CHECK_FAILS(f, box_files_read(f, "big", &r, &e), "aborted");
    CHECK(got > 0 && got <= FILES_BODY_MAX);
    CHECK(!box_files_is_usable(f));
    box_files_close(f);
    AWAIT(has_no_worker(s));
}

/* Cuts the file when its first bytes arrive: 30 MiB do not fit in a socket, the rest is missing. */
static int shrink_file(void *user, const void *data, size_t n)
{
    struct husk_session **s = user;

    (void)data;
    (void)n;
    if (*s != NULL) {
        CHECK_CELL(*s, 0, "os.truncate('f', 0)", NULL);
        *s = NULL;
    }
    return 0;
}

TEST(a_file_that_shrinks_while_it_is_read_is_told)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_SESSION struct husk_session *s = fixture_session(engine, NULL);
    AUTO_FILES struct box_files *f = fixture_files(s);
    AUTO_BUF struct buf got = BUF_INIT(0);
    struct husk_session *shrinks_in = s;
    struct box_files_read r = {.sink = {.on_data = shrink_file, .user = &shrinks_in}};
    struct err e = {0};

    CHECK_CELL(s, 0, "import os\n_ = open('f', 'wb').truncate(30 << 20)", NULL);
    CHECK(box_files_read(f, "f", &r, &e) < 0);
    CHECK_INT(box_files_status(f), FILES_CHANGED);
    CHECK(box_files_is_usable(f));
    CHECK_INT(fixture_read(f, "f", false, &got, &e), 0);
    CHECK_INT(got.len, 0);
}
