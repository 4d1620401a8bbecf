/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unix socket of the server, in a folder whose owner plays tricks.
 *
 * bind() is ours: right after the kernel's, it may put something else under the socket's name, as
 * a process of the daemon's account can at that moment.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "supervisor/listeners.h"
#include "tap.h"

#define ACCOUNT 65534

static char folder[] = "/tmp/husk-listen-XXXXXX";
static char path[64];   /* of the socket */
static char victim[64]; /* root's */
static int (*put_in_place)(void);

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
    int r = (int)syscall(SYS_bind, fd, address.__sockaddr__, len);

    return r == 0 && put_in_place != NULL ? put_in_place() : r;
}

static void make_folder(void)
{
    CHECK(mkdtemp(folder) != NULL);
    CHECK_INT(str_format(path, sizeof(path), "%s/husk.sock", folder), 0);
    CHECK_INT(str_format(victim, sizeof(victim), "%s/victim", folder), 0);
}

static void remove_folder(void)
{
    (void)unlink(path);
    (void)unlink(victim);
    CHECK_INT(rmdir(folder), 0);
}

static int open_listeners(struct listeners *ret, struct err *e)
{
    struct config c = {.socket = path, .socket_mode = 0620};

    return listeners_open(&c, ACCOUNT, ACCOUNT, 0, ret, e);
}

TEST(the_socket_has_its_owner_and_mode)
{
    struct listeners l;
    struct err e = {0};
    struct stat st;

    make_folder();
    mode_t mask = umask(027);
    CHECK_INT(open_listeners(&l, &e), 0);
    CHECK_INT(umask(mask), 027);
    CHECK_INT(lstat(path, &st), 0);
    CHECK_INT(st.st_mode, S_IFSOCK | 0620);
    CHECK_INT(st.st_uid, geteuid() == 0 ? ACCOUNT : geteuid());
    listeners_close(&l, NULL);
    remove_folder();
}

static int put_link(void)
{
    return unlink(path) < 0 ? -1 : symlink(victim, path);
}

static int put_second_name(void)
{
    return unlink(path) < 0 ? -1 : link(victim, path);
}

static int put_nothing(void)
{
    return unlink(path);
}

TEST(what_is_put_in_the_place_of_the_socket_is_not_given_away)
{
    static const struct {
        const char *name;
        int (*put)(void);
        mode_t type; /* of the victim */
    } rows[] = {
        {"a link to a file", put_link, S_IFREG},
        {"a link to a socket", put_link, S_IFSOCK},
        {"a file", put_second_name, S_IFREG},
        {"a socket of another program", put_second_name, S_IFSOCK},
        {"nothing", put_nothing, S_IFREG},
    };
    struct listeners l;
    struct err e = {0};
    struct stat st;

    if (geteuid() != 0) {
        SKIP("only root gives files away");
    }
    make_folder();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CASE("%s", rows[i].name);
        CHECK_INT(mknod(victim, rows[i].type | 0600, 0), 0);
        put_in_place = rows[i].put;
        CHECK_INT(open_listeners(&l, &e), -1);
        CHECK_INT(lstat(victim, &st), 0);
        CHECK_INT(st.st_uid, 0);
        CHECK_INT(st.st_gid, 0);
        CHECK_INT(st.st_mode, rows[i].type | 0600);
        (void)unlink(path);
        CHECK_INT(unlink(victim), 0);
    }
    remove_folder();
}

TEST(a_listener_that_answers_nobody_is_in_the_way_and_holds_nobody)
{
    AUTO_CLOSE int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int clients[8];
    size_t n = 0;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct listeners l;
    struct err e = {0};

    make_folder();
    CHECK_INT(str_copy(address.sun_path, sizeof(address.sun_path), path), 0);
    CHECK_INT(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_INT(listen(listener, 0), 0);
    int r = 0;
    while (r == 0) { /* until its queue is full */
        CHECK(n < ARRAY_LEN(clients));
        clients[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        r = connect(clients[n++], (struct sockaddr *)&address, sizeof(address));
    }
    CHECK_INT(errno, EAGAIN);
    CHECK_INT(open_listeners(&l, &e), -1);
    CHECK_INT(e.code, ERR_EXISTS);
    CHECK(strstr(e.msg, "another server listens") != NULL);
    while (n > 0) {
        fd_close(&clients[--n]);
    }
    remove_folder();
}
