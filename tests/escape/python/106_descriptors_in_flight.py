# SPDX-License-Identifier: Apache-2.0
# technique: R4
# held: descriptors parked in unsent messages end with ETOOMANYREFS
# expect: status=completed|memory_exceeded stdout!~ESCAPED
# limits: --memory 64M --timeout 8
import array
import errno
import socket

total = 0
kept = []
passed = open("/dev/null")
parcel = array.array("i", [passed.fileno()] * 250)
try:
    for _ in range(400):
        left, right = socket.socketpair()
        left.setblocking(False)
        kept += [left, right]
        for _ in range(100):
            left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, parcel)])
            total += 250
except OSError as error:
    held = error.errno in (errno.ETOOMANYREFS, errno.EMFILE) and total < 100000
    print("HELD" if held else "ESCAPED:", total, error.strerror)
else:
    print("ESCAPED:", total)
