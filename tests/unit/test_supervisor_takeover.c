/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data folder itself: the owners of its parts, and how one that the daemon's account owned as a
 * whole is taken over, whatever that account has put there.
 */
#include <errno.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "place_fixture.h"

static void open_and_close(void)
{
    struct err e = {0};
    int fd = place_open(&config, &e);

    CHECK_STR(e.msg, "");
    CHECK(fd >= 0);
    fd_close(&fd);
}

static void check_refused(const char *why)
{
    struct err e = {0};

    CHECK_INT(place_open(&config, &e), -1);
    CASE("'%s' in '%s'", why, e.msg);
    CHECK(strstr(e.msg, why) != NULL);
}

static void make_dir(const char *name, uid_t owner, mode_t mode)
{
    char path[PATH_SIZE];

    in_folder(name, path);
    CHECK_INT(mkdir(path, 0700), 0);
    CHECK_INT(chmod(path, mode), 0);
    CHECK_INT(chown(path, owner, owner), 0);
}

/* As an older husk left it: everything is the account's but the log, which root made. */
static void make_old(void)
{
    static const char *const files[] = {"husk.db", "husk.db-wal", "lock", "agents.json",
                                        "settings"};
    static const char *const folders[] = {"spool", "templates", "workspaces", "script-1"};
    char path[PATH_SIZE];

    make_top();
    make_dir("", ACCOUNT, 0700);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        in_folder(files[i], path);
        put_text(path, files[i], ACCOUNT);
    }
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        make_dir(folders[i], ACCOUNT, 0700);
    }
    in_folder("workspaces/a.tar", path);
    put_text(path, "tar", ACCOUNT);
    in_folder("husk.log", path);
    put_text(path, "log", 0);
}

static void check_moved(void)
{
    static const char *const moved[] = {"husk.db", "husk.db-wal", "lock", "agents.json",
                                        "settings"};
    static const char *const gone[] = {"husk.db",     "husk.db-wal", "lock",     "husk.pid",
                                       "agents.json", "settings",    "spool",    "husk.log",
                                       "templates",   "workspaces",  "husk.sock"};
    char path[PATH_SIZE];
    char name[64];

    check_owner(folder, 0, 0711);
    for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
        in_folder(gone[i], path);
        CASE("%s", path);
        CHECK(!is_there(path));
    }
    for (size_t i = 0; i < ARRAY_LEN(moved); i++) {
        CHECK_INT(str_format(name, sizeof(name), "store/%s", moved[i]), 0);
        in_folder(name, path);
        check_text(path, moved[i]);
    }
    in_folder("store", path);
    check_owner(path, ACCOUNT, 0700);
    in_folder("store/workspaces/a.tar", path);
    check_text(path, "tar");
    in_folder("store/husk.log", path); /* kept, but not trusted */
    check_text(path, "log");
    in_folder("script-1", path); /* the data folder of another server */
    check_owner(path, ACCOUNT, 0700);
}

#define NEEDS_ROOT()                                                                               \
    do {                                                                                           \
        if (geteuid() != 0) {                                                                      \
            SKIP("needs root and another account");                                                \
        }                                                                                          \
    } while (0)

TEST(a_new_folder_is_ours_with_a_store_of_the_accounts)
{
    char path[PATH_SIZE];
    bool is_root = geteuid() == 0;

    make_top();
    for (int again = 0; again < 2; again++) {
        open_and_close();
        check_owner(folder, geteuid(), is_root ? 0711 : 0700);
        in_folder("store", path);
        check_owner(path, is_root ? ACCOUNT : geteuid(), 0700);
    }
    /* What the operator chose stays. */
    CHECK_INT(chmod(folder, 0750), 0);
    open_and_close();
    check_owner(folder, geteuid(), 0750);
    remove_top();
}

TEST(an_old_folder_is_taken_over_with_its_records)
{
    NEEDS_ROOT();
    make_old();
    open_and_close();
    check_moved();
    open_and_close();
    check_moved();
    remove_top();
}

TEST(a_takeover_that_was_cut_short_goes_on)
{
    char path[PATH_SIZE];

    NEEDS_ROOT();
    make_old();
    CHECK_INT(chown(folder, 0, 0), 0);
    CHECK_INT(chmod(folder, 01700), 0);
    make_dir("store", 0, 0700); /* made, but not given away yet */
    open_and_close();
    check_moved();

    /* All but a log was moved: the mark alone says that it is not to be trusted. */
    in_folder("husk.log", path);
    put_text(path, "from the account", 0);
    char kept[PATH_SIZE];
    in_folder("store/husk.log", kept);
    CHECK_INT(unlink(kept), 0);
    CHECK_INT(chmod(folder, 01700), 0);
    open_and_close();
    CHECK(!is_there(path));
    check_text(kept, "from the account");
    check_owner(folder, 0, 0711);
    remove_top();
}

TEST(what_the_account_planted_is_moved_and_never_followed)
{
    static const char *const names[] = {"husk.log",    "husk.pid",  "settings", "settings.new",
                                        "agents.json", "husk.sock", "husk.db",  "lock"};
    char path[PATH_SIZE];
    bool was_left;

    NEEDS_ROOT();
    for (size_t i = 0; i < ARRAY_LEN(names) * ARRAY_LEN(planted); i++) {
        const char *name = names[i / ARRAY_LEN(planted)];
        struct err e = {0};

        CASE("%s is %s", name, planted[i % ARRAY_LEN(planted)].name);
        (void)str_copy(top, sizeof(top), "/tmp/husk-place-XXXXXX");
        make_top();
        make_dir("", ACCOUNT, 0777);
        in_folder(name, path);
        planted[i % ARRAY_LEN(planted)].put(path);
        AUTO_CLOSE int place = place_open(&config, &e);
        CHECK(place >= 0);
        CHECK(!is_there(path));
        check_victim();
        AUTO_CLOSE int log = place_open_log(place, &config, &e);
        CHECK(log >= 0);
        int pid_file = place_take(place, &config, &was_left, &e);
        CHECK(pid_file >= 0);
        CHECK(!was_left);
        place_leave(place, pid_file);
        check_victim();
        remove_top();
    }
}

static void be_account_and_fail_to_write(int held)
{
    CHECK_INT(setgid(ACCOUNT), 0);
    CHECK_INT(setuid(ACCOUNT), 0);
    CHECK(openat(held, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0);
    CHECK(renameat(held, "store", held, "husk.pid") < 0);
    CHECK(unlinkat(held, "lost+found", AT_REMOVEDIR) < 0);
    CHECK(chmod(folder, 0777) < 0);
    _exit(0);
}

TEST(whoever_held_the_folder_can_write_no_more)
{
    /* An access list with an entry for user 65534: rwx, and the mask that it needs. */
    static const unsigned char list[] = {2,  0, 0, 0,                          /* version */
                                         1,  0, 7, 0, 0xff, 0xff, 0xff, 0xff,  /* owner */
                                         2,  0, 7, 0, 0xfe, 0xff, 0,    0,     /* 65534 */
                                         4,  0, 0, 0, 0xff, 0xff, 0xff, 0xff,  /* group */
                                         16, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,  /* mask */
                                         32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}; /* others */
    static const char *const names[] = {"system.posix_acl_access", "system.posix_acl_default"};

    NEEDS_ROOT();
    make_old();
    make_dir("lost+found", 0, 0700);
    AUTO_CLOSE int held = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) { /* not every file system has them */
        (void)setxattr(folder, names[i], list, sizeof(list), 0);
    }
    open_and_close();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char value[64];

        CHECK_INT(getxattr(folder, names[i], value, sizeof(value)), -1);
        CHECK(errno == ENODATA || errno == EOPNOTSUPP);
    }
    pid_t pid = fork();
    if (pid == 0) {
        be_account_and_fail_to_write(held);
    }
    int status = -1;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    remove_top();
}

TEST(a_store_that_the_account_planted_gives_it_nothing)
{
    char path[PATH_SIZE];
    char inside[PATH_SIZE];

    NEEDS_ROOT();
    /* A link or a file: removed, and a real one made. */
    for (size_t i = 0; i < ARRAY_LEN(planted); i++) {
        CASE("%s", planted[i].name);
        (void)str_copy(top, sizeof(top), "/tmp/husk-place-XXXXXX");
        make_top();
        make_dir("", ACCOUNT, 0700);
        in_folder("store", path);
        planted[i].put(path);
        open_and_close();
        check_owner(path, ACCOUNT, 0700);
        check_victim();
        remove_top();
    }
    /* A folder of root's that was renamed to it: not given away. */
    (void)str_copy(top, sizeof(top), "/tmp/husk-place-XXXXXX");
    make_top();
    make_dir("", ACCOUNT, 0700);
    make_dir("store", 0, 0700);
    in_folder("store", path);
    in_folder("store/secret", inside);
    put_text(inside, SECRET, 0);
    check_refused("store belongs to another account (id 0)");
    check_owner(path, 0, 0700);
    remove_top();
}

TEST(folders_that_are_not_ours_to_take_are_left_alone)
{
    char path[PATH_SIZE];

    NEEDS_ROOT();
    make_top();
    make_dir("", 12345, 0700);
    check_refused("belongs to another account (id 12345)");
    check_owner(folder, 12345, 0700);

    /* A home of the account's, or a folder of root's that others need. */
    for (uid_t owner = 0; owner <= ACCOUNT; owner += ACCOUNT) {
        CHECK_INT(chown(folder, owner, owner), 0);
        make_dir("something", 0, 0700);
        check_refused("is no data folder, it holds something");
        check_owner(folder, owner, 0700);
        in_folder("something", path);
        CHECK_INT(rmdir(path), 0);
    }
    remove_top();
}

TEST(a_link_of_another_account_is_not_followed)
{
    static const struct {
        const char *slash;
        uid_t owner; /* of the link */
        bool is_taken;
    } rows[] = {{"", ACCOUNT, false}, {"/", ACCOUNT, false}, {"", 0, true}, {"/", 0, true}};
    char own[PATH_SIZE];
    char link[PATH_SIZE];

    NEEDS_ROOT();
    make_top();
    CHECK_INT(str_format(own, sizeof(own), "%s/own", top), 0);
    CHECK_INT(str_format(link, sizeof(link), "%s/link", top), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};

        CASE("%u%s", (unsigned)rows[i].owner, rows[i].slash);
        CHECK(mkdir(own, 0755) == 0 || errno == EEXIST);
        CHECK_INT(symlink(own, link), 0);
        CHECK_INT(lchown(link, rows[i].owner, 0), 0);
        CHECK_INT(str_format(folder, sizeof(folder), "%s%s", link, rows[i].slash), 0);
        AUTO_CLOSE int fd = place_open(&config, &e);
        CHECK_INT(fd >= 0, rows[i].is_taken);
        CHECK_INT(unlink(link), 0);
    }
    remove_top();
}

TEST(who_can_be_written_to_by_others_is_not_looked_at)
{
    struct err e = {0};

    make_top();
    CHECK_INT(place_look(&config, &e), -1);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    CHECK_INT(mkdir(folder, 0700), 0);
    int fd = place_look(&config, &e);
    CHECK(fd >= 0);
    fd_close(&fd);
    CHECK_INT(chmod(folder, 0770), 0);
    CHECK_INT(place_look(&config, &e), -1);
    if (geteuid() == 0) {
        CHECK_INT(chmod(folder, 0700), 0);
        CHECK_INT(chown(folder, ACCOUNT, ACCOUNT), 0);
        CHECK_INT(place_look(&config, &e), -1);
    }
    remove_top();
}

TEST(an_ordinary_user_keeps_what_is_not_husks)
{
    static const char *const moved[] = {"husk.db", "lock", "husk.log"};
    static const char *const kept[] = {"notes", "something.json"};
    char path[PATH_SIZE];
    char name[64];

    if (geteuid() == 0) {
        CHECK_INT(setgid(ACCOUNT), 0);
        CHECK_INT(setuid(ACCOUNT), 0);
    }
    make_top();
    CHECK_INT(mkdir(folder, 0755), 0);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        in_folder(kept[i], path);
        put_text(path, kept[i], geteuid());
    }
    in_folder("templates", path); /* of their own: there is no database */
    CHECK_INT(mkdir(path, 0700), 0);
    open_and_close();
    CHECK(is_there(path));
    check_owner(folder, geteuid(), 0755);

    for (size_t i = 0; i < ARRAY_LEN(moved); i++) {
        in_folder(moved[i], path);
        put_text(path, moved[i], geteuid());
    }
    open_and_close();
    for (size_t i = 0; i < ARRAY_LEN(moved); i++) {
        in_folder(moved[i], path);
        CHECK(!is_there(path));
        CHECK_INT(str_format(name, sizeof(name), "store/%s", moved[i]), 0);
        in_folder(name, path);
        check_text(path, moved[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        in_folder(kept[i], path);
        check_text(path, kept[i]);
    }
    remove_top();
}
