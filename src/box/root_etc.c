/* SPDX-License-Identifier: Apache-2.0 */
/* A synthetic /etc: nothing of the host's users, names or networks; see root_etc.h. */
#include "box/root_etc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

static const struct {
    const char *path;
    const char *text;
} files[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                   "user:x:1000:1000:user:/workspace:/bin/bash\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"},
    {"etc/hosts", "127.0.0.1 localhost husk\n::1 localhost\n"},
    {"etc/hostname", "husk\n"},
    {"etc/host.conf", "multi on\n"},
    {"etc/nsswitch.conf",
     "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"},
    {"etc/resolv.conf", "# a box has no network\n"},
    /*
     * What pip can say without a network, in its own output: it prints where it looks. Wheels in
     * the workspace can still be installed.
     */
    {"etc/pip.conf", "[global]\n"
                     "disable-pip-version-check = true\n"
                     "no-index = true\n"
                     "break-system-packages = true\n"
                     "find-links = /a-box-has-no-network/packages-come-with-its-template/"
                     "see-husk-template-add\n"},
    {"etc/machine-id", "00000000000000000000000000000000\n"},
    {"etc/os-release", "NAME=husk\nID=husk\nPRETTY_NAME=\"husk box\"\n"},
};

int root_etc_write(struct err *e)
{
    if (mkdir("etc", 0755) < 0 && errno != EEXIST) {
        return err_sys(e, errno, "make /etc");
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        AUTO_CLOSE int fd = open(files[i].path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
        if (fd < 0) {
            if (errno == EEXIST) { /* the template placed its own */
                continue;
            }
            return err_sys(e, errno, "make /%s", files[i].path);
        }
        int r = fd_write_all(fd, files[i].text, strlen(files[i].text));
        if (r < 0) {
            return err_sys(e, -r, "write /%s", files[i].path);
        }
    }
    return 0;
}
