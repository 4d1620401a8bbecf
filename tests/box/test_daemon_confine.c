/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a confined daemon can still do. It writes in its own part of the data folder: the
 * supervisor's files beside it are out of reach, even for root and even when both are the same
 * user. It reads what its account may read, and connects to sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/landlock.h"
#include "daemon/confine.h"
#include "tap.h"

static char data[] = "/tmp/husk-confine-XXXXXX";

static void put(const char *name)
{
    AUTO_CLOSE int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    CHECK_INT(fd_write_all(fd, "mine", 4), 0);
}

static void attack(void)
{
    struct err e = {0};

    CHECK_INT(confine_self("store", &e), 0);
    CHECK(open("husk.log", O_WRONLY | O_APPEND | O_CLOEXEC) < 0);
    CHECK(open("settings", O_RDWR | O_CLOEXEC) < 0);
    CHECK(open("agents.json", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0);
    CHECK(mkdir("folder", 0700) < 0);
    CHECK(symlink("store", "link") < 0);
    CHECK(link("husk.log", "store/log") < 0);
    CHECK(rename("husk.log", "husk.old") < 0);
    CHECK(rename("husk.pid", "store/husk.pid") < 0);
    CHECK(rename("store/husk.db", "husk.log") < 0);
    CHECK(unlink("husk.pid") < 0);
    CHECK(rmdir("store") < 0);
    if (landlock_abi() >= 3) { /* Linux 6.2 */
        CHECK(truncate("husk.log", 0) < 0);
    }
    int fd = open("store/husk.db", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, "x", 1), 1);
    CHECK_INT(ftruncate(fd, 0), 0);
    CHECK(open("store/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0);
    CHECK_INT(rename("store/new", "store/newer"), 0);
    _exit(0);
}

/* A new data folder, which is now the working directory. */
static void enter_data(void)
{
    if (landlock_abi() == 0) {
        SKIP("this kernel has no Landlock");
    }
    CHECK(mkdtemp(data) != NULL);
    CHECK_INT(chdir(data), 0);
    CHECK_INT(mkdir("store", 0700), 0);
}

TEST(a_confined_daemon_writes_in_its_store_only)
{
    static const char *const files[] = {"husk.log", "husk.pid", "settings"};
    int status = -1;

    enter_data();
    put("store/husk.db");
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        put(files[i]);
    }
    pid_t pid = fork();
    if (pid == 0) {
        attack();
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char text[16];

        CASE("%s", files[i]);
        CHECK_INT(fd_read_file(AT_FDCWD, files[i], text, sizeof(text)), 4);
        CHECK_INT(unlink(files[i]), 0);
    }
    CHECK_INT(unlink("store/husk.db"), 0);
    CHECK_INT(unlink("store/newer"), 0);
    CHECK_INT(rmdir("store"), 0);
    CHECK_INT(rmdir(data), 0);
}

static struct sockaddr_in tcp = {.sin_family = AF_INET};
static struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "socket"};

static int listen_at(struct sockaddr *addr, socklen_t size)
{
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_INT(bind(fd, addr, size), 0);
    CHECK_INT(listen(fd, 1), 0);
    CHECK_INT(getsockname(fd, addr, &size), 0);
    return fd;
}

static void connect_to(const void *addr, sa_family_t family, socklen_t size)
{
    AUTO_CLOSE int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_INT(connect(fd, addr, size), 0);
}

/* docs/security-model.md lists the same under "it can": keep both alike. */
static void use_what_is_left(void)
{
    struct rlimit size;
    struct err e = {0};
    char byte;

    CHECK_INT(confine_self("store", &e), 0);
    AUTO_CLOSE int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    CHECK_INT(read(fd, &byte, 1), 1);
    connect_to(&tcp, AF_INET, sizeof(tcp));
    connect_to(&un, AF_UNIX, sizeof(un));
    CHECK_INT(getrlimit(RLIMIT_FSIZE, &size), 0);
    CHECK(size.rlim_cur == RLIM_INFINITY);
    _exit(0);
}

TEST(a_confined_daemon_reads_connects_and_fills_its_disk)
{
    int status = -1;

    enter_data();
    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    AUTO_CLOSE int by_tcp = listen_at((struct sockaddr *)&tcp, sizeof(tcp));
    AUTO_CLOSE int by_path = listen_at((struct sockaddr *)&un, sizeof(un));
    CHECK(by_tcp >= 0 && by_path >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        use_what_is_left();
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
    CHECK_INT(unlink("socket"), 0);
    CHECK_INT(rmdir("store"), 0);
    CHECK_INT(rmdir(data), 0);
}
