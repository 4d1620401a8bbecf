# SPDX-License-Identifier: Apache-2.0
# technique: R5
# held: eight spinning processes on all cores get half a core together over two seconds
# expect: status=completed exit=0 stdout~HELD cpu_ms<=1400
# limits: --cpus 0.5 --timeout 10
import os
import time

until = time.monotonic() + 2
for _ in range(8):
    if os.fork() == 0:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        while time.monotonic() < until:
            pass
        os._exit(0)
for _ in range(8):
    os.wait()
print("HELD")
