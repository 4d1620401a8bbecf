# SPDX-License-Identifier: Apache-2.0
# technique: R5
# held: no better priority, real-time class or deadline can be had
# expect: status=completed exit=0 stdout~HELD
import ctypes
import os
import struct
import sys

got = []
attempts = {
    "nice": lambda: os.setpriority(os.PRIO_PROCESS, 0, -20),
    "fifo": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    "rr": lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)),
    "other user": lambda: os.setpriority(os.PRIO_USER, 0, -1),
}
for name, action in attempts.items():
    try:
        action()
        got.append(name)
    except OSError:
        pass
libc = ctypes.CDLL(None)
SYS_SCHED_SETATTR, SYS_IOPRIO_SET, SCHED_DEADLINE = 314, 251, 6
attr = struct.pack("<IIQiIQQQ", 48, SCHED_DEADLINE, 0, 0, 0, 10**7, 10**8, 10**8)
if libc.syscall(SYS_SCHED_SETATTR, 0, attr, 0) == 0:
    got.append("deadline")
if libc.syscall(SYS_IOPRIO_SET, 1, 0, 1 << 13) == 0:
    got.append("real-time io")
print("ESCAPED: %s" % got if got else "HELD")
sys.exit(bool(got))
