# SPDX-License-Identifier: Apache-2.0
# technique: S5 S7
# held: a slow trickle of output does not push the time limit back
# expect: status=timeout stdout~^\.+$ truncated=false
# cause: timeout
# limits: --timeout 1
import os
import time

while True:
    os.write(1, b".")
    time.sleep(0.02)
