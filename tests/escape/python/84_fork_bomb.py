# SPDX-License-Identifier: Apache-2.0
# technique: R1
# held: a fork bomb stops at the process limit and is gone at the time limit
# expect: status=timeout processes<=32
# cause: timeout
# limits: --timeout 1 --pids 32
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
