# SPDX-License-Identifier: Apache-2.0
# technique: E6 E13
# held: namespace handles of any visible process cannot be entered
# expect: status=completed exit=0 stdout~HELD
import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
NS_GET_USERNS, NS_GET_PARENT = 0xB701, 0xB702
entered = []
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"):
        try:
            fd = os.open("/proc/%s/ns/%s" % (pid, name), os.O_RDONLY)
        except OSError:
            continue
        if libc.setns(fd, 0) == 0:
            entered.append((pid, name))
        for request in (NS_GET_USERNS, NS_GET_PARENT):
            outer = libc.ioctl(fd, request)
            if outer >= 0 and libc.setns(outer, 0) == 0:
                entered.append((pid, name, "parent"))
try:
    fd = os.pidfd_open(1)
    if libc.setns(fd, 0x10000000 | 0x00020000) == 0:
        entered.append("pidfd")
except OSError:
    pass
print("ESCAPED: %s" % entered if entered else "HELD")
sys.exit(bool(entered))
