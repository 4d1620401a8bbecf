# SPDX-License-Identifier: Apache-2.0
# technique: R3
# held: hard links without end are refused
# expect: status=completed exit=0 stdout~HELD
# limits: --memory 128M --disk 16M --timeout 15
import os
import sys

os.mknod("one")
for count in range(300000):
    try:
        os.link("one", "l%d" % count)
    except OSError as error:
        print("HELD", count, error.strerror)
        sys.exit(0)
print("ESCAPED: no limit")
sys.exit(1)
