/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a template's root will hold, collected in the launcher; see root.h.
 *
 * Mounts are cloned from descriptors: the client could open the source itself, and the source
 * cannot be swapped in between. A path is opened in one case only, where the client could open it
 * with the same rights (reopen()).
 */
#include "box/root.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/idmap.h"

/*
 * gcc 12's analyzer loses sight of what a list owns once it is stored there; root_plan_release()
 * frees it.
 */
#if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

void root_plan_release(struct root_plan *plan)
{
    for (size_t i = 0; i < plan->n_places; i++) {
        fd_close(&plan->places[i].tree);
        fd_close(&plan->places[i].source);
    }
    for (size_t i = 0; i < plan->n_args; i++) {
        free(plan->args[i]);
    }
    for (size_t i = 0; i < plan->n_env; i++) {
        free(plan->env[i]);
    }
    memset(plan, 0, sizeof(*plan));
}

bool root_is_hidden(const char *path)
{
    static const char *const own[] = {"/tmp", "/workspace", "/proc", "/dev", "/run"};

    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        size_t n = strlen(own[i]);
        if (strncmp(path, own[i], n) == 0 && (path[n] == '/' || path[n] == '\0')) {
            return true;
        }
    }
    return false;
}

static struct root_place *next_place(struct root_plan *plan, const char *path, struct err *e)
{
    if (plan->n_places == ROOT_PLACES_MAX) {
        err_set(e, ERR_LIMIT, "a template has at most %d mounts and links", ROOT_PLACES_MAX);
        return NULL;
    }
    if (root_is_hidden(path)) {
        err_set(e, ERR_INVALID,
                "%s: a box has its own /tmp, /workspace, /proc, /dev and /run: mount elsewhere, "
                "for instance at /data",
                path);
        return NULL;
    }
    for (size_t i = 0; i < plan->n_places; i++) {
        if (str_eq(plan->places[i].path, path)) {
            err_set(e, ERR_INVALID, "%s is taken: mount elsewhere", path);
            return NULL;
        }
    }
    struct root_place *place = &plan->places[plan->n_places];
    *place = (struct root_place){.tree = -1, .source = -1};
    if (str_copy(place->path, sizeof(place->path), path) < 0) {
        err_set(e, ERR_INVALID, "mount path is too long");
        return NULL;
    }
    return place;
}

static int set_attributes(int tree, bool writable, int userns, struct err *e)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (writable ? 0 : MOUNT_ATTR_RDONLY),
        .propagation = MS_PRIVATE,
    };

    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0) {
        return err_sys(e, errno, "mount_setattr");
    }
    if (userns >= 0) {
        struct mount_attr map = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
        if (mount_setattr(tree, "", AT_EMPTY_PATH, &map, sizeof(map)) < 0) {
            return err_sys(e, errno, "this file system cannot show its owner as the box's user");
        }
    }
    return 0;
}

/*
 * A launcher without root lives in a mount namespace of its own, where a client's descriptor
 * cannot be cloned. Client and launcher are the same user then: the file is opened again by name
 * and checked to be the same. The check does not cover mounts below it, so a caller with more
 * rights than its client must not use this.
 */
static int reopen(int fd, struct err *e)
{
    char link[64];
    char path[4096];
    struct stat was;
    struct stat is;

    (void)str_format(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n < 0) {
        return err_sys(e, errno, "readlink of a mount source");
    }
    path[n] = '\0';
    AUTO_CLOSE int again = open(path, O_PATH | O_CLOEXEC);
    if (again < 0 || fstat(again, &is) < 0 || fstat(fd, &was) < 0) {
        return err_sys(e, errno, "open mount source again");
    }
    if (is.st_dev != was.st_dev || is.st_ino != was.st_ino) {
        return err_set(e, ERR_INVALID, "mount source changed while it was being opened");
    }
    return take_fd(&again);
}

static int clone_tree(int fd, bool same_user, struct err *e)
{
    const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE;

    int tree = open_tree(fd, "", flags);
    if (tree < 0 && errno == EINVAL && !same_user) {
        return err_set(e, ERR_INVALID,
                       "its source cannot be mounted: it is in another mount namespace than the "
                       "launcher, or in an unbindable mount. Start husk and the launcher in the "
                       "same mount namespace");
    }
    if (tree < 0 && errno == EINVAL) {
        AUTO_CLOSE int again = reopen(fd, e);
        if (again < 0) {
            return -1;
        }
        tree = open_tree(again, "", flags);
    }
    if (tree < 0) {
        return err_sys(e, errno, "open_tree");
    }
    return tree;
}

int root_plan_mount(struct root_plan *plan, int fd, const char *path, bool writable,
                    const struct root_owner *owner, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    AUTO_CLOSE int userns = -1;
    struct stat st;

    struct root_place *place = next_place(plan, path, e);
    if (place == NULL) {
        return -1;
    }
    if (fstat(fd, &st) < 0) {
        return err_sys(e, errno, "stat the source of %s", path);
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
        return err_set(e, ERR_INVALID, "%s: only files and directories can be mounted", path);
    }
    if (owner->map) {
        userns = idmap_userns(owner->uid, owner->gid, owner->box_uid, e);
        if (userns < 0) {
            return err_wrap(e, "mount %s", path);
        }
    }
    tree = clone_tree(fd, owner->same_user, e);
    if (tree < 0 || set_attributes(tree, writable, userns, e) < 0) {
        return err_wrap(e, "mount %s", path);
    }
    place->is_dir = S_ISDIR(st.st_mode);
    place->writable = writable;
    place->tree = take_fd(&tree);
    plan->n_places++;
    return 0;
}

int root_plan_copy(struct root_plan *plan, int fd, const char *path, struct err *e)
{
    struct root_place *place = next_place(plan, path, e);

    if (place == NULL) {
        return -1;
    }
    place->source = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (place->source < 0) {
        return err_sys(e, errno, "hold the source of %s", path);
    }
    plan->n_places++;
    return 0;
}

int root_plan_link(struct root_plan *plan, const char *path, const char *text, struct err *e)
{
    struct root_place *place = next_place(plan, path, e);

    if (place == NULL) {
        return -1;
    }
    if (text[0] == '\0' || str_copy(place->link, sizeof(place->link), text) < 0) {
        return err_set(e, ERR_INVALID, "link text for %s is empty or too long", path);
    }
    plan->n_places++;
    return 0;
}

static int add_string(char **list, size_t *n, size_t max, const char *text, struct err *e)
{
    if (*n == max) {
        return err_set(e, ERR_LIMIT, "a template has at most %zu arguments or variables", max);
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        return err_sys(e, ENOMEM, "copy a template argument");
    }
    list[(*n)++] = copy;
    return 0;
}

int root_plan_arg(struct root_plan *plan, const char *text, struct err *e)
{
    return add_string(plan->args, &plan->n_args, ROOT_ARGS_MAX, text, e);
}

int root_plan_writable(struct root_plan *plan, struct err *e)
{
    char text[ROOT_WRITABLE_SIZE] = "HUSK_WRITABLE=";
    size_t used = strlen(text);
    size_t empty = used;

    for (size_t i = 0; i < plan->n_places; i++) {
        const struct root_place *place = &plan->places[i];
        if (!place->writable) {
            continue;
        }
        if (str_format(text + used, sizeof(text) - used, "%s:", place->path) < 0) {
            return err_set(e, ERR_LIMIT, "too many writable mounts");
        }
        used += strlen(text + used);
    }
    return used == empty ? 0 : add_string(plan->env, &plan->n_env, ROOT_ENV_MAX, text, e);
}

int root_plan_env(struct root_plan *plan, const char *text, struct err *e)
{
    if (str_starts(text, "HUSK_")) {
        return err_set(e, ERR_INVALID,
                       "variables that begin with HUSK_ are husk's own: rename %.*s",
                       (int)strcspn(text, "="), text);
    }
    return add_string(plan->env, &plan->n_env, ROOT_ENV_MAX, text, e);
}
