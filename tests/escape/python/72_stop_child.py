# SPDX-License-Identifier: Apache-2.0
# technique: S7
# held: stopped processes, which run no handler and take no ordinary signal, are ended at the limit
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
import os
import signal
import time

children = []
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(60)
    children.append(pid)
os.kill(os.getpid(), signal.SIGSTOP)
for pid in children:
    os.waitpid(pid, 0)
