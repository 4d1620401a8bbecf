/* SPDX-License-Identifier: Apache-2.0 */
/* A confined stand-in for huskd; see confined_fixture.h. */
#include "confined_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/landlock.h"
#include "config/agents_plan.h"
#include "daemon/confine.h"
#include "tap.h"

#define ANSWER (CONFINED_PLAN + 1) /* where the result goes */
#define TEXT "of root"

static const struct {
    const char *path;
    mode_t mode;
} files[] = {
    {"data/husk.log", 0640},
    {"data/husk.pid", 0600},
    {"data/settings", 0600},
    {"open/shared", 0666},
};

struct confined confined;
static char top[] = "/tmp/husk-confined-XXXXXX";

long confined_result(long result)
{
    return result < 0 ? -errno : result;
}

/* ---- the scratch folder ---- */

static void put(const char *path, mode_t mode)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

    CHECK_INT(fd_write_all(fd, TEXT, strlen(TEXT)), 0);
    CHECK_INT(fchmod(fd, mode), 0); /* whatever the umask */
}

static void make_folder(const char *path, mode_t mode)
{
    CHECK_INT(mkdir(path, mode), 0);
    CHECK_INT(chmod(path, mode), 0);
}

static void copy_set_uid(const char *from, const char *to)
{
    AUTO_CLOSE int in = open(from, O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);

    while (sendfile(out, in, NULL, 1 << 20) > 0) {
    }
    CHECK_INT(fchmod(out, 04755), 0);
}

static void make_top(void)
{
    CHECK(mkdtemp(top) != NULL);
    CHECK_INT(chmod(top, 0755), 0);
    CHECK_INT(chdir(top), 0);
    make_folder("data", 0711);
    make_folder("data/store", 0700);
    make_folder("open", 0777);
    make_folder("lib", 0755);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        put(files[i].path, files[i].mode);
    }
    copy_set_uid("/usr/bin/id", "id");
    put("data/store/own", 0600);
    CHECK_INT(chown("data/store/own", confined.uid, confined.gid), 0);
    CHECK_INT(chown("data/store", confined.uid, confined.gid), 0);
}

static size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;

    CHECK(dir != NULL);
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n - 2; /* "." and ".." */
}

/* Content, owner, mode and number of names are as they were, and there is nothing new. */
static void check_untouched(void)
{
    char text[32];
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CASE("%s afterwards", files[i].path);
        CHECK_INT(fd_read_file(AT_FDCWD, files[i].path, text, sizeof(text)), strlen(TEXT));
        CHECK_STR(text, TEXT);
        CHECK_INT(lstat(files[i].path, &st), 0);
        CHECK_INT(st.st_mode, S_IFREG | files[i].mode);
        CHECK_INT(st.st_uid, 0);
        CHECK_INT(st.st_nlink, 1);
    }
    CASE("%s", "names afterwards");
    CHECK_INT(count_entries("."), 4);
    CHECK_INT(count_entries("data"), 4);
    CHECK_INT(count_entries("open"), 1);
    CHECK_INT(count_entries("lib"), 0);
    CASE("%s", "");
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_top(void)
{
    CHECK_INT(chdir("/"), 0);
    CHECK_INT(nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* ---- processes ---- */

/* As supervisor/child.c does it. */
static void become_account(void)
{
    CHECK_INT(setgroups(0, NULL), 0);
    CHECK_INT(setgid(confined.gid), 0);
    CHECK_INT(setuid(confined.uid), 0);
    CHECK_INT(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), 0);
}

static pid_t start_stranger(void)
{
    int ready[2];
    char byte;

    CHECK_INT(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        become_account();
        CHECK_INT(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
        CHECK_INT(write(ready[1], "", 1), 1);
        for (;;) {
            pause();
        }
    }
    close(ready[1]);
    CHECK_INT(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* Numbers as in supervisor/child.c; every other descriptor is closed. */
static void place_descriptors(int output, int socket, int answer)
{
    struct err e = {0};
    int kept[] = {open("/dev/null", O_RDWR | O_CLOEXEC),
                  output,
                  output,
                  socket,
                  open("lib", O_PATH | O_DIRECTORY | O_CLOEXEC),
                  agents_plan_seal(NULL, &e),
                  answer};

    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        kept[i] = fcntl(kept[i], F_DUPFD_CLOEXEC, ANSWER + 1);
        CHECK(kept[i] >= 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        CHECK_INT(dup2(kept[i], (int)i), i);
    }
    CHECK_INT(close_range(ANSWER + 1, ~0U, 0), 0);
}

static NORETURN void be_daemon(int output, int socket, int answer, long (*attempt)(void))
{
    struct err e = {0};

    place_descriptors(output, socket, answer);
    become_account();
    setsid();
    long r = confine_self("data/store", &e) < 0 ? LONG_MAX : attempt();
    _exit(write(ANSWER, &r, sizeof(r)) == (ssize_t)sizeof(r) ? 0 : 1);
}

/* What the attempt came to. */
static long run(const char *what, long (*attempt)(void))
{
    int output[2];
    int sockets[2];
    int answer[2];
    int status;
    long r;

    CHECK_INT(pipe2(output, O_CLOEXEC), 0);
    CHECK_INT(pipe2(answer, O_CLOEXEC), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    pid_t pid = fork();
    if (pid == 0) {
        be_daemon(output[1], sockets[1], answer[1], attempt);
    }
    close(answer[1]);
    ssize_t n = fd_read_all(answer[0], &r, sizeof(r));
    CHECK_INT(waitpid(pid, &status, 0), pid);
    if (n != (ssize_t)sizeof(r) || status != 0) {
        tap_fail(__FILE__, __LINE__, "tried to %s: no outcome, wait status %d", what, status);
    }
    const int ours[] = {output[0], output[1], sockets[0], sockets[1], answer[0]};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        close(ours[i]);
    }
    return r;
}

/* Whether a name is one of those in a list with blanks between. */
static bool is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = strstr(list, name); at != NULL; at = strstr(at + 1, name)) {
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0')) {
            return true;
        }
    }
    return false;
}

/* "" when it was refused as it must be, else what is wrong with it. */
static void judge(long r, const char *wanted, char *ret, size_t size)
{
    const char *name = r < 0 ? strerrorname_np((int)-r) : "";

    if (r == LONG_MAX) {
        (void)str_copy(ret, size, "the confinement itself failed");
    } else if (r >= 0) {
        (void)str_format(ret, size, "it succeeded (%ld)", r);
    } else if (name == NULL || !is_listed(wanted, name)) {
        (void)str_format(ret, size, "%s, not one of %s", name != NULL ? name : "?", wanted);
    }
}

void confined_try(const char *what, const char *wanted, long (*attempt)(void))
{
    const struct passwd *account = getpwnam("husk");
    char wrong[128] = "";

    if (geteuid() != 0 || account == NULL || landlock_abi() == 0) {
        SKIP("needs root, the account husk (tools/account) and Landlock");
    }
    confined = (struct confined){account->pw_uid, account->pw_gid, getpid(), 0};
    make_top();
    confined.stranger = start_stranger();
    long r = run(what, attempt);
    CHECK_INT(chmod("id", 0700), 0); /* nothing set-uid is left, however this ends */
    CHECK_INT(kill(confined.stranger, SIGKILL), 0);
    CHECK_INT(waitpid(confined.stranger, NULL, 0), confined.stranger);
    judge(r, wanted, wrong, sizeof(wrong));
    if (wrong[0] == '\0') {
        check_untouched();
    }
    remove_top();
    if (wrong[0] != '\0') {
        tap_fail(__FILE__, __LINE__, "tried to %s: %s", what, wrong);
    }
    fprintf(stderr, "# tried to %s: refused (%s)\n", what, strerrorname_np((int)-r));
}
