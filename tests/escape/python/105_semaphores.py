# SPDX-License-Identifier: Apache-2.0
# technique: R4
# held: semaphore sets are counted and belong to the box alone
# expect: status=completed|memory_exceeded stdout!~ESCAPED peak_mb<=65
# limits: --memory 64M --timeout 8
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
IPC_PRIVATE, IPC_CREAT = 0, 0o1000
total = 0
for _ in range(3000):
    if libc.semget(IPC_PRIVATE, 30000, IPC_CREAT | 0o600) < 0:
        print("HELD", total)
        break
    total += 30000
else:
    print("ESCAPED: %d semaphores" % total)
