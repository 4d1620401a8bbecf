/* SPDX-License-Identifier: Apache-2.0 */
/* runner/fileagent_walk.c: listing and deleting trees, whatever is in them. */
#include <stdio.h>

#include "runner_fixture.h"

#define SEEN_MAX 32

static char seen[SEEN_MAX][64];
static size_t n_seen;

static int note(struct agent_walk *w, int dir, const char *name, const struct stat *st)
{
    struct stat again;

    CHECK(n_seen < SEEN_MAX);
    CHECK_INT(fstatat(dir, name, &again, AT_SYMLINK_NOFOLLOW), 0);
    CHECK_INT(again.st_ino, st->st_ino);
    CHECK_INT(str_copy(seen[n_seen++], sizeof(seen[0]), w->path), 0);
    return 0;
}

static bool was_seen(const char *path)
{
    for (size_t i = 0; i < n_seen; i++) {
        if (str_eq(seen[i], path)) {
            return true;
        }
    }
    return false;
}

static int walk(struct agent_walk *w)
{
    n_seen = 0;
    w->agent = &agent;
    w->visit = note;
    return agent_walk(w, open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static void plant_tree(void)
{
    CHECK_INT(mkdir("a", 0755) + mkdir("a/b", 0755) + mkdir("empty", 0755), 0);
    put("a/b/file", "x", 0644);
    put("top", "x", 0644);
    CHECK_INT(symlink("a", "link") + symlink("/etc", "out"), 0);
}

TEST(a_walk_visits_each_entry_once_and_enters_no_link)
{
    static const char *const all[] = {"a", "a/b", "a/b/file", "empty", "top", "link", "out"};
    struct agent_walk w = {.recursive = true, .left = 100};

    open_agent();
    plant_tree();
    CHECK_INT(walk(&w), 0);
    CHECK(!w.more);
    CHECK_INT(n_seen, ARRAY_LEN(all));
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        CASE("%s", all[i]);
        CHECK(was_seen(all[i]));
    }
    w = (struct agent_walk){.left = 100};
    CHECK_INT(walk(&w), 0);
    CHECK_INT(n_seen, 5);
    CHECK(was_seen("a") && !was_seen("a/b"));
    close_agent();
}

TEST(a_walk_stops_at_its_limits_and_reports_it)
{
    struct agent_walk w = {.recursive = true, .left = 3};

    open_agent();
    plant_tree();
    CHECK_INT(walk(&w), 0);
    CHECK(w.more);
    CHECK_INT(n_seen, 3);
    w = (struct agent_walk){.recursive = true, .strict = true, .left = 3};
    CHECK_INT(walk(&w), -E2BIG);
    close_agent();
}

TEST(an_error_of_a_visit_ends_the_walk)
{
    struct agent_walk w = {.recursive = true};

    open_agent();
    CHECK_INT(agent_walk_gap(&w, -EACCES), 0);
    CHECK(w.more);
    w = (struct agent_walk){.strict = true};
    CHECK_INT(agent_walk_gap(&w, -EACCES), -EACCES);
    CHECK(!w.more);
    w = (struct agent_walk){.forced = true}; /* a copy waits for better times */
    CHECK_INT(agent_walk_gap(&w, -EMFILE), -EMFILE);
    CHECK_INT(agent_walk_gap(&w, -EACCES), 0);
    close_agent();
}

/* Names of all entries that LIST answers with, in its order. */
static void take_entries(const struct buf *body)
{
    struct files_entry entry;
    const char *name;

    for (size_t at = 0; files_msg_get_entry(body->data, body->len, &at, &entry, &name) > 0;) {
        CHECK(n_seen < SEEN_MAX);
        snprintf(seen[n_seen++], sizeof(seen[0]), "%u %o %.*s %.*s", entry.info.kind,
                 entry.info.mode, (int)entry.name_len, name, (int)entry.target_len,
                 name + entry.name_len);
    }
}

TEST(a_listing_has_kinds_modes_and_targets)
{
    AUTO_BUF struct buf body = BUF_INIT(FILES_BODY_MAX);
    char line[64];

    open_agent();
    CHECK_INT(mkdir("dir", 0750), 0);
    put("dir/file", "x", 0604);
    CHECK_INT(symlink("dir", "link") + mkfifo("pipe", 0600), 0);
    request("", FILES_RECURSIVE, 100);
    CHECK_INT(agent_list(&agent), 0);
    CHECK_INT(agent.done.count, 4);
    CHECK_INT(agent.done.more, 0);
    CHECK_INT(take_message(&body), FILES_ENTRIES);
    n_seen = 0;
    take_entries(&body);
    CHECK_INT(n_seen, 4);
    snprintf(line, sizeof(line), "%u 750 dir ", FILES_DIRECTORY);
    CHECK(was_seen(line));
    snprintf(line, sizeof(line), "%u 604 dir/file ", FILES_FILE);
    CHECK(was_seen(line));
    snprintf(line, sizeof(line), "%u 777 link dir", FILES_LINK);
    CHECK(was_seen(line));
    snprintf(line, sizeof(line), "%u 600 pipe ", FILES_OTHER);
    CHECK(was_seen(line));

    request("", FILES_RECURSIVE, 2);
    CHECK_INT(agent_list(&agent), 0);
    CHECK_INT(agent.done.count, 2);
    CHECK_INT(agent.done.more, 1);
    request("none", 0, 100);
    CHECK_INT(agent_list(&agent), -ENOENT);
    request("dir/file", 0, 100);
    CHECK_INT(agent_list(&agent), -ENOTDIR);
    request("link", 0, 100);
    CHECK_INT(agent_list(&agent), -ENOTDIR);
    close_agent();
}

/* More levels than a deletion holds open at a time, with a file at each. */
static void plant_deep_tree(int levels)
{
    CHECK_INT(mkdir("deep", 0755), 0);
    CHECK_INT(chdir("deep"), 0);
    for (int i = 0; i < levels; i++) {
        put("file", "x", 0644);
        CHECK_INT(mkdir("d", 0755), 0);
        CHECK_INT(chdir("d"), 0);
    }
    CHECK_INT(chdir(folder), 0);
}

TEST(a_deletion_removes_trees_of_any_depth_and_nothing_behind_links)
{
    open_agent();
    plant_tree();
    plant_deep_tree(100);
    CHECK_INT(symlink("../a", "deep/link"), 0);
    request("deep", 0, 0);
    CHECK_INT(agent_delete(&agent), -ENOTEMPTY);
    request("deep", FILES_RECURSIVE, 0);
    CHECK_INT(agent_delete(&agent), 0);
    CHECK(!exists("deep"));
    check_content("a/b/file", "x");

    request("link", FILES_RECURSIVE, 0);
    CHECK_INT(agent_delete(&agent), 0);
    CHECK(!exists("link") && exists("a/b/file"));
    request("empty", 0, 0);
    CHECK_INT(agent_delete(&agent), 0);
    CHECK(!exists("empty"));
    request("top", 0, 0);
    CHECK_INT(agent_delete(&agent), 0);
    CHECK(!exists("top"));
    request("top", FILES_RECURSIVE, 0);
    CHECK_INT(agent_delete(&agent), -ENOENT);
    close_agent();
}
