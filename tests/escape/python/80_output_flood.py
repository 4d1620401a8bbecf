# SPDX-License-Identifier: Apache-2.0
# technique: S5
# held: endless output is cut, marked as cut and ends the run, without growing husk
# expect: status=failed truncated=true husk_mb<=64
# cause: output_limit
# limits: --timeout 8
import os

block = b"x" * (1 << 20)
while True:
    os.write(1, block)
