# SPDX-License-Identifier: Apache-2.0
# technique: R3
# held: attributes on files are refused or counted
# expect: status=completed|memory_exceeded stdout!~ESCAPED peak_mb<=129
# limits: --memory 128M --disk 16M --timeout 8
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
