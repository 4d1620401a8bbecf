# SPDX-License-Identifier: Apache-2.0
# technique: R2
# held: locking memory and huge pages are refused beyond a small amount
# expect: status=completed exit=0 stdout~HELD peak_mb<=65
# limits: --memory 64M --timeout 8
import ctypes
import mmap
import sys

libc = ctypes.CDLL(None, use_errno=True)
MAP_LOCKED, MAP_HUGETLB, MCL_ALL = 0x2000, 0x40000, 7
got = []
private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
for name, flag in (
    ("locked", MAP_LOCKED),
    ("huge", MAP_HUGETLB),
    ("huge 1G", MAP_HUGETLB | 30 << 26),
):
    try:
        mmap.mmap(-1, 32 << 20, flags=private | flag)
        got.append(name)
    except OSError:
        pass
area = mmap.mmap(-1, 32 << 20, flags=private)
address = ctypes.addressof(ctypes.c_char.from_buffer(area))
if libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(32 << 20)) == 0:
    got.append("mlock")
if libc.mlockall(MCL_ALL) == 0:
    got.append("mlockall")
print("ESCAPED: %s" % got if got else "HELD")
sys.exit(bool(got))
