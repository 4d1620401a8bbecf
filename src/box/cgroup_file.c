/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing cgroup control files by descriptor; see cgroup_impl.h.
 *
 * Must not allocate, but for cg_each_dir(): the others run for every box.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "box/cgroup_impl.h"

#define NUMBER_SIZE 24

ssize_t cg_read(int fd, char *buf, size_t size)
{
    size_t got = 0;

    /* A control file may come in pieces: the kernel formats a page at a time. */
    while (got < size - 1) {
        ssize_t n = pread(fd, buf + got, size - 1 - got, (off_t)got);
        if (n < 0) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        got += (size_t)n;
    }
    buf[got] = '\0';
    return (ssize_t)got;
}

uint64_t cg_number_at(const char *text)
{
    char digits[NUMBER_SIZE];
    uint64_t value = 0;
    size_t n = strcspn(text, " \n");

    if (n >= sizeof(digits)) {
        return 0;
    }
    memcpy(digits, text, n);
    digits[n] = '\0';
    return parse_u64(digits, &value) == 0 ? value : 0;
}

uint64_t cg_sum(const char *text, const char *key)
{
    uint64_t sum = 0;

    for (const char *at = strstr(text, key); at != NULL; at = strstr(at + 1, key)) {
        sum += cg_number_at(at + strlen(key));
    }
    return sum;
}

uint64_t cg_quota_us(const struct limits *l)
{
    uint64_t quota = (uint64_t)l->cpu_milli * CG_PERIOD_US / 1000;

    return MAX(quota, (uint64_t)CG_QUOTA_MIN_US);
}

uint64_t cg_read_u64(int fd)
{
    char text[NUMBER_SIZE];

    /* One call is enough for one number, and this is read for every box. */
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
    if (n < 0) {
        return 0;
    }
    text[n] = '\0';
    return cg_number_at(text);
}

uint64_t cg_read_key(int fd, const char *key)
{
    char text[2048];
    size_t len = strlen(key);

    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
    if (n < 0) {
        return 0;
    }
    text[n] = '\0';
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, len) == 0 && line[len] == ' ') {
            return cg_number_at(line + len + 1);
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return 0;
}

int cg_rewrite(int fd, const char *text)
{
    size_t n = strlen(text);

    ssize_t w = pwrite(fd, text, n, 0);
    if (w < 0) {
        return -errno;
    }
    return (size_t)w == n ? 0 : -EIO;
}

int cg_write_u64(int dir_fd, const char *name, uint64_t value)
{
    char text[NUMBER_SIZE];

    int r = str_format(text, sizeof(text), "%" PRIu64, value);
    return r < 0 ? r : fd_write_file(dir_fd, name, text);
}

int cg_each_dir(int dir_fd, int (*visit)(int dir_fd, const char *name, void *arg), void *arg)
{
    const struct dirent *entry;
    int r = 0;

    /* A descriptor of its own: the directory stream closes it and moves its offset. */
    int fd = cg_open_dir(dir_fd, ".");
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        r = fd < 0 ? fd : -errno;
        fd_close(&fd);
        return r;
    }
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            r = visit(dir_fd, entry->d_name, arg);
        }
    }
    closedir(dir);
    return r;
}

int cg_open_file(int dir_fd, const struct cg_file *file, int *ret)
{
    int fd = openat(dir_fd, file->name, (file->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);

    if (fd < 0 && errno == EACCES && file->writable && file->optional) {
        /* memory.peak before 6.12: for an ordinary user it can only be read. */
        fd = openat(dir_fd, file->name, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0 && !(errno == ENOENT && file->optional)) {
        return -errno;
    }
    *ret = fd;
    return 0;
}

int cg_open_procs(int dir_fd, bool unified, int *ret)
{
    /*
     * The thread that writes "0" is moved, alone and without a lock; v2 moves whole processes only.
     */
    *ret = openat(dir_fd, unified ? "cgroup.procs" : "tasks", O_WRONLY | O_CLOEXEC);
    return *ret < 0 ? -errno : 0;
}

int cg_open_dir(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}
