/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: how many boxes are parked, which run gets them, and never a used or dead one. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "engine_fixture.h"
#include "proc_fixture.h"
#include "tap.h"

static void set_pool(struct husk_engine *engine, uint32_t min, uint32_t max)
{
    struct husk_error e;

    CHECK_OK(husk_pool_set(engine, "python", NULL, min, max, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", min, &e), &e);
}

static struct husk_pool_stats stats_of(struct husk_engine *engine)
{
    struct husk_pool_stats stats;
    struct husk_error e;

    CHECK_OK(husk_pool_stats(engine, "python", &stats, &e), &e);
    return stats;
}

static void wait_parked(struct husk_engine *engine, uint32_t parked)
{
    struct husk_error e;

    CHECK_OK(husk_pool_wait(engine, "python", parked, &e), &e);
}

TEST(as_many_boxes_are_parked_as_were_asked_for)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    static struct proc_list boxes;

    set_pool(engine, 3, 5);
    struct husk_pool_stats stats = stats_of(engine);
    CHECK_INT(stats.parked, 3);
    CHECK_INT(stats.starting, 0);
    CHECK_INT(stats.hits + stats.misses + stats.dead, 0);
    proc_children(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, 3);
}

TEST(a_smaller_pool_gives_boxes_back)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    static struct proc_list boxes;

    set_pool(engine, 4, 4);
    proc_children(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, 4);
    set_pool(engine, 1, 1);
    CHECK_INT(stats_of(engine).parked, 1);
    /* One of the four is kept; which one is the pool's business. */
    for (bool three_gone = false; !three_gone;) {
        size_t gone = 0;
        for (size_t i = 0; i < boxes.n; i++) {
            gone += !proc_is_alive(boxes.pids[i]);
        }
        CHECK(gone <= 3);
        three_gone = gone == 3;
    }
}

#define LARGE 40
#define WARM 24 /* of a large pool */

TEST(of_a_large_pool_only_some_boxes_are_warm)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    set_pool(engine, LARGE, LARGE);
    CHECK_INT(stats_of(engine).warm, WARM);
    AUTO_RESULT struct husk_result *r = fixture_cell(engine, "6 * 7");
    CHECK_STR(r->value, "42");
    wait_parked(engine, LARGE); /* a warm one was taken, so a warm one takes its place */
    struct husk_pool_stats stats = stats_of(engine);
    CHECK_INT(stats.parked, LARGE);
    CHECK_INT(stats.warm, WARM);
    CHECK_INT(stats.dead, 0);
}

TEST(a_box_that_is_not_warm_answers_as_well)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_result *results[LARGE];
    struct husk_error e;

    set_pool(engine, LARGE, LARGE);
    CHECK_OK(husk_pool_set(engine, "python", NULL, 0, LARGE, &e), &e); /* no refill */
    for (size_t i = 0; i < LARGE; i++) {
        CASE("run %zu", i);
        results[i] = fixture_cell(engine, "import random, os; (os.getpid(), random.random())");
        CHECK_INT(results[i]->status, HUSK_COMPLETED);
        CHECK(results[i]->receipt.warm);
        for (size_t k = 0; k < i; k++) {
            CHECK(!str_eq(results[i]->value, results[k]->value)); /* seeds of their own */
        }
    }
    struct husk_pool_stats stats = stats_of(engine);
    CHECK_INT(stats.hits, LARGE);
    CHECK_INT(stats.parked + stats.warm, 0);
    for (size_t i = 0; i < LARGE; i++) {
        husk_result_free(results[i]);
    }
}

/*
 * Its counters were closed while it waited: what it used, and what ended it, is known all the same.
 */
TEST(what_a_box_that_is_not_warm_has_used_is_known)
{
    static const struct {
        const char *code, *end;
    } rows[] = {
        {"x = bytearray(20 << 20)\nsum(range(1000000))", "completed exit 0"},
        {"while True: pass", "timeout timeout 124: timeout 300 ms"},
        {"x = []\nwhile True: x.append(bytearray(1 << 20))",
         "memory_exceeded oom 137: memory 64 MiB"},
        /* The kernel kills the helper only; the rest of the box has to be ended by us. */
        {"import os, time\nif os.fork() == 0:\n    x = []\n"
         "    while True: x.append(bytearray(1 << 20))\ntime.sleep(20)",
         "memory_exceeded oom 137: memory 64 MiB"},
    };
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_limits limits = {.memory_bytes = (uint64_t)64 << 20};
    struct husk_error e;

    CHECK_OK(husk_pool_set(engine, "python", &limits, LARGE, LARGE, &e), &e);
    wait_parked(engine, LARGE);
    CHECK_OK(husk_pool_set(engine, "python", &limits, 0, LARGE, &e), &e); /* no refill */
    struct husk_spec spec = fixture_spec("python", HUSK_SCRIPT, "pass");
    spec.limits = limits;
    for (size_t i = 0; i < WARM; i++) {
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK(r->receipt.warm);
    }
    CHECK_INT(stats_of(engine).warm, 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].code);
        spec = fixture_spec("python", HUSK_SCRIPT, rows[i].code);
        spec.limits = limits;
        spec.limits.timeout_ms = i == 1 ? 300 : 10000;
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK(r->receipt.warm);
        CHECK_END(r, rows[i].end);
        CHECK(r->metrics.cpu_time_ms > 1);
        CHECK(r->metrics.peak_memory_mb > (i == 1 ? 0.1 : 20) && r->metrics.peak_memory_mb <= 65);
    }
}

TEST(a_pool_that_has_been_smaller_keeps_its_zygote)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    set_pool(engine, 2, LARGE);
    pid_t zygote = proc_zygote(proc_launcher());
    set_pool(engine, 0, 0);
    set_pool(engine, 2, LARGE);
    CHECK_INT(proc_zygote(proc_launcher()), zygote);
}

TEST(a_run_takes_a_parked_box_and_another_one_takes_its_place)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    set_pool(engine, 2, 2);
    for (int i = 0; i < 6; i++) {
        CASE("run %d", i);
        wait_parked(engine, 2);
        AUTO_RESULT struct husk_result *r = fixture_cell(engine, "6 * 7");
        CHECK_STR(r->value, "42");
        CHECK(r->receipt.warm);
        struct husk_pool_stats stats = stats_of(engine);
        CHECK_INT(stats.hits, i + 1);
        CHECK_INT(stats.misses, 0);
        CHECK_INT(stats.parked + stats.starting, 2);
    }
    CHECK_INT(stats_of(engine).dead, 0);
}

TEST(a_run_that_finds_no_parked_box_counts_as_a_miss_and_gets_a_new_one)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec other = fixture_spec("python", HUSK_CELL, "1");
    AUTO_RESULT struct husk_result *fit = NULL;
    AUTO_RESULT struct husk_result *unfit = NULL;

    set_pool(engine, 1, 1);
    other.limits.memory_bytes = 64 * MIB; /* no parked box is that small */
    unfit = fixture_run(engine, &other);
    CHECK(!unfit->receipt.warm);
    CHECK_INT(unfit->receipt.limits.memory_bytes, 64 * MIB);
    CHECK_INT(stats_of(engine).misses, 1);
    CHECK_INT(stats_of(engine).hits, 0);
    fit = fixture_cell(engine, "1");
    CHECK(fit->receipt.warm);
    CHECK_INT(stats_of(engine).hits, 1);
}

TEST(timeout_and_output_bound_are_the_runs_not_the_boxs)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec slow = fixture_spec("python", HUSK_SCRIPT, "while True: pass");
    struct husk_spec loud = fixture_spec("python", HUSK_SCRIPT, "while True: print('x' * 1000)");
    AUTO_RESULT struct husk_result *r1 = NULL;
    AUTO_RESULT struct husk_result *r2 = NULL;

    set_pool(engine, 2, 2);
    slow.limits.timeout_ms = 300;
    r1 = fixture_run(engine, &slow);
    CHECK(r1->receipt.warm);
    CHECK_END(r1, "timeout timeout 124: timeout 300 ms");
    loud.limits.output_bytes = 50 * 1024;
    r2 = fixture_run(engine, &loud);
    CHECK(r2->receipt.warm);
    CHECK_END(r2, "failed output_limit 153: output 50 KiB");
}

TEST(a_run_without_pool_leaves_the_pool_alone)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_spec spec = fixture_spec("python", HUSK_CELL, "1");
    AUTO_RESULT struct husk_result *r = NULL;

    set_pool(engine, 1, 1);
    spec.no_pool = true;
    r = fixture_run(engine, &spec);
    CHECK(!r->receipt.warm);
    CHECK_INT(stats_of(engine).parked, 1);
    CHECK_INT(stats_of(engine).hits + stats_of(engine).misses, 0);
}

/* Files, modules, variables, processes, System V memory, terminals: a box is used once. */
TEST(nothing_of_one_run_is_seen_by_the_next)
{
    static const char leave[] =
        "import builtins, ctypes, json, os, subprocess, sys, threading\n"
        "open('/workspace/left', 'w').write('x')\nopen('/tmp/left', 'w').write('x')\n"
        "os.environ['LEFT'] = 'x'\nbuiltins.left = 1\njson.left = 1\nsys.path.append('/left')\n"
        "os.umask(0)\nos.chdir('/tmp')\nsys.setrecursionlimit(500)\n"
        "subprocess.Popen(['/usr/bin/sleep', '100'])\n"
        "threading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()\n"
        "ctypes.CDLL(None).shmget(0x1234, 4096, 0o1600)\nprint('left')\n";
    static const char look[] =
        "import builtins, ctypes, json, os, sys, threading\n"
        "print(os.listdir('/workspace'), os.listdir('/tmp'), 'LEFT' in os.environ,\n"
        "      hasattr(builtins, 'left'), hasattr(json, 'left'), '/left' in sys.path,\n"
        "      os.umask(0o77) == 0o77, os.getcwd(), sys.getrecursionlimit(),\n"
        "      len([p for p in os.listdir('/proc') if p.isdigit()]), threading.active_count(),\n"
        "      ctypes.CDLL(None).shmget(0x1234, 4096, 0))\n";
    static const char clean[] = "[] [] False False False False True /workspace 1000 1 1 -1\n";
    AUTO_ENGINE struct husk_engine *engine = fixture_open();

    set_pool(engine, 1, 1);
    for (int i = 0; i < 4; i++) {
        CASE("round %d", i);
        wait_parked(engine, 1);
        AUTO_RESULT struct husk_result *a = fixture_script(engine, leave);
        CHECK_END(a, "completed exit 0");
        wait_parked(engine, 1);
        AUTO_RESULT struct husk_result *b = fixture_script(engine, look);
        CHECK(a->receipt.warm && b->receipt.warm);
        CHECK_STR(b->out, clean);
    }
}

TEST(a_parked_box_that_was_killed_is_replaced_and_never_handed_out)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    static struct proc_list boxes;

    set_pool(engine, 3, 3);
    proc_children(proc_zygote(proc_launcher()), &boxes);
    CHECK_INT(boxes.n, 3);
    for (size_t i = 0; i < boxes.n; i++) {
        proc_kill(boxes.pids[i]);
    }
    /* A run that starts now gets a live one, even before the death is reported. */
    for (int i = 0; i < 4; i++) {
        CASE("run %d", i);
        AUTO_RESULT struct husk_result *r = fixture_cell(engine, "6 * 7");
        CHECK_END(r, "completed exit 0");
        CHECK_STR(r->value, "42");
    }
    wait_parked(engine, 3);
    CHECK_INT(stats_of(engine).dead, 3);
}

TEST(impossible_pools_are_refused)
{
    static const struct {
        const char *name;
        uint32_t min, max;
        const char *type;
    } rows[] = {
        {"python", 2, 1, "invalid_argument"},
        {"python", 0, 1001, "invalid_argument"},
        {"no-such", 1, 1, "not_found"},
    };
    const struct husk_limits bad = {.memory_bytes = 1};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_error e;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s %u to %u", rows[i].name, rows[i].min, rows[i].max);
        CHECK_INT(husk_pool_set(engine, rows[i].name, NULL, rows[i].min, rows[i].max, &e), -1);
        CHECK_STR(e.type, rows[i].type);
    }
    CHECK_INT(husk_pool_set(engine, "python", &bad, 1, 1, &e), -1);
    CHECK_STR(e.type, "invalid_argument");
}

TEST(boxes_of_other_languages_can_be_parked_too)
{
    static const struct {
        const char *template_name;
        const char *code;
    } rows[] = {{"shell", "echo ok"}, {"node", "console.log('ok')"}};
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_error e;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *name = rows[i].template_name;
        struct husk_spec spec = fixture_spec(name, HUSK_SCRIPT, rows[i].code);
        if (str_eq(name, "node") && access("/usr/bin/node", X_OK) < 0) {
            continue;
        }
        CASE("%s", name);
        CHECK_OK(husk_pool_set(engine, name, NULL, 1, 1, &e), &e);
        CHECK_OK(husk_pool_wait(engine, name, 1, &e), &e);
        AUTO_RESULT struct husk_result *r = fixture_run(engine, &spec);
        CHECK(r->receipt.warm);
        CHECK_STR(r->out, "ok\n");
    }
}

TEST(a_pool_can_grow_beyond_what_its_zygote_was_started_for)
{
    AUTO_ENGINE struct husk_engine *engine = fixture_open();
    struct husk_error e;

    CHECK_OK(husk_pool_set(engine, "python", NULL, 1, 1, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", 1, &e), &e);
    CHECK_OK(husk_pool_set(engine, "python", NULL, 80, 80, &e), &e);
    CHECK_OK(husk_pool_wait(engine, "python", 80, &e), &e);
}
