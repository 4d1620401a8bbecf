/* SPDX-License-Identifier: Apache-2.0 */
/* Id range leases; see lease.h. */
#include "launcher/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/idmap.h"

#define LEASE_DIR "/run/husk"
#define LEASE_FILE LEASE_DIR "/ids"

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

int lease_take(uint32_t wards, struct lease *ret, struct err *e)
{
    AUTO_CLOSE int fd = open_file(e);

    if (fd < 0) {
        return -1;
    }
    for (uint32_t first = 0; first + wards <= IDMAP_WARDS; first++) {
        struct flock lock = {
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = wards};
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            *ret = (struct lease){.fd = take_fd(&fd), .first = first, .wards = wards};
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES) {
            return err_sys(e, errno, "lock %s", LEASE_FILE);
        }
    }
    return err_set(e, ERR_LIMIT, "all host id ranges are in use by other husk launchers");
}

void lease_drop(struct lease *lease)
{
    fd_close(&lease->fd);
    *lease = (struct lease){.fd = -1};
}
