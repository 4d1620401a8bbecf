/* SPDX-License-Identifier: Apache-2.0 */
/* runner/fileagent_names.c: which file was packed under which path. */
#include <stdio.h>

#include "runner_fixture.h"

static struct stat file(ino_t inode, long changed)
{
    return (struct stat){.st_ino = inode, .st_nlink = 2, .st_ctim = {.tv_sec = changed}};
}

TEST(a_file_is_found_by_its_inode_and_the_time_of_its_last_change)
{
    struct agent_names t = {0};
    struct stat one = file(7, 100);
    struct stat changed = file(7, 101);
    struct stat other = file(8, 100);
    struct stat single = file(9, 100);

    CHECK(agent_names_find(&t, &one) == NULL);
    agent_names_add(&t, &one, "a/one");
    CHECK_STR(agent_names_find(&t, &one), "a/one");
    CHECK(agent_names_find(&t, &changed) == NULL);
    CHECK(agent_names_find(&t, &other) == NULL);

    single.st_nlink = 1; /* it cannot come again */
    agent_names_add(&t, &single, "single");
    CHECK_INT(t.n, 1);
    agent_names_release(&t);
    CHECK(t.slots == NULL && t.paths.data == NULL);
}

TEST(thousands_of_files_keep_their_paths)
{
    struct agent_names t = {0};
    char path[32];

    for (ino_t i = 1; i <= 5000; i++) {
        struct stat st = file(i * 4096, 1);
        snprintf(path, sizeof(path), "file-%ld", (long)i);
        agent_names_add(&t, &st, path);
    }
    CHECK_INT(t.n, 5000);
    for (ino_t i = 1; i <= 5000; i++) {
        struct stat st = file(i * 4096, 1);
        snprintf(path, sizeof(path), "file-%ld", (long)i);
        CHECK_STR(agent_names_find(&t, &st), path);
    }
    agent_names_release(&t);
}
