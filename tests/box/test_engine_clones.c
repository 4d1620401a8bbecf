/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes are copies of one process: what must differ between them, and what must not be in them.
 *
 * A zygote that only imports modules would make this easy. So the tests run in a mount namespace in
 * which the source of Python's module `this` is one of ours, which draws from every generator
 * before boxes are forked, and preload it.
 */
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define BOXES 200
#define COLUMNS 9
#define PARKED 8

static char dir[] = "/tmp/husk-clones-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[64];

    CHECK_INT(str_format(path, sizeof(path), "%s/%s", dir, name), 0);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK_INT(fd_write_all(fd, text, strlen(text)), 0);
}

/* Puts our file in the place of the standard library's this.py, for this test only. */
static void replace_this_py(void)
{
    char from[64];
    glob_t found;

    CHECK_INT(unshare(CLONE_NEWNS), 0);
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_INT(str_format(from, sizeof(from), "%s/this.py", dir), 0);
    CHECK_INT(glob("/usr/lib/python3.*/this.py", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        CHECK_INT(mount(from, found.gl_pathv[i], NULL, MS_BIND, NULL), 0);
    }
    globfree(&found);
}

/* An engine whose template "clones" has used every generator before its boxes are made. */
static struct husk_engine *open_used(void)
{
    struct husk_engine *engine = NULL;
    struct husk_error e;

    if (geteuid() != 0) {
        SKIP("full isolation needs root");
    }
    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(chmod(dir, 0755), 0);
    write_file("clones.template", "language = python\npreload = this\n");
    write_file("this.py", "import ctypes, multiprocessing, random, secrets, ssl, tempfile, uuid\n"
                          "random.random(); ssl.RAND_bytes(8); ctypes.CDLL(None).rand()\n"
                          "ctypes.CDLL(None).lrand48(); uuid.uuid4(); secrets.token_hex()\n"
                          "next(tempfile._get_candidate_names())\n"
                          "try:\n    import numpy.random\n    numpy.random.rand()\n"
                          "except ImportError:\n    pass\n");
    replace_this_py();
    fixture_paths();
    const struct husk_options options = {.template_dir = dir};
    CHECK_OK(husk_open(&options, &engine, &e), &e);
    CHECK_OK(husk_pool_set(engine, "clones", NULL, PARKED, PARKED, &e), &e);
    return engine;
}

static void remove_dir(void)
{
    static const char *const names[] = {"clones.template", "this.py"};
    char path[64];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK_INT(str_format(path, sizeof(path), "%s/%s", dir, names[i]), 0);
        (void)umount2(path, MNT_DETACH);
        CHECK_INT(unlink(path), 0);
    }
    CHECK_INT(rmdir(dir), 0);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check_distinct(const char *what, char **values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    for (size_t i = 1; i < n; i++) {
        if (str_eq(values[i - 1], values[i])) {
            tap_fail(__FILE__, __LINE__, "two of %zu boxes have the same %s: %s", n, what,
                     values[i]);
        }
    }
}

TEST_TIMEOUT(two_hundred_boxes_of_one_zygote_draw_different_numbers, 60)
{
    static const char *const names[COLUMNS] = {
        "random.random()",    "uuid4()",  "secrets.token_hex()", "name of a temporary file",
        "ssl.RAND_bytes()",   "C rand()", "multiprocessing key", "numpy.random.rand()",
        "numpy default_rng()"};
    static const char draw[] =
        "import ctypes, multiprocessing, random, secrets, ssl, tempfile, uuid\n"
        "c = ctypes.CDLL(None)\n"
        "print(random.random(), uuid.uuid4(), secrets.token_hex(8))\n"
        "print(tempfile.mktemp(), ssl.RAND_bytes(8).hex(), [c.rand(), c.lrand48()])\n"
        "print(multiprocessing.current_process().authkey.hex())\n"
        "try:\n    import numpy\n    print(numpy.random.rand(), "
        "numpy.random.default_rng().random())\n"
        "except ImportError:\n    print(uuid.uuid4(), uuid.uuid4())\n";
    static char *values[COLUMNS][BOXES];
    AUTO_ENGINE struct husk_engine *engine = open_used();
    struct husk_spec spec = fixture_spec("clones", HUSK_SCRIPT, draw);
    struct husk_error e;

    for (size_t i = 0; i < BOXES; i++) {
        CHECK_OK(husk_pool_wait(engine, "clones", 1, &e), &e);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "completed exit 0");
        CHECK(r->receipt.warm);
        char *p = r->out;
        for (size_t c = 0; c < COLUMNS; c++) {
            size_t n = c == 5 ? strcspn(p, "]") + 1 : strcspn(p, " \n");
            CHECK(n > 1 && p[n] != '\0');
            values[c][i] = strndup(p, n);
            p += n + 1;
        }
    }
    for (size_t c = 0; c < COLUMNS; c++) {
        check_distinct(names[c], values[c], BOXES);
        for (size_t i = 0; i < BOXES; i++) {
            free(values[c][i]);
        }
    }
    remove_dir();
}

TEST(a_parked_box_has_its_four_descriptors_and_shares_none)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    static struct proc_list boxes;
    char links[PARKED * 4][64];
    char name[16];
    struct husk_error e;

    CHECK_OK(husk_pool_set(engine, "python", NULL, PARKED, PARKED, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", PARKED, &e), &e);
    proc_children(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, PARKED);
    for (size_t i = 0; i < PARKED; i++) {
        CHECK_INT(proc_count_fds(boxes.pids[i]), 4);
        for (size_t fd = 0; fd < 4; fd++) {
            char *link = links[i * 4 + fd];
            CHECK_INT(str_format(name, sizeof(name), "fd/%zu", fd), 0);
            proc_link(boxes.pids[i], name, link, sizeof(links[0]));
            CASE("box %zu, descriptor %zu: %s", i, fd, link);
            CHECK(str_starts(link, fd < 3 ? "pipe:[" : "socket:["));
            for (size_t k = 0; k < i * 4 + fd; k++) {
                CHECK(!str_eq(link, links[k]));
            }
        }
    }
}

TEST(a_program_finds_no_other_descriptor)
{
    static const char list[] = "import os\n"
                               "d = os.open('/proc/self/fd', os.O_RDONLY)\n"
                               "print(sorted(int(n) for n in os.listdir(d)), d)\n";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    AUTO_RESULT struct husk_result *cold = NULL;
    AUTO_RESULT struct husk_result *warm = NULL;
    struct husk_error e;
    int strays[20];

    for (size_t i = 0; i < ARRAY_LEN(strays); i++) {   /* inheritable, as a careless caller's are */
        strays[i] = fcntl(STDERR_FILENO, F_DUPFD, 50); /* NOLINT(android-cloexec-dup) */
        CHECK(strays[i] >= 50);
    }
    cold = fixture_script(engine, list);
    CHECK_STR(cold->out, "[0, 1, 2, 3, 4, 5] 4\n"); /* 5 is listdir's own */
    CHECK_OK(husk_pool_set(engine, "python", NULL, 1, 1, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", 1, &e), &e);
    warm = fixture_script(engine, list);
    CHECK(warm->receipt.warm);
    CHECK_STR(warm->out, cold->out);
    for (size_t i = 0; i < ARRAY_LEN(strays); i++) {
        close(strays[i]);
    }
}

/*
 * Looks through all readable memory for 32 bytes of which it knows only the first half (in
 * disguise) and a digest of the whole, so that it cannot find what it brought along itself.
 */
static const char scan_code[] =
    "import ctypes, hashlib, os, sys\n"
    "half = bytes(b ^ 0x55 for b in bytes.fromhex(sys.argv[1]))\n"
    "want = sys.argv[2]\n"
    "found = size = 0\n"
    "for line in open('/proc/self/maps'):\n"
    "    span, mode = line.split()[:2]\n"
    "    start, end = (int(x, 16) for x in span.split('-'))\n"
    "    if mode[0] != 'r' or '[v' in line:\n"
    "        continue\n"
    "    text = ctypes.string_at(start, end - start)\n"
    "    size += len(text)\n"
    "    at = text.find(half)\n"
    "    while at >= 0:\n"
    "        found += hashlib.sha256(text[at:at + 32]).hexdigest() == want\n"
    "        at = text.find(half, at + 1)\n"
    "print(found > 0, size > 1 << 20)\n";

/* Runs the scan for a canary of 32 characters; the digest comes from the box of another engine. */
static struct husk_result *scan(struct husk_engine *engine, const char *canary, const char *digest,
                                const char *const *env)
{
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, scan_code);
    char half[33];
    const char *const args[] = {half, digest, NULL};

    for (size_t i = 0; i < 16; i++) {
        CHECK_INT(str_format(half + 2 * i, 3, "%02x", (unsigned)(unsigned char)canary[i] ^ 0x55),
                  0);
    }
    spec.args = args;
    spec.env = env;
    return fixture_run(engine, &spec);
}

TEST_TIMEOUT(what_the_client_knows_is_not_in_the_memory_of_a_box, 60)
{
    static char canary[33];
    char variable[64];
    char *on_heap = NULL;
    const char *const leaked[] = {variable, NULL};
    AUTO_ENGINE struct husk_engine *other = NULL;
    AUTO_ENGINE struct husk_engine *engine = NULL;
    AUTO_RESULT struct husk_result *hash = NULL;
    AUTO_RESULT struct husk_result *clean = NULL;
    AUTO_RESULT struct husk_result *control = NULL;

    rand_hex(canary, sizeof(canary));
    on_heap = strdup(canary);
    CHECK_INT(str_format(variable, sizeof(variable), "CANARY=%s", canary), 0);
    CHECK_INT(setenv("HUSK_TEST_CANARY", canary, 1), 0);
    other = fixture_open();
    struct husk_spec ask = fixture_spec("python", HUSK_SCRIPT,
                                        "import hashlib, sys\n"
                                        "print(hashlib.sha256(sys.argv[1].encode()).hexdigest(), "
                                        "end='')");
    const char *const args[] = {canary, NULL};
    ask.args = args;
    hash = fixture_run(other, &ask); /* this engine's zygote has seen the canary go by, too */
    CHECK_INT(hash->out_len, 64);

    engine = fixture_open();
    for (int i = 0; i < 2; i++) {
        CASE("%s", i == 0 ? "a fresh engine" : "the engine that ran code with the canary in it");
        husk_result_free(clean);
        clean = scan(i == 0 ? engine : other, canary, hash->out, NULL);
        CHECK_STR(clean->out, "False True\n");
    }
    CASE("a canary that is inside must be found, or the scan proves nothing");
    control = scan(engine, canary, hash->out, leaked);
    CHECK_STR(control->out, "True True\n");
    free(on_heap);
}
