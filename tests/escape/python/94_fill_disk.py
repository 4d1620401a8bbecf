# SPDX-License-Identifier: Apache-2.0
# technique: R3
# held: the workspace and /tmp together end with ENOSPC at the disk limit, not with an OOM kill
# expect: status=completed exit=0 stdout~HELD
# limits: --memory 128M --disk 16M --timeout 8
import errno
import os
import sys

block = b"x" * (1 << 16)
total, errors = 0, set()
for folder in ("/workspace", "/tmp", "/dev/shm", "/var/tmp", "/run", os.environ["HOME"]):
    try:
        fd = os.open(folder + "/fill", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        while total < 64 << 20:
            total += os.write(fd, block)
    except OSError as error:
        errors.add(error.errno)
held = total <= 17 << 20 and errors & {errno.ENOSPC, errno.EDQUOT}
print("HELD" if held else "ESCAPED:", total, errors)
sys.exit(not held)
