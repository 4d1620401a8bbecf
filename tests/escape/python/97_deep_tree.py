# SPDX-License-Identifier: Apache-2.0
# technique: R3 S3
# held: a tree too deep for any path is limited and goes away with the box
# expect: status=completed exit=0 stdout~HELD
# limits: --memory 128M --disk 16M --timeout 15
import os
import sys

depth = 0
try:
    while depth < 200000:
        os.mkdir("d")
        os.chdir("d")
        depth += 1
except OSError as error:
    print("HELD", depth, error.strerror)
    sys.exit(0)
print("ESCAPED: no limit")
sys.exit(1)
