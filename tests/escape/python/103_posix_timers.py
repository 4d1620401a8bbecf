# SPDX-License-Identifier: Apache-2.0
# technique: R4
# held: timers end with EAGAIN at the same limit as queued signals
# expect: status=completed exit=0 stdout~HELD
import ctypes
import errno
import sys

libc = ctypes.CDLL(None, use_errno=True)
timer = ctypes.c_void_p()
CLOCK_MONOTONIC = 1
count = 0
while count < 200000 and libc.timer_create(CLOCK_MONOTONIC, None, ctypes.byref(timer)) == 0:
    count += 1
held = count <= 65536 and ctypes.get_errno() == errno.EAGAIN
print("HELD" if held else "ESCAPED:", count, ctypes.get_errno())
sys.exit(not held)
