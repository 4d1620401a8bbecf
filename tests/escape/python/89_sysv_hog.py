# SPDX-License-Identifier: Apache-2.0
# technique: R2 R4
# held: SysV segments stop at the limit and vanish with the box
# expect: status=memory_exceeded|completed stdout!~ESCAPED peak_mb<=65
# limits: --memory 64M --timeout 8
import ctypes

libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
IPC_PRIVATE, SIZE = 0, 4 << 20
for count in range(64):
    segment = libc.shmget(IPC_PRIVATE, SIZE, 0o600)
    if segment < 0:
        print("HELD after", count)
        break
    ctypes.memset(libc.shmat(segment, None, 0), 1, SIZE)
else:
    print("ESCAPED: 256 MiB of segments")
