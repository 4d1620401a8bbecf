/* SPDX-License-Identifier: Apache-2.0 */
/* Output on disk (service/spool.c): what a successor of this process finds. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "service/service_impl.h"
#include "store_fixture.h"
#include "tap.h"

struct spool_world {
    char dir[FIXTURE_PATH];
    struct config config;
    struct service svc;
    struct session session;
    struct execution x;
};

static void world_open(struct spool_world *w)
{
    char store[CONFIG_STORE_PATH_MAX];
    struct err e = {0};

    *w = (struct spool_world){
        .config = {.session_quota_bytes = 1 << 20, .data_quota_bytes = 1 << 20}};
    fixture_dir(w->dir);
    w->config.data = w->dir;
    CHECK_INT(config_store_path(&w->config, store, &e), 0);
    CHECK_INT(mkdir(store, 0700), 0);
    CHECK_INT(data_make_folders(&w->config, &e), 0);
    w->svc.config = &w->config;
    w->session = (struct session){.svc = &w->svc, .id = "sess_1"};
    w->x = (struct execution){.svc = &w->svc,
                              .session = &w->session,
                              .id = "exec_1",
                              .row = ROW_STORED,
                              .out = BUF_INIT(1000),
                              .err = BUF_INIT(1000)};
}

static void world_close(struct spool_world *w)
{
    char path[DATA_PATH_SIZE];
    struct err e = {0};

    spool_remove(&w->x);
    buf_release(&w->x.out);
    buf_release(&w->x.err);
    for (enum data_folder f = DATA_SPOOL; f <= DATA_WORKSPACES; f++) {
        data_folder_path(&w->config, f, path);
        CHECK_INT(rmdir(path), 0);
    }
    CHECK_INT(config_store_path(&w->config, path, &e), 0);
    CHECK_INT(rmdir(path), 0);
    fixture_remove(w->dir);
}

static bool has_file(const struct spool_world *w, const char *suffix)
{
    char path[DATA_PATH_SIZE];

    data_file_path(&w->config, DATA_SPOOL, "exec_1", suffix, path);
    return access(path, F_OK) == 0;
}

/* Through a pipe, as the output of a box comes. */
static ssize_t take(struct spool_world *w, enum husk_stream stream, const char *text)
{
    struct buf *to = stream == HUSK_STDOUT ? &w->x.out : &w->x.err;
    char got[64];
    int p[2];

    CHECK_INT(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
    CHECK_INT(fd_write_all(p[1], text, strlen(text)), 0);
    ssize_t n = spool_take(&w->x, stream, p[0], got, sizeof(got));
    CHECK_INT(n, strlen(text));
    CHECK_INT(memcmp(got, text, strlen(text)), 0);
    CHECK_INT(buf_add(to, got, (size_t)n), 0);
    fd_close(&p[0]);
    fd_close(&p[1]);
    return n;
}

TEST(a_successor_finds_output_and_displays)
{
    AUTO_BUF struct buf out = BUF_INIT(1000);
    AUTO_BUF struct buf err = BUF_INIT(1000);
    AUTO_BUF struct buf displays = BUF_INIT(1000);
    struct spool_world w;
    uint32_t len = 0;

    world_open(&w);
    (void)take(&w, HUSK_STDOUT, "one ");
    (void)take(&w, HUSK_STDERR, "wrong");
    CHECK_INT(buf_add_str(&w.x.out, "two"), 0); /* read, not spliced */
    spool_output(&w.x);
    spool_add_display(&w.x, "frame", 5);
    spool_read(&w.svc, "exec_1", &out, &err, &displays);
    CHECK_INT(out.len, 7);
    CHECK_INT(memcmp(out.data, "one two", 7), 0);
    CHECK_INT(err.len, 5);
    CHECK_INT(displays.len, sizeof(len) + 5);
    memcpy(&len, displays.data, sizeof(len));
    CHECK_INT(len, 5);
    world_close(&w);
}

TEST(nothing_is_spooled_of_an_execution_without_a_row)
{
    struct spool_world w;

    world_open(&w);
    w.x.row = ROW_NEVER;
    (void)take(&w, HUSK_STDOUT, "text");
    spool_output(&w.x);
    spool_add_display(&w.x, "frame", 5);
    CHECK(!has_file(&w, ".out") && !has_file(&w, ".rich"));
    w.x.row = ROW_STORED;
    spool_output(&w.x); /* recorded after all: what there is follows */
    CHECK(has_file(&w, ".out"));
    world_close(&w);
    CHECK(!has_file(&w, ".out"));
}

TEST(files_of_executions_that_are_over_are_swept)
{
    struct spool_world w;

    world_open(&w);
    (void)take(&w, HUSK_STDOUT, "text");
    table_add_execution(&w.svc, &w.x);
    spool_sweep(&w.svc);
    CHECK(has_file(&w, ".out"));
    table_remove_execution(&w.svc, &w.x);
    spool_sweep(&w.svc);
    CHECK(!has_file(&w, ".out"));
    world_close(&w);
}

TEST(a_spool_that_cannot_be_written_catches_up_later)
{
    char folder[DATA_PATH_SIZE];
    struct spool_world w;

    world_open(&w);
    data_folder_path(&w.config, DATA_SPOOL, folder);
    CHECK_INT(rmdir(folder), 0); /* root may write anywhere, but not into nothing */
    (void)take(&w, HUSK_STDOUT, "text");
    spool_output(&w.x);
    CHECK(w.x.spool_failed);
    CHECK_INT(mkdir(folder, 0700), 0);
    table_add_execution(&w.svc, &w.x);
    spool_retry(&w.svc);
    table_remove_execution(&w.svc, &w.x);
    CHECK(!w.x.spool_failed);
    CHECK(has_file(&w, ".out"));
    world_close(&w);
}
