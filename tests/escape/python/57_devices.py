# SPDX-License-Identifier: Apache-2.0
# technique: E15
# held: only the harmless device nodes exist and no other can be made
# expect: status=completed exit=0 stdout~HELD
import os
import stat
import sys

allowed = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)}
strange = []
for folder, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if folder != "/" or f not in ("proc", "sys")]
    for name in files:
        info = os.lstat(os.path.join(folder, name))
        number = (os.major(info.st_rdev), os.minor(info.st_rdev))
        if stat.S_ISBLK(info.st_mode) or (stat.S_ISCHR(info.st_mode) and number not in allowed):
            strange.append((os.path.join(folder, name), number))
for kind in (stat.S_IFCHR, stat.S_IFBLK):
    for number in ((1, 1), (1, 3), (7, 0), (10, 232), (10, 229), (254, 0)):
        try:
            os.mknod("/tmp/node", kind | 0o600, os.makedev(*number))
            strange.append(("mknod", number))
        except OSError:
            pass
for name in (
    "kvm",
    "vda",
    "fuse",
    "mem",
    "kmem",
    "port",
    "net/tun",
    "loop-control",
    "kmsg",
    "vhost-net",
):
    if os.path.exists("/dev/" + name):
        strange.append(name)
os.mkfifo("/tmp/fifo")
print("ESCAPED: %s" % strange if strange else "HELD")
sys.exit(bool(strange))
