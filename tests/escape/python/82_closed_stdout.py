# SPDX-License-Identifier: Apache-2.0
# technique: S5
# held: closing stdout early neither ends the run nor loses what comes on stderr
# expect: status=completed exit=0 stderr~HELD wall_s<=5
import os
import time

os.close(1)
time.sleep(0.2)
os.write(2, b"HELD\n")
os._exit(0)
