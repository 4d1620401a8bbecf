# SPDX-License-Identifier: Apache-2.0
# technique: S7 R1
# held: unreaped children count against the limit and are gone with the run
# expect: status=timeout processes<=32
# cause: timeout
# limits: --timeout 1 --pids 32
import os

made = 0
while True:
    try:
        if os.fork() == 0:
            os._exit(0)
        made += 1
    except OSError:
        print("limit after", made, flush=True)
        break
while True:
    pass
