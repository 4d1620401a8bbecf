# SPDX-License-Identifier: Apache-2.0
# technique: S7 S5
# held: an exit with spinning children that hold stdout open answers at once and ends them
# expect: status=completed exit=0 stdout~HELD wall_s<=5
import os

for index in range(8):
    if os.fork() == 0:
        if index % 2:
            os.setsid()
        while True:
            pass
os.write(1, b"HELD\n")
os._exit(0)
