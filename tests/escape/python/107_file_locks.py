# SPDX-License-Identifier: Apache-2.0
# technique: R4
# held: record locks, which Linux charges to nobody, cost time for each one and end with the box
# expect: status=completed|timeout stdout!~ESCAPED
# limits: --memory 64M --timeout 4 --cpus 0.5
import fcntl
import os

made = 0
while made < 3000000:
    fd = os.open("locked%d" % (made // 8000), os.O_RDWR | os.O_CREAT)
    for index in range(8000):
        fcntl.lockf(fd, fcntl.LOCK_EX, 1, (1 << 30) - 2 * index)
    made += 8000
print("ESCAPED: %d locks in four seconds of half a core" % made)
