# SPDX-License-Identifier: Apache-2.0
# technique: R3 S3
# held: a tree too deep for any path ends at a limit and goes away with the box
# expect: status=completed|timeout stdout!~ESCAPED
# limits: --memory 128M --disk 16M --timeout 3
import os

depth = 0
try:
    while depth < 200000:
        os.mkdir("d")
        os.chdir("d")
        depth += 1
except OSError as error:
    print("HELD", depth, error.strerror)
else:
    print("ESCAPED: no limit")
