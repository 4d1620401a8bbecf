# SPDX-License-Identifier: Apache-2.0
# technique: R2
# held: pages filled in by MAP_POPULATE count like touched ones
# expect: status=memory_exceeded exit=137 peak_mb<=65
# cause: oom
# limits: --memory 64M --timeout 8
import mmap

MAP_POPULATE = 0x8000
kept = []
while True:
    kept.append(mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_POPULATE))
