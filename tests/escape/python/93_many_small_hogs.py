# SPDX-License-Identifier: Apache-2.0
# technique: R2
# held: twenty processes that each stay small are limited together
# expect: status=memory_exceeded peak_mb<=65
# cause: oom
# limits: --memory 64M --pids 32 --timeout 8
import os
import time

for _ in range(20):
    if os.fork() == 0:
        kept = bytearray(b"x") * (8 << 20)
        time.sleep(60)
time.sleep(60)
