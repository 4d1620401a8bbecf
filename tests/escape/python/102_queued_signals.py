# SPDX-License-Identifier: Apache-2.0
# technique: R4
# held: queued signals end with EAGAIN at a small limit
# expect: status=completed exit=0 stdout~HELD
import ctypes
import errno
import os
import signal
import sys

libc = ctypes.CDLL(None, use_errno=True)
number = signal.SIGRTMIN + 1
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
count = 0
while count < 200000 and libc.sigqueue(os.getpid(), number, ctypes.c_void_p(count)) == 0:
    count += 1
held = count <= 65536 and ctypes.get_errno() == errno.EAGAIN
print("HELD" if held else "ESCAPED:", count, ctypes.get_errno())
sys.exit(not held)
