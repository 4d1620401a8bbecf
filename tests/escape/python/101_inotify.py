# SPDX-License-Identifier: Apache-2.0
# technique: R4
# held: watch instances end at a quota of the box's own, long before that of its zygote's id
# expect: status=completed exit=0 stdout~HELD
import ctypes
import sys

libc = ctypes.CDLL(None, use_errno=True)
count = 0
while count < 5000 and libc.inotify_init1(0) >= 0:
    count += 1
held = 0 < count <= 16  # the namespace's own quota, not the much larger one of the host's id
print("HELD" if held else "ESCAPED:", count, ctypes.get_errno())
sys.exit(not held)
