# SPDX-License-Identifier: Apache-2.0
# technique: 43 55
# held: libc called directly, past every Python check and audit hook, opens nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(100)

for path in os.environ["HINT_FILES"].split(":"):
    for prefix in ("", "/proc/1/root", "/proc/self/root", "/../../..", "/proc/self/cwd/../../.."):
        fd = libc.open((prefix + path).encode(), 0)
        if fd >= 0:
            libc.read(fd, buffer, 100)
            print("ESCAPED:", prefix, buffer.value)
            raise SystemExit(1)
print("HELD")
