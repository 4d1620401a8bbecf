/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the cgroup hierarchies of this host and where in each our boxes can live.
 *
 * How it works: /proc/self/mountinfo says which hierarchies are mounted and which part of each;
 * /proc/self/cgroup says where in it we are. Our directory is made at the top of what we see, or
 * below our own cgroup if the top is not ours to write, as in a container or a systemd slice.
 *
 * Must not make, move or change anything: `husk doctor` runs it on any host.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_impl.h"

#define LIMITED (CG_BIT(CG_MEMORY) | CG_BIT(CG_CPU) | CG_BIT(CG_PIDS))

static const char *const v1_names[CG_RESOURCES] = {
    [CG_MEMORY] = "memory", [CG_CPU] = "cpu",  [CG_CPUACCT] = "cpuacct",
    [CG_PIDS] = "pids",     [CG_IO] = "blkio",
};

/* The fields of a mountinfo line that matter here. Borrowed from the line. */
struct mount_line {
    char *id;
    char *root;
    char *point;
    char *fstype;
    char *super;
};

void cg_lack(struct cgroup_facts *facts, const char *fmt, ...)
{
    va_list ap;

    if (facts->why_not[0] != '\0') {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(facts->why_not, sizeof(facts->why_not), fmt, ap);
    va_end(ap);
}

bool cg_list_has(const char *list, const char *word)
{
    size_t len = strlen(word);

    while (*list != '\0') {
        size_t n = strcspn(list, ", \n");
        if (n == len && memcmp(list, word, n) == 0) {
            return true;
        }
        list += n;
        list += strspn(list, ", \n");
    }
    return false;
}

/* Cuts the word at *line off and moves on; NULL at the end. */
static char *next_word(char **line)
{
    char *word = *line;
    size_t n = strcspn(word, " \n");

    if (n == 0) {
        return NULL;
    }
    *line = word[n] == '\0' ? word + n : word + n + 1;
    word[n] = '\0';
    return word;
}

/* mountinfo writes space, tab, newline and backslash in paths as \ooo. */
static void unescape(char *s)
{
    char *out = s;

    for (; *s != '\0'; out++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
            s[3] >= '0' && s[3] <= '7') {
            *out = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 4;
        } else {
            *out = *s++;
        }
    }
    *out = '\0';
}

/* "id parent dev root point options [optional ...] - fstype source super" */
static bool parse_line(char *line, struct mount_line *ret)
{
    char *word = NULL;

    ret->id = next_word(&line);
    for (int i = 0; i < 2; i++) {
        next_word(&line);
    }
    ret->root = next_word(&line);
    ret->point = next_word(&line);
    do {
        word = next_word(&line);
    } while (word != NULL && !str_eq(word, "-"));
    ret->fstype = next_word(&line);
    line += strcspn(line, " "); /* the source may be empty */
    line += *line == ' ' ? 1 : 0;
    ret->super = next_word(&line);
    if (ret->super == NULL) {
        return false;
    }
    unescape(ret->root);
    unescape(ret->point);
    return true;
}

/* Our own path in the hierarchy of that controller; "" is the unified one. */
static int own_path(const char *controller, char *dst, size_t size)
{
    char text[CG_TEXT_SIZE];

    ssize_t n = fd_read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text));
    if (n < 0) {
        return (int)n;
    }
    for (char *line = text; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end++ = '\0';
        }
        char *list = strchr(line, ':');
        char *path = list != NULL ? strchr(list + 1, ':') : NULL;
        if (path != NULL) {
            *path++ = '\0';
            bool found =
                controller[0] == '\0' ? list[1] == '\0' : cg_list_has(list + 1, controller);
            if (found) {
                return str_copy(dst, size, path);
            }
        }
        line = end;
    }
    return -ENOENT;
}

/* Our own cgroup, if the mount shows it. A descriptor or -errno. */
static int open_own(int mount_fd, const char *root, const char *controller)
{
    char own[4096];
    size_t skip = str_eq(root, "/") ? 0 : strlen(root);

    int r = own_path(controller, own, sizeof(own));
    if (r < 0) {
        return r;
    }
    /* "/.." is what the kernel shows for a place outside our cgroup namespace. */
    if (strncmp(own, root, skip) != 0 || (own[skip] != '/' && own[skip] != '\0') ||
        str_starts(own, "/..")) {
        return -ENOENT;
    }
    char *last = strrchr(own, '/');
    if (last != NULL && str_eq(last + 1, CG_SELF)) {
        *last = '\0'; /* an earlier call moved this process, or the one that started it */
    }
    const char *below = strlen(own) > skip + 1 ? own + skip + 1 : ".";
    return cg_open_dir(mount_fd, below);
}

/* True if CG_PARENT below fd is ours to write or to make; else errno says why not. */
static bool is_usable(int fd)
{
    if (faccessat(fd, CG_PARENT, W_OK, AT_EACCESS) == 0) {
        return true;
    }
    return errno == ENOENT && faccessat(fd, ".", W_OK, AT_EACCESS) == 0;
}

/*
 * The directory below which CG_PARENT lives or can be made. A descriptor or -errno; -ENOENT when
 * the mount is out of sight.
 */
static int open_base(const struct mount_line *m, const char *controller)
{
    AUTO_CLOSE int top = -1;
    AUTO_CLOSE int own = -1;
    char id[32];
    struct statx st;

    top = open(m->point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0 || statx(top, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0) {
        return -errno;
    }
    int r = str_format(id, sizeof(id), "%llu", (unsigned long long)st.stx_mnt_id);
    if (r < 0 || !str_eq(id, m->id)) {
        return -ENOENT; /* something else is mounted over it; it has a line of its own */
    }
    if (is_usable(top)) {
        return take_fd(&top);
    }
    int why = -errno;
    own = open_own(top, m->root, controller);
    return own >= 0 && is_usable(own) ? take_fd(&own) : why;
}

static unsigned all_resources(const struct cg_trees *trees)
{
    unsigned all = 0;

    for (size_t i = 0; i < trees->n; i++) {
        all |= trees->tree[i].resources;
    }
    return all;
}

/*
 * From 5.18 on, v1 counts a disk's traffic only where a limit is set for that disk, which is up to
 * the host. A host that has never counted a byte does not count.
 */
static bool counts_io(const char *point)
{
    char path[4096];
    char text[CG_TEXT_SIZE];

    int r = str_format(path, sizeof(path), "%s/blkio.throttle.io_service_bytes_recursive", point);
    ssize_t n = r < 0 ? r : fd_read_file(AT_FDCWD, path, text, sizeof(text));
    return n > 0 && cg_sum(text, "Total ") > 0;
}

static void consider_v1(struct cg_trees *trees, struct cgroup_facts *facts,
                        const struct mount_line *m)
{
    const char *any = NULL;
    unsigned found = 0;

    for (int r = 0; r < CG_RESOURCES; r++) {
        if (cg_list_has(m->super, v1_names[r])) {
            found |= CG_BIT(r);
            any = v1_names[r];
        }
    }
    found &= ~all_resources(trees); /* the same hierarchy can be mounted twice */
    if ((found & CG_BIT(CG_IO)) != 0 && !counts_io(m->point)) {
        found &= ~CG_BIT(CG_IO);
    }
    if (found == 0 || trees->n == CGROUP_PROCS_MAX) {
        return;
    }
    int fd = open_base(m, any);
    if (fd < 0) {
        if ((found & LIMITED) != 0 && fd != -ENOENT) {
            cg_lack(facts, "cannot write to %s: %s", m->point, strerror(-fd));
        }
        return;
    }
    trees->tree[trees->n++] = (struct cg_tree){.resources = found, .base_fd = fd, .dir_fd = -1};
}

/* Runs after all v1 hierarchies are known: a controller is in one version or the other. */
static void consider_unified(struct cg_trees *trees, struct cgroup_facts *facts,
                             const struct mount_line *m)
{
    if (trees->n == CGROUP_PROCS_MAX || (trees->n > 0 && trees->tree[0].unified)) {
        return;
    }
    int fd = open_base(m, "");
    if (fd < 0) {
        if ((all_resources(trees) & LIMITED) != LIMITED && fd != -ENOENT) {
            cg_lack(facts, "cannot write to %s: %s", m->point, strerror(-fd));
        }
        return;
    }

    unsigned missing = ~all_resources(trees);
    unsigned offers = (missing & LIMITED) != 0 ? cg_v2_offers(fd, facts) & missing : 0;
    /* CPU time is counted in every unified cgroup, with or without a controller. */
    offers |= CG_BIT(CG_CPUACCT) & missing;
    memmove(&trees->tree[1], &trees->tree[0], trees->n * sizeof(trees->tree[0]));
    trees->tree[0] =
        (struct cg_tree){.resources = offers, .unified = true, .base_fd = fd, .dir_fd = -1};
    trees->n++;
}

static void each_mount(const char *fstype, struct cg_trees *trees, struct cgroup_facts *facts)
{
    char *line = NULL;
    size_t size = 0;
    struct mount_line m;
    FILE *f = fopen("/proc/self/mountinfo", "re");

    if (f == NULL) {
        cg_lack(facts, "open /proc/self/mountinfo: %s", strerror(errno));
        return;
    }
    while (getline(&line, &size, f) >= 0) {
        if (!parse_line(line, &m) || !str_eq(m.fstype, fstype)) {
            continue;
        }
        if (str_eq(fstype, "cgroup")) {
            consider_v1(trees, facts, &m);
        } else {
            consider_unified(trees, facts, &m);
        }
    }
    free(line);
    fclose(f);
}

/* A cgroup that exists can be asked; the root has no such file, whatever the kernel. */
static bool has_kill(const struct cg_tree *t)
{
    struct utsname u;
    char *end = NULL;

    if (t->dir_fd >= 0) {
        return faccessat(t->dir_fd, "cgroup.kill", F_OK, 0) == 0;
    }
    if (uname(&u) < 0) {
        return false;
    }
    unsigned long version = strtoul(u.release, &end, 10);
    unsigned long patch = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    return version > 5 || (version == 5 && patch >= 14);
}

void cg_facts_update(struct cgroup_facts *facts, const struct cg_trees *trees)
{
    unsigned all = all_resources(trees);
    bool unified = trees->n > 0 && trees->tree[0].unified;
    bool v1 = trees->n > (unified ? 1u : 0u);

    facts->kind = unified && v1 ? CGROUP_HYBRID
                  : unified     ? CGROUP_V2
                  : v1          ? CGROUP_V1
                                : CGROUP_NONE;
    facts->memory = (all & CG_BIT(CG_MEMORY)) != 0;
    facts->cpu = (all & CG_BIT(CG_CPU)) != 0;
    facts->pids = (all & CG_BIT(CG_PIDS)) != 0;
    facts->io = (all & CG_BIT(CG_IO)) != 0;
    facts->kill = unified && has_kill(&trees->tree[0]);
    /* Since 5.2; the root has no such file. */
    facts->freeze = unified && trees->tree[0].dir_fd >= 0 &&
                    faccessat(trees->tree[0].dir_fd, "cgroup.freeze", W_OK, AT_EACCESS) == 0;
    if ((all & LIMITED) == LIMITED) {
        facts->why_not[0] = '\0';
        return;
    }
    for (int r = 0; r < CG_RESOURCES; r++) {
        if ((LIMITED & CG_BIT(r)) != 0 && (all & CG_BIT(r)) == 0) {
            cg_lack(facts, "no mounted cgroup hierarchy offers the %s controller%s", v1_names[r],
                    facts->kind == CGROUP_V2 ? " here: was it delegated?" : "");
        }
    }
}

void cg_find(struct cg_trees *ret, struct cgroup_facts *ret_facts)
{
    *ret = (struct cg_trees){.n = 0};
    *ret_facts = (struct cgroup_facts){.kind = CGROUP_NONE};
    each_mount("cgroup", ret, ret_facts);
    each_mount("cgroup2", ret, ret_facts);
    cg_facts_update(ret_facts, ret);
}

void cg_trees_release(struct cg_trees *trees)
{
    for (size_t i = 0; i < trees->n; i++) {
        fd_close(&trees->tree[i].base_fd);
        fd_close(&trees->tree[i].dir_fd);
    }
    trees->n = 0;
}
