# SPDX-License-Identifier: Apache-2.0
# technique: S7 S6
# held: a program that closes every descriptor, the control one too, and sleeps is still timed
# expect: status=timeout
# cause: timeout
# limits: --timeout 1
import os
import time

os.closerange(0, 4096)
time.sleep(60)
