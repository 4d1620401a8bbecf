# SPDX-License-Identifier: Apache-2.0
# technique: R4
# held: POSIX queues are refused or end at a small limit; SysV queues live in the box's memory
# expect: status=completed exit=0 stdout~HELD
import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
posix = 0
while posix < 2000:
    if libc.mq_open(b"/q%d" % posix, os.O_CREAT | os.O_RDWR, 0o600, None) < 0:
        break
    posix += 1
IPC_PRIVATE, IPC_CREAT = 0, 0o1000
sysv = 0
block = ctypes.create_string_buffer(8 + 8000)
block[0] = b"\x01"
while sysv < 4000:
    queue = libc.msgget(IPC_PRIVATE, IPC_CREAT | 0o600)
    if queue < 0 or libc.msgsnd(queue, block, 8000, 0o4000) < 0:
        break
    sysv += 1
held = posix < 2000  # SysV queues: their number is limited by the memory that they take
print("HELD" if held else "ESCAPED:", posix, sysv)
sys.exit(not held)
