# SPDX-License-Identifier: Apache-2.0
# technique: Z3
# held: no readable byte of the process, inherited pages included, holds a secret of the host
# expect: status=completed exit=0 stdout~HELD
import ctypes
import os
import re
import sys

libc = ctypes.CDLL(None)
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
mark = re.compile(os.environ["HINT_MARK"].encode() + b"[0-9a-f]{32}")
scanned = 0
out = os.open("/tmp/scan", os.O_RDWR | os.O_CREAT)
chunk = 1 << 20
for line in open("/proc/self/maps").readlines():
    span, rights = line.split()[:2]
    start, end = (int(part, 16) for part in span.split("-"))
    if "r" not in rights or "[vsyscall]" in line:
        continue
    for address in range(start, end, chunk):
        os.ftruncate(out, 0)
        os.lseek(out, 0, 0)
        libc.write(out, address, min(chunk + 64, end - address))  # EFAULT instead of a crash
        os.lseek(out, 0, 0)
        data = os.read(out, chunk + 64)
        scanned += len(data)
        found = mark.search(data)
        if found:
            print("ESCAPED: found in", line)
            sys.exit(1)
assert scanned > 1 << 20
print("HELD", scanned)
