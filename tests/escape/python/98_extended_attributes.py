# SPDX-License-Identifier: Apache-2.0
# technique: R3
# held: attributes on files end with ENOSPC, not with an OOM kill
# expect: status=completed exit=0 stdout~HELD
# limits: --memory 64M --disk 16M --timeout 8
import os

total = 0
try:
    for number in range(2000):
        name = "a%d" % number
        os.mknod(name)
        for key in range(64):
            os.setxattr(name, "user.%d" % key, b"x" * 4000)
            total += 4000
except OSError as error:
    print("HELD", total, error.strerror)
else:
    print("ESCAPED: %d MiB of attributes" % (total >> 20))
