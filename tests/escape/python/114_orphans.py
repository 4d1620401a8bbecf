# SPDX-License-Identifier: Apache-2.0
# technique: 49 S7
# held: orphans that have ended are reaped and do not use up the box's processes
# expect: status=completed exit=0 stdout~HELD
# limits: --pids 32 --timeout 10
import os
import sys

for number in range(100):
    try:
        pid = os.fork()
    except OSError as error:
        print("full after", number, error.strerror)
        sys.exit(1)
    if pid == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
print("HELD")
