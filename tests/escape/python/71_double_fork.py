# SPDX-License-Identifier: Apache-2.0
# technique: S7
# held: a doubly forked daemon in its own session ends together with the run
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.closerange(0, 1024)
        while True:
            pass
    os._exit(0)
os.wait()
time.sleep(60)
