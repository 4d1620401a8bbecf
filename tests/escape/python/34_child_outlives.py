# SPDX-License-Identifier: Apache-2.0
# technique: 49 S7
# held: a child in its own session does not outlive the program and does not delay the answer
# expect: status=completed exit=0 stdout~HELD stdout!~LATE wall_s<=5
import os
import sys
import time

for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for _ in range(200):
                time.sleep(0.05)
                os.write(1, b".")
            os.write(1, b"LATE")
        os._exit(0)
print("HELD")
sys.stdout.flush()
os._exit(0)
