/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page by page; see pagewise.h.
 *
 * The kernel maps nothing around a fault in memory that is registered for write faults with a
 * userfaultfd, since that could hide one. We register the memory and never protect a page, so no
 * event ever arrives, and no process has to read the descriptor.
 */
#include "runner/pagewise.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "runner/maps.h"

#ifndef UFFD_USER_MODE_ONLY
#    define UFFD_USER_MODE_ONLY 1
#endif
#define WP_SHMEM (1u << 12) /* UFFD_FEATURE_WP_HUGETLBFS_SHMEM, Linux 5.19 */

int pagewise_begin(void)
{
    AUTO_CLOSE int fd = -1;
    struct uffdio_api api = {.api = UFFD_API, .features = WP_SHMEM};

    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0) {
        return -1;
    }
    struct maps *m = maps_read();
    for (size_t i = 0; m != NULL && i < m->n; i++) {
        const struct mapping *at = &m->list[i];
        struct uffdio_register area = {
            .range = {.start = at->start, .len = at->end - at->start},
            .mode = UFFDIO_REGISTER_MODE_WP,
        };
        if (at->is_private && !at->is_kernel) {
            (void)ioctl(fd, UFFDIO_REGISTER, &area); /* refused for files of a disk */
        }
    }
    maps_free(m);
    return take_fd(&fd);
}
