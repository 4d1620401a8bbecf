# SPDX-License-Identifier: Apache-2.0
# technique: E5
# held: no cgroup control file can be opened for writing, and no cgroup tree can be mounted
# expect: status=completed exit=0 stdout~HELD
import ctypes
import os
import sys

names = {
    "release_agent",
    "notify_on_release",
    "devices.allow",
    "cgroup.procs",
    "tasks",
    "cgroup.kill",
}
found = []
for folder, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if not (folder == "/proc" and f.isdigit())]
    found += [os.path.join(folder, name) for name in names.intersection(files)]
opened = []
for path in found:
    try:
        os.close(os.open(path, os.O_WRONLY))
        opened.append(path)
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("cg")
for kind in (b"cgroup", b"cgroup2", b"proc", b"sysfs", b"tmpfs", b"debugfs", b"securityfs"):
    if libc.mount(b"none", b"cg", kind, 0, b"memory" if kind == b"cgroup" else None) == 0:
        opened.append(kind)
SYS_FSOPEN, CLONE_ALL = 430, 0x10000000 | 0x00020000 | 0x02000000
if libc.syscall(SYS_FSOPEN, b"cgroup2", 0) >= 0 or libc.unshare(CLONE_ALL) == 0:
    opened.append("fsopen or unshare")
print("ESCAPED: %s" % opened if opened else "HELD")
sys.exit(bool(opened))
