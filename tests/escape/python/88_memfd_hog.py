# SPDX-License-Identifier: Apache-2.0
# technique: R2
# held: memory files count although they belong to no mounted file system
# expect: status=memory_exceeded exit=137 peak_mb<=65
# cause: oom
# limits: --memory 64M --timeout 8
import os

block = b"x" * (1 << 20)
while True:
    fd = os.memfd_create("hog")
    for _ in range(16):
        os.write(fd, block)
