# SPDX-License-Identifier: Apache-2.0
# technique: R4
# held: pseudo-terminals, of which a host has a fixed number for all, end at a limit of the box's own
# expect: status=completed exit=0 stdout~HELD
import errno
import os
import sys

opened = []
got = 0
while len(opened) < 500 and not got:
    try:
        opened.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    except OSError as error:
        got = error.errno
held = 0 < len(opened) <= 64 and got == errno.ENOSPC
print("HELD" if held else "ESCAPED:", len(opened), got)
sys.exit(not held)
