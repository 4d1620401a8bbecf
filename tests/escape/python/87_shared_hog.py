# SPDX-License-Identifier: Apache-2.0
# technique: R2
# held: shared anonymous memory counts too
# expect: status=memory_exceeded exit=137 peak_mb<=65
# cause: oom
# limits: --memory 64M --timeout 8
import mmap

kept = []
while True:
    area = mmap.mmap(-1, 4 << 20)
    for offset in range(0, 4 << 20, 4096):
        area[offset] = 1
    kept.append(area)
