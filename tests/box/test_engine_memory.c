/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a template's zygote hands on to its boxes, and memory that it must not. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "engine_fixture.h"
#include "tap.h"

#define BOXES 17 /* one more than a pool has warm */

static char dir[] = "/var/lib/husk-memory-XXXXXX";
static char path[PATH_MAX];

static void begin(void)
{
    fixture_template_dir(dir);
    CHECK_INT(str_format(path, sizeof(path), "%s/mine.template", dir), 0);
}

static void end(void)
{
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(dir), 0);
}

/* All boxes of a pool, warm and cool, of a template with that warm-up: each must print the same. */
static void check_boxes(const char *warm, const char *code, const char *want)
{
    AUTO_ENGINE struct husk_engine *engine = NULL;
    struct husk_spec spec = fixture_spec("mine", HUSK_SCRIPT, code);
    struct husk_error e;

    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    CHECK(fprintf(file, "language = python\nwarm = import builtins as b, mmap; %s\n", warm) > 0);
    CHECK_INT(fclose(file), 0);
    CHECK_OK(husk_open(NULL, &engine, &e), &e);
    CHECK_OK(husk_pool_set(engine, "mine", NULL, BOXES, BOXES, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "mine", BOXES, &e), &e);
    CHECK_OK(husk_pool_set(engine, "mine", NULL, 0, BOXES, &e), &e); /* no refill */
    for (int i = 0; i < BOXES; i++) {
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->out, want);
        CHECK(r->receipt.warm);
    }
}

/*
 * The hot set is what a rehearsal touched. What it touched and no box has must not be touched in a
 * box.
 */
TEST(memory_that_only_the_rehearsal_had_is_not_asked_for)
{
    static const struct {
        const char *what;
        const char *warm;
    } rows[] = {
        {"each print keeps a buffer",
         "k = []; p = print; b.print = lambda *a, **n: (k.append(bytearray(b'x' * 300000)), "
         "p(*a, **n))[-1]"},
        {"each print keeps a larger heap",
         "k = []; p = print; b.print = lambda *a, **n: (k.extend(bytearray(b'x' * 20000) "
         "for _ in range(8)), p(*a, **n))[-1]"},
        {"each print maps a file",
         "f = open('/usr/bin/env', 'rb'); k = []; p = print; b.print = lambda *a, **n: "
         "(k.append(mmap.mmap(f.fileno(), 0, flags=2, prot=1)), k[-1][0], p(*a, **n))[-1]"},
        {"a file's memory was written, then closed to all",
         "import ctypes; f = open('/usr/bin/env', 'rb'); "
         "m = mmap.mmap(f.fileno(), 16384, flags=2, prot=3); m[0] = m[4096]; "
         "at = ctypes.addressof(ctypes.c_char.from_buffer(m)); "
         "ctypes.CDLL(None).mprotect(ctypes.c_void_p(at), 16384, 0); "
         "b.kept = (m, getattr(b, 'kept', None))"},
    };

    begin();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].what);
        check_boxes(rows[i].warm, "import sys; sys.stdout.write('ran')", "ran");
    }
    end();
}

/*
 * As the C library wants it for the state of its random generator. 18 is MADV_WIPEONFORK, 10
 * MADV_DONTFORK.
 */
TEST(memory_that_is_to_be_wiped_at_a_fork_is_empty_in_every_box)
{
    begin();
    check_boxes("m = mmap.mmap(-1, 4096, flags=0x22); m.madvise(18); m[:5] = b'state'; "
                "b.__dict__.setdefault('kept', m)",
                "print(kept[:5])", "b'\\x00\\x00\\x00\\x00\\x00'\n");
    end();
}

TEST(memory_that_no_fork_may_have_is_not_there_in_a_box)
{
    begin();
    check_boxes("m = mmap.mmap(-1, 4096, flags=0x22); m[:6] = b'secret'; m.madvise(10); "
                "b.__dict__.setdefault('kept', m)",
                "import os\n"
                "pid = os.fork()\n"
                "if pid == 0:\n"
                "    os._exit(kept[:6] == b'secret')\n"
                "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
                "-11\n");
    end();
}
