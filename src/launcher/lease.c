/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Id range leases; see lease.h.
 *
 * How it works: lease_take() makes a socketpair and forks a marker, which looks for a run of wards
 * from a random one on. The marker locks the bytes of a run, becomes the first user of each ward in
 * turn, and sends the lock file's descriptor into the socket as that user. Nothing ever receives
 * those messages: each keeps the lock and is counted for its sender. The marker has no capability
 * that lifts RLIMIT_NOFILE, and the kernel refuses to send (ETOOMANYREFS) for a user that has more
 * descriptors in flight than that limit:
 *
 *   limit 0, send: refused if the ward has a mark; else this sets one.
 *   limit 1, send: refused if another launcher has marked the ward since the first check.
 *
 * Two markers that meet on a ward can thus both be refused, and never both succeed.
 *
 * Must not: receive a mark, which drops a ward, while its zygote may be alive.
 */
#include "launcher/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/rand.h"
#include "box/idmap.h"
#include "box/sys.h"

#define LEASE_DIR "/run/husk"
#define LEASE_FILE LEASE_DIR "/ids"

/* What the marker reports: the first ward, or -errno. -EAGAIN: no run is free. */
struct finding {
    int32_t first;
};

struct search {
    int file;
    int send; /* marks are sent into this end */
    int keep; /* and stay queued in this one */
    uint32_t wards;
};

static int open_file(struct err *e)
{
    struct stat st;

    if (mkdir(LEASE_DIR, 0700) < 0 && errno != EEXIST) {
        return err_sys(e, errno, "make %s", LEASE_DIR);
    }
    int fd = open(LEASE_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(e, errno, "open %s", LEASE_FILE);
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        close(fd);
        return err_set(e, ERR_SYSTEM, "%s is not a file of our own", LEASE_FILE);
    }
    return fd;
}

/* 0, or -errno; -EAGAIN: another launcher has a part of it. */
static int lock_run(const struct search *s, short type, uint32_t first)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = s->wards};

    if (fcntl(s->file, F_OFD_SETLK, &lock) == 0) {
        return 0;
    }
    return errno == EACCES ? -EAGAIN : -errno;
}

/* 0, or -errno; -ETOOMANYREFS: this user has more than `most` in flight. */
static int send_mark(const struct search *s, rlim_t most)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
        return -errno;
    }
    files.rlim_cur = most;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0) {
        return -errno;
    }
    ssize_t n = fd_send(s->send, "", 1, &s->file, 1, MSG_DONTWAIT);
    return n < 0 ? (int)n : 0;
}

static int mark_ward(const struct search *s, uint32_t ward)
{
    uid_t user = (uid_t)idmap_ward(ward);

    if (syscall(SYS_setresuid, user, user, user) < 0) {
        return -errno;
    }
    int r = send_mark(s, 0);
    return r < 0 ? r : send_mark(s, 1);
}

/* Removes the marks of a run of which some ward is taken. */
static void unmark(const struct search *s)
{
    char byte;

    while (recv(s->keep, &byte, 1, MSG_DONTWAIT) == 1) {
    }
}

/* 0, or -errno; -EAGAIN: *ret_taken is a ward that another launcher has. */
static int mark_run(const struct search *s, uint32_t first, uint32_t *ret_taken)
{
    for (uint32_t i = 0; i < s->wards; i++) {
        int r = mark_ward(s, first + i);
        if (r < 0) {
            unmark(s);
            (void)lock_run(s, F_UNLCK, first);
            *ret_taken = first + i;
            return r == -ETOOMANYREFS ? -EAGAIN : r;
        }
    }
    return 0;
}

static int32_t find_run(const struct search *s)
{
    uint32_t places = IDMAP_WARDS - s->wards + 1;
    uint32_t start;

    rand_bytes(&start, sizeof(start));
    start %= places;
    for (uint32_t i = 0; i < places; i++) {
        uint32_t first = (start + i) % places;
        uint32_t taken = first;
        int r = lock_run(s, F_WRLCK, first);
        if (r == 0) {
            r = mark_run(s, first, &taken);
        }
        if (r == 0) {
            return (int32_t)first;
        }
        if (r != -EAGAIN) {
            return r;
        }
        i += taken - first; /* each run up to there contains that ward */
    }
    return -EAGAIN;
}

static _Noreturn void be_marker(const struct search *s, int answer)
{
    /* The right to become the wards' users, and none that would lift their limits. */
    struct finding found = {.first = sys_caps_keep((uint64_t)1 << CAP_SETUID)};

    if (found.first == 0) {
        found.first = find_run(s);
    }
    _exit(write(answer, &found, sizeof(found)) == (ssize_t)sizeof(found) ? 0 : 1);
}

/* The first ward, or -errno. */
static int32_t run_marker(const struct search *s)
{
    struct finding found = {.first = -EIO};
    int answer[2];

    if (pipe2(answer, O_CLOEXEC) < 0) {
        return -errno;
    }
    pid_t pid = fork();
    if (pid == 0) {
        be_marker(s, answer[1]);
    }
    int why = pid < 0 ? errno : 0;
    close(answer[1]);
    if (pid > 0) {
        ssize_t n = fd_read_all(answer[0], &found, sizeof(found));
        why = n == (ssize_t)sizeof(found) ? 0 : EIO;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    close(answer[0]);
    return why != 0 ? -why : found.first;
}

int lease_take(uint32_t wards, struct lease *ret, struct err *e)
{
    AUTO_CLOSE int file = open_file(e);
    AUTO_CLOSE int send = -1;
    AUTO_CLOSE int keep = -1;
    int pair[2];

    if (file < 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return err_sys(e, errno, "socketpair for the marks of ids");
    }
    send = pair[0];
    keep = pair[1];
    const struct search search = {.file = file, .send = send, .keep = keep, .wards = wards};
    int32_t first = run_marker(&search);
    if (first == -EAGAIN) {
        return err_set(e, ERR_LIMIT,
                       "all host id ranges are in use by other husk launchers on this kernel");
    }
    if (first < 0) {
        return err_sys(e, -first, "mark host ids as taken");
    }
    *ret = (struct lease){.fd = take_fd(&keep), .first = (uint32_t)first, .wards = wards};
    return 0;
}

void lease_drop(struct lease *lease)
{
    fd_close(&lease->fd);
    *lease = (struct lease){.fd = -1};
}
