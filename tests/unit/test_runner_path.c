/* SPDX-License-Identifier: Apache-2.0 */
/* runner/fileagent_path.c: nothing outside of a directory is opened, made or changed. */
#include "runner_fixture.h"

TEST(what_leads_out_of_the_directory_is_not_opened)
{
    static const struct {
        const char *path;
        int plain; /* no link may be on the way */
        int follow;
    } rows[] = {
        {"in/file", 0, 0},
        {"", 0, 0},
        {"in", 0, 0},
        {"to_file", -ELOOP, 0},
        {"to_in/file", -ELOOP, 0},
        {"out", -ELOOP, -EXDEV},
        {"out/passwd", -ELOOP, -EXDEV},
        {"up/file", -ELOOP, -EXDEV},
        {"../file", -EXDEV, -EXDEV},
        {"in/../../file", -EXDEV, -EXDEV},
        {"/etc/passwd", -EXDEV, -EXDEV},
        {"none", -ENOENT, -ENOENT},
        {"in/file/x", -ENOTDIR, -ENOTDIR},
        {"loop", -ELOOP, -ELOOP},
    };

    enter_folder();
    CHECK_INT(mkdir("in", 0755), 0);
    put("in/file", "x", 0644);
    CHECK_INT(symlink("in/file", "to_file") + symlink("in", "to_in") + symlink("/etc", "out") +
                  symlink("..", "up") + symlink("loop", "loop"),
              0);
    AUTO_CLOSE int root = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (int follow = 0; follow < 2; follow++) {
            CASE("%s, follow %d", rows[i].path, follow);
            AUTO_CLOSE int fd = agent_open(root, rows[i].path, O_RDONLY, follow == 1);
            CHECK_INT(fd < 0 ? fd : 0, follow == 1 ? rows[i].follow : rows[i].plain);
            CHECK(fd < 0 || fcntl(fd, F_GETFD) == FD_CLOEXEC);
        }
    }
    remove_folder();
}

TEST(missing_directories_are_made_and_links_are_not_entered)
{
    bool made = false;
    const char *name;

    enter_folder();
    AUTO_CLOSE int root = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = agent_make_dirs(root, "a/b/c", 0700, &made);
    CHECK(fd >= 0 && made);
    fd_close(&fd);
    CHECK_INT(mode_of("a"), 0755);
    CHECK_INT(mode_of("a/b/c"), 0700);
    fd = agent_make_dirs(root, "a/b", 0700, &made);
    CHECK(fd >= 0 && !made);
    fd_close(&fd);
    CHECK_INT(mode_of("a/b"), 0755);

    put("file", "x", 0644);
    CHECK_INT(symlink("a", "link"), 0);
    CHECK_INT(agent_make_dirs(root, "file/d", 0755, &made), -ENOTDIR);
    CHECK_INT(agent_make_dirs(root, "link/d", 0755, &made), -ENOTDIR);
    CHECK(!exists("a/d"));

    fd = agent_open_parent(root, "x/y/name", true, &name);
    CHECK(fd >= 0);
    fd_close(&fd);
    CHECK_STR(name, "name");
    CHECK(exists("x/y") && !exists("x/y/name"));
    CHECK_INT(agent_open_parent(root, "z/name", false, &name), -ENOENT);
    fd = agent_open_parent(root, "top", false, &name);
    CHECK(fd >= 0);
    fd_close(&fd);
    CHECK_STR(name, "top");
    remove_folder();
}

TEST(a_closed_entry_is_opened_and_closed_again)
{
    mode_t was = 0;

    enter_folder();
    AUTO_CLOSE int root = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(mkdir("closed", 0020), 0);
    int fd = agent_open_forced(root, "closed", O_RDONLY | O_DIRECTORY, AGENT_ENTER, &was);
    CHECK(fd >= 0);
    CHECK_INT(was, 0020);
    CHECK_INT(mode_of("closed"), 0520);
    agent_close_again(fd, was, AGENT_ENTER);
    CHECK_INT(mode_of("closed"), 0020);
    fd_close(&fd);

    /* Its owner has changed the mode meanwhile: that stays. */
    fd = agent_open_forced(root, "closed", O_RDONLY | O_DIRECTORY, AGENT_ENTER, &was);
    CHECK_INT(chmod("closed", 0711), 0);
    agent_close_again(fd, was, AGENT_ENTER);
    CHECK_INT(mode_of("closed"), 0711);
    fd_close(&fd);

    CHECK_INT(symlink("closed", "link") + mkfifo("pipe", 0600), 0);
    CHECK_INT(agent_open_forced(root, "link", O_RDONLY, AGENT_ENTER, &was), -ELOOP);
    CHECK_INT(agent_open_forced(root, "pipe", O_RDONLY | O_NONBLOCK, 0400, &was), -ELOOP);
    remove_folder();
}

TEST(a_target_is_that_of_a_link_only)
{
    char target[FILES_PATH_MAX + 1];
    struct stat st;

    enter_folder();
    put("file", "x", 0644);
    CHECK_INT(symlink("/where/ever", "link"), 0);
    CHECK_INT(lstat("link", &st), 0);
    agent_target(AT_FDCWD, "link", &st, target);
    CHECK_STR(target, "/where/ever");
    agent_target(AT_FDCWD, "file", &st, target); /* it was a link when it was looked at */
    CHECK_STR(target, "");
    CHECK_INT(lstat("file", &st), 0);
    agent_target(AT_FDCWD, "link", &st, target);
    CHECK_STR(target, "");
    remove_folder();
}

TEST(a_file_gets_its_name_when_it_is_complete)
{
    const int64_t mtime = 1000000000;
    struct agent_file f;
    struct stat st;

    enter_folder();
    put("name", "old", 0600);
    CHECK_INT(agent_file_begin(&f, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)), 0);
    CHECK_INT(fd_write_all(f.fd, "new", 3), 0);
    check_content("name", "old");
    CHECK(exists(f.temp) && mode_of(f.temp) == 0600);
    CHECK_INT(agent_file_finish(&f, "name", 06755, &mtime), 0);
    check_content("name", "new");
    CHECK(!exists(f.temp));
    CHECK_INT(mode_of("name"), 0755); /* never a set-id bit */
    CHECK_INT(stat("name", &st), 0);
    CHECK_INT(st.st_mtim.tv_sec, mtime);

    CHECK_INT(agent_file_begin(&f, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)), 0);
    agent_file_drop(&f);
    CHECK(!exists(f.temp));

    /* A directory is not replaced, and the unfinished file goes. */
    CHECK_INT(mkdir("taken", 0755), 0);
    CHECK_INT(agent_file_begin(&f, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)), 0);
    CHECK_INT(agent_file_finish(&f, "taken", 0644, NULL), -EISDIR);
    CHECK(!exists(f.temp));
    remove_folder();
}
