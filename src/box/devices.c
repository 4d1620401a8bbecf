/* SPDX-License-Identifier: Apache-2.0 */
/* A box's /dev; see devices.h. */
#include "box/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fd.h"

const struct device devices[] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};
const unsigned devices_n = ARRAY_LEN(devices);

const struct device_link device_links[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},         {"shm", "/tmp"},
};
const unsigned device_links_n = ARRAY_LEN(device_links);

static int fill(int mount, struct err *e)
{
    for (unsigned i = 0; i < devices_n; i++) {
        const struct device *d = &devices[i];
        /* The mode again: mknod() subtracts the umask. */
        if (mknodat(mount, d->name, S_IFCHR | 0666, makedev(d->major, d->minor)) < 0 ||
            fchmodat(mount, d->name, 0666, 0) < 0) {
            return err_sys(e, errno, "make device %s", d->name);
        }
    }
    for (unsigned i = 0; i < device_links_n; i++) {
        if (symlinkat(device_links[i].text, mount, device_links[i].name) < 0) {
            return err_sys(e, errno, "make link %s", device_links[i].name);
        }
    }
    if (mkdirat(mount, "pts", 0755) < 0) {
        return err_sys(e, errno, "make pts");
    }
    return 0;
}

int devices_mount(struct err *e)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY, .propagation = MS_PRIVATE};
    AUTO_CLOSE int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    AUTO_CLOSE int mount = -1;

    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "size", "64k", 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
        return err_sys(e, errno, "new file system for devices");
    }
    mount = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (mount < 0) {
        return err_sys(e, errno, "mount file system for devices");
    }
    if (fill(mount, e) < 0) {
        return -1;
    }
    if (mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0) {
        return err_sys(e, errno, "make devices read-only");
    }
    return take_fd(&mount);
}
