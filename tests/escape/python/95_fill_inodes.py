# SPDX-License-Identifier: Apache-2.0
# technique: R3
# held: empty files end with ENOSPC at an inode limit that fits into the memory of a small box
# expect: status=completed exit=0 stdout~HELD
# limits: --memory 32M --disk 8M --timeout 15
import errno
import os
import sys

count = 0
try:
    while count < 500000:
        if count % 1000 == 0:
            os.mkdir("d%d" % count)
            os.chdir("d%d" % count)
        os.mknod("f%d" % count)
        count += 1
except OSError as error:
    print("HELD" if error.errno == errno.ENOSPC else "ESCAPED: %s" % error, count)
    sys.exit(error.errno != errno.ENOSPC)
print("ESCAPED: no limit")
sys.exit(1)
