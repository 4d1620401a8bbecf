# SPDX-License-Identifier: Apache-2.0
# technique: S7
# held: processes that restart one another faster than they can be counted are all gone at the limit
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
import os
import time




def resurrect():
    while True:
        try:
            if os.fork() > 0:
                os._exit(0)
            os.setsid()
        except OSError:
            time.sleep(0.001)


for _ in range(4):
    try:
        if os.fork() == 0:
            resurrect()
    except OSError:
        break  # those before have filled the box already
while True:
    time.sleep(1)
