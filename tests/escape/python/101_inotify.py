# SPDX-License-Identifier: Apache-2.0
# technique: R4
# held: watch instances end at a limit of the box's own ids
# expect: status=completed exit=0 stdout~HELD
import ctypes
import sys

libc = ctypes.CDLL(None, use_errno=True)
count = 0
while count < 5000 and libc.inotify_init1(0) >= 0:
    count += 1
held = count < 1024
print("HELD" if held else "ESCAPED:", count, ctypes.get_errno())
sys.exit(not held)
