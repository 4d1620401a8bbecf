# SPDX-License-Identifier: Apache-2.0
# technique: S7
# held: processes that restart one another faster than they can be counted are all gone at the limit
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
import os
import time

for _ in range(4):
    if os.fork() == 0:
        while True:
            try:
                if os.fork() > 0:
                    os._exit(0)
                os.setsid()
            except OSError:
                time.sleep(0.001)
while True:
    time.sleep(1)
