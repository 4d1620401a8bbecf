/* SPDX-License-Identifier: Apache-2.0 */
/* Which boxes of a pool are warmed up: all, unless they are taken faster than they can be made. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

#define BOXES 6
#define WARMED_IN_A_HURRY 2 /* the first that are made again */

static char dir[] = "/var/lib/husk-hurry-XXXXXX";
static char path[PATH_MAX];

/* The warm-up counts how often it has run, and takes so long that all boxes are begun meanwhile. */
static struct husk_engine *begin(void)
{
    struct husk_engine *engine = NULL;
    struct husk_error e;

    fixture_template_dir(dir);
    CHECK_INT(str_format(path, sizeof(path), "%s/mine.template", dir), 0);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    CHECK(fputs("language = python\nwarm = import sys, time; time.sleep(1); "
                "sys.warmed = getattr(sys, 'warmed', 0) + 1\n",
                file) >= 0);
    CHECK_INT(fclose(file), 0);
    CHECK_OK(husk_open(NULL, &engine, &e), &e);
    return engine;
}

static void fill(struct husk_engine *engine)
{
    struct husk_error e;

    CHECK_OK(husk_pool_set(engine, "mine", NULL, BOXES, BOXES, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "mine", BOXES, &e), &e);
}

/* Of all that are parked. The warm-up has run once in the zygote, and once more in a warm box. */
static size_t count_warmed(struct husk_engine *engine)
{
    struct husk_spec spec = fixture_spec("mine", HUSK_SCRIPT, "import sys; print(sys.warmed)");
    struct husk_error e;
    size_t n = 0;

    CHECK_OK(husk_pool_set(engine, "mine", NULL, 0, BOXES, &e), &e); /* no refill */
    for (size_t i = 0; i < BOXES; i++) {
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK(r->receipt.warm);
        CHECK_END(r, "completed exit 0");
        n += str_eq(r->out, "2\n");
    }
    return n;
}

TEST(boxes_that_are_taken_faster_than_made_are_not_warmed_up)
{
    AUTO_ENGINE struct husk_engine *engine = begin();
    struct husk_spec spec = fixture_spec("mine", HUSK_SCRIPT, "pass");
    static struct proc_list boxes;

    fill(engine);
    CHECK_INT(count_warmed(engine), BOXES);
    fill(engine); /* larger than before: no run waits for these */
    proc_children(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, BOXES);
    for (size_t i = 0; i < boxes.n; i++) {
        proc_kill(boxes.pids[i]);
    }
    AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec); /* all are missing at once */
    CHECK_END(r, "completed exit 0");
    fill(engine);
    CHECK_INT(count_warmed(engine), WARMED_IN_A_HURRY);
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(dir), 0);
}
