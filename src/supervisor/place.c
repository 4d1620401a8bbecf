/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the data folder and takes over an old one; see place.h.
 *
 * The order of a takeover is the security argument. In a folder of another account any name can be
 * any kind of file, and can change at any moment. So the folder itself is taken first, by its
 * descriptor: from then on no other account can add or replace a name. Then each known name is
 * moved to store/ or removed, never followed. No file that was there is opened. The sticky bit
 * marks an unfinished takeover: the next start continues it, and trusts nothing until it is done.
 *
 * Must not: follow a link below the folder, or give away what it did not create.
 */
#include "supervisor/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/fd.h"
#include "base/str.h"
#include "supervisor/account.h"

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)
#define UNFINISHED S_ISVTX

struct folder {
    int fd;
    const char *path;
    struct account account;
    struct stat st;
    bool is_root;    /* we run as root */
    bool is_old;     /* has records of a daemon that owned the whole folder */
    bool is_fresh;   /* has no store/ yet */
    bool is_suspect; /* other accounts could create files in it */
};

/* ---- what may be in it ---- */

enum fate { UNKNOWN, KEEP, MOVE, REMOVE };

static enum fate fate_of(const char *name)
{
    static const struct {
        const char *pattern;
        enum fate fate;
    } entries[] = {
        {".", KEEP},
        {"..", KEEP},
        {"lost+found", KEEP}, /* in every new file system */
        {CONFIG_STORE, KEEP},
        {"script-*", KEEP}, /* data folders of their own (cli/agents_place.c) */
        {"husk.sock", REMOVE},
        {"husk.pid", REMOVE},
        {"husk.*", MOVE}, /* the database, an old log */
        {"agents.json", MOVE},
        {"agents.json.new", MOVE},
        {"settings", MOVE},
        {"settings.new", MOVE},
        {"lock", MOVE},
        {"spool", MOVE},
        {"templates", MOVE},
        {"workspaces", MOVE},
    };

    for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
        if (fnmatch(entries[i].pattern, name, 0) == 0) {
            return entries[i].fate;
        }
    }
    return UNKNOWN;
}

/* Calls `visit` for every name in the folder until it fails. */
static int each_entry(const struct folder *f,
                      int (*visit)(const struct folder *f, const char *name, int store,
                                   struct err *e),
                      int store, struct err *e)
{
    int own = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = own < 0 ? NULL : fdopendir(own);
    int r = 0;

    if (d == NULL) {
        err_sys(e, errno, "cannot read %s", f->path);
        fd_close(&own);
        return -1;
    }
    for (struct dirent *entry = readdir(d); entry != NULL && r == 0; entry = readdir(d)) {
        r = visit(f, entry->d_name, store, e);
    }
    closedir(d);
    return r;
}

/* A folder that has another purpose, such as / or a home, must not be taken. */
static int check_name(const struct folder *f, const char *name, int store, struct err *e)
{
    (void)store;
    return fate_of(name) != UNKNOWN
               ? 0
               : err_set(e, ERR_INVALID,
                         "%s is no data folder, it holds %.64s: name a new or an empty one as "
                         "--data",
                         f->path, name);
}

/* ---- the parts of a takeover ---- */

/* An old server holds a lock on husk.pid, which must be a file that it created itself. */
static int check_idle(const struct folder *f, const struct config *c, struct err *e)
{
    struct err ignored;
    pid_t pid;

    return place_holder(f->fd, c, &pid, &ignored) < 0
               ? 0
               : err_set(e, ERR_EXISTS,
                         "an older husk is up with %s (process %d): end that one first", f->path,
                         (int)pid);
}

static int take_over(const struct folder *f, struct err *e)
{
    /* An entry for the account in an ACL would survive the change of owner. */
    static const char *const lists[] = {"system.posix_acl_access", "system.posix_acl_default"};

    if ((f->st.st_uid != geteuid() && fchown(f->fd, geteuid(), getegid()) < 0) ||
        fchmod(f->fd, 0700 | UNFINISHED) < 0) {
        return err_sys(e, errno, "cannot take %s over", f->path);
    }
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (fremovexattr(f->fd, lists[i]) < 0 && errno != ENODATA && errno != EOPNOTSUPP) {
            return err_sys(e, errno, "cannot take %s over", f->path);
        }
    }
    return 0;
}

static int make_store(const struct folder *f, struct err *e)
{
    const struct account *a = &f->account;

    if (mkdirat(f->fd, CONFIG_STORE, 0700) < 0) {
        return err_sys(e, errno, "cannot create %s/" CONFIG_STORE, f->path);
    }
    AUTO_CLOSE int fd = openat(f->fd, CONFIG_STORE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (a->switch_to && fchownat(fd, "", a->uid, a->gid, AT_EMPTY_PATH) < 0)) {
        return err_sys(e, errno, "cannot give %s/" CONFIG_STORE " away", f->path);
    }
    return take_fd(&fd);
}

/*
 * Opens store/, which belongs to the account, and creates it if it is missing. The descriptor can
 * be used for names below it. In a folder that belonged to the account, anything else of that name
 * is removed.
 */
static int open_store(const struct folder *f, struct err *e)
{
    struct stat st = {0};

    for (int again = 0; again < 2; again++) {
        AUTO_CLOSE int fd =
            openat(f->fd, CONFIG_STORE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT) {
            return make_store(f, e);
        }
        if (fd < 0) {
            if (!f->is_suspect || unlinkat(f->fd, CONFIG_STORE, 0) < 0) {
                return err_sys(e, errno, "cannot open %s/" CONFIG_STORE, f->path);
            }
            continue;
        }
        if (fstat(fd, &st) < 0) {
            return err_sys(e, errno, "cannot open %s/" CONFIG_STORE, f->path);
        }
        if (st.st_uid == f->account.uid) {
            return take_fd(&fd);
        }
        /* It is empty and ours: an earlier start was killed before it gave the folder away. */
        if (st.st_uid != geteuid() || unlinkat(f->fd, CONFIG_STORE, AT_REMOVEDIR) < 0) {
            break;
        }
    }
    return err_set(e, ERR_INVALID,
                   "%s/" CONFIG_STORE " belongs to another account (id %u): chown -R it to the "
                   "account of huskd, or choose another --data",
                   f->path, (unsigned)st.st_uid);
}

static int sweep_name(const struct folder *f, const char *name, int store, struct err *e)
{
    enum fate fate = fate_of(name);
    struct stat st;

    if (fate == UNKNOWN && f->is_root) {
        return check_name(f, name, store, e);
    }
    if (fate == UNKNOWN || fate == KEEP) {
        return 0;
    }
    if (fate == REMOVE && unlinkat(f->fd, name, 0) == 0) {
        return 0; /* a folder of that name is moved instead */
    }
    if (fstatat(store, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        return err_set(e, ERR_EXISTS, "%s is in %s and in its " CONFIG_STORE ": remove one", name,
                       f->path);
    }
    if (renameat(f->fd, name, store, name) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "cannot move %s/%s to " CONFIG_STORE, f->path, name);
    }
    return 0;
}

/* ---- opening ---- */

/* Like mkdir -p; the account can enter new parent folders whatever root's umask is. */
static int make_folders(const char *path, struct err *e)
{
    bool is_root = geteuid() == 0;
    mode_t mask = is_root ? umask(022) : 0;
    int r = dirs_make_parents(path, 0755);

    if (is_root) {
        umask(mask);
    }
    if (r == 0 && mkdir(path, 0700) < 0 && errno != EEXIST) {
        r = -errno;
    }
    return r < 0 ? err_sys(e, -r, "cannot create %s", path) : 0;
}

/*
 * A link to the folder is followed only if it is ours: another account could point its link at any
 * folder of root.
 */
static int open_folder(const char *path, struct err *e)
{
    char name[4200];
    struct stat st;
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/') { /* a slash at the end follows any link */
        n--;
    }
    if (str_format(name, sizeof(name), "%.*s", (int)n, path) < 0) {
        return err_set(e, ERR_INVALID, "the path of the data folder is too long");
    }
    if (lstat(name, &st) < 0) {
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no data folder %s", path)
                               : err_sys(e, errno, "cannot open %s", path);
    }
    bool is_link = S_ISLNK(st.st_mode);
    if (is_link && st.st_uid != geteuid() && st.st_uid != 0) {
        return err_set(e, ERR_INVALID,
                       "%s is a link of another account (id %u): name what it points to as --data",
                       path, (unsigned)st.st_uid);
    }
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (is_link ? 0 : O_NOFOLLOW));
    return fd < 0 ? err_sys(e, errno, "cannot open %s", path) : fd;
}

static int look(struct folder *f, struct err *e)
{
    struct stat st;

    if (fstat(f->fd, &f->st) < 0) {
        return err_sys(e, errno, "cannot open %s", f->path);
    }
    f->is_root = geteuid() == 0;
    f->is_old = fstatat(f->fd, "husk.db", &st, AT_SYMLINK_NOFOLLOW) == 0;
    f->is_fresh = fstatat(f->fd, CONFIG_STORE, &st, AT_SYMLINK_NOFOLLOW) < 0;
    f->is_suspect = f->st.st_uid != geteuid() || (f->st.st_mode & (OTHERS_WRITE | UNFINISHED)) != 0;
    if (f->st.st_uid != geteuid() && !(f->is_root && f->st.st_uid == f->account.uid)) {
        return err_set(e, ERR_INVALID,
                       "%s belongs to another account (id %u): choose another --data", f->path,
                       (unsigned)f->st.st_uid);
    }
    return 0;
}

/*
 * A folder that root takes has known names only. A user's own folder is swept only if it is an old
 * one.
 */
static int settle(const struct folder *f, const struct config *c, struct err *e)
{
    bool sweeps = f->is_root || f->is_old;
    mode_t open = f->is_root ? 0711 : 0700; /* the account must be able to enter root's folder */

    if ((f->is_root && each_entry(f, check_name, -1, e) < 0) || check_idle(f, c, e) < 0 ||
        take_over(f, e) < 0) {
        return -1;
    }
    AUTO_CLOSE int store = open_store(f, e);
    if (store < 0 || (sweeps && each_entry(f, sweep_name, store, e) < 0)) {
        return -1;
    }
    if (fchmod(f->fd, (f->st.st_mode & 0755) | open) < 0) {
        return err_sys(e, errno, "cannot take %s over", f->path);
    }
    return 0;
}

int place_open(const struct config *c, struct err *e)
{
    struct folder f = {.path = c->data};

    if (account_find(c, &f.account, e) < 0 || make_folders(c->data, e) < 0) {
        return -1;
    }
    AUTO_CLOSE int fd = open_folder(c->data, e);
    f.fd = fd;
    if (fd < 0 || look(&f, e) < 0) {
        return -1;
    }
    if (f.is_fresh || f.is_suspect || f.is_old) {
        return settle(&f, c, e) < 0 ? -1 : take_fd(&fd);
    }
    AUTO_CLOSE int store = open_store(&f, e);
    return store < 0 ? -1 : take_fd(&fd);
}

int place_look(const struct config *c, struct err *e)
{
    AUTO_CLOSE int fd = open_folder(c->data, e);
    struct stat st;

    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) < 0) {
        return err_sys(e, errno, "cannot open %s", c->data);
    }
    if (st.st_uid != geteuid() || (st.st_mode & OTHERS_WRITE) != 0) {
        return err_set(e, ERR_INVALID,
                       "%s belongs to another account (id %u), or others can write to it: what is "
                       "in it is not trusted",
                       c->data, (unsigned)st.st_uid);
    }
    return take_fd(&fd);
}
