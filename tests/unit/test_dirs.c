/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/dirs.h. */
#include "base/dirs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

/* In an empty folder, which goes with what the test leaves there. */
static void enter(char path[64])
{
    snprintf(path, 64, "/tmp/husk-test-dirs-XXXXXX");
    CHECK(mkdtemp(path) != NULL);
    CHECK_INT(chdir(path), 0);
}

static unsigned mode_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? st.st_mode & 07777u : 0;
}

TEST(parents_are_made_and_the_path_itself_is_not)
{
    char base[64];
    char whole[128];

    enter(base);
    umask(022);
    CHECK_INT(dirs_make_parents("a/b/file", 0750), 0);
    CHECK_INT(mode_of("a"), 0750);
    CHECK_INT(mode_of("a/b"), 0750);
    CHECK_INT(access("a/b/file", F_OK), -1);
    snprintf(whole, sizeof(whole), "%s/a//c/file", base);
    CHECK_INT(dirs_make_parents(whole, 0700), 0); /* from the root, and with what is there */
    CHECK_INT(mode_of("a"), 0750);
    CHECK_INT(mode_of("a/c"), 0700);
    CHECK_INT(dirs_make_parents("file", 0700), 0);
    CHECK_INT(dirs_make_parents("", 0700), 0);
    CHECK_INT(dirs_make_parents("d/", 0700), 0);
    CHECK_INT(mode_of("d"), 0700);
    CHECK_INT(rmdir("a/b") + rmdir("a/c") + rmdir("a") + rmdir("d") + rmdir(base), 0);
}

TEST(what_is_in_the_way_is_said)
{
    char base[64];
    char too_long[PATH_MAX + 8];

    enter(base);
    CHECK_INT(dirs_make_parents("a/file", 0755), 0);
    CHECK_INT(symlink("nowhere", "a/b"), 0);
    CHECK_INT(dirs_make_parents("a/b/c/file", 0755), -ENOENT);
    memset(too_long, 'x', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    CHECK_INT(dirs_make_parents(too_long, 0755), -ENAMETOOLONG);
    CHECK_INT(unlink("a/b") + rmdir("a") + rmdir(base), 0);
}
