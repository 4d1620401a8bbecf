# SPDX-License-Identifier: Apache-2.0
# technique: R3 S2
# held: sparse files take no space: writing their holes ends at the limit
# expect: status=completed exit=0 stdout~HELD
# limits: --memory 128M --disk 16M --timeout 8
import errno
import os
import sys

fd = os.open("sparse", os.O_RDWR | os.O_CREAT)
try:
    os.ftruncate(fd, 4 << 40)
except OSError as error:
    assert error.errno in (errno.EFBIG, errno.ENOSPC), error
    os.ftruncate(fd, 8 << 20)
written = 0
try:
    for index in range(20000):
        os.pwrite(fd, b"x", index * 4096)
        written += 4096
    print("ESCAPED:", written)
    sys.exit(1)
except OSError as error:
    assert error.errno in (errno.ENOSPC, errno.EFBIG), error
try:
    os.posix_fallocate(os.open("full", os.O_RDWR | os.O_CREAT), 0, 1 << 30)
    print("ESCAPED: 1 GiB reserved")
    sys.exit(1)
except OSError as error:
    print("HELD", written, error.strerror)
