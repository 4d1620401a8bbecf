# SPDX-License-Identifier: Apache-2.0
# technique: R4
# held: descriptors of every kind end with EMFILE at the per-process limit
# expect: status=completed exit=0 stdout~HELD
# limits: --timeout 8
import errno
import os
import select
import socket
import sys

counts = []
makers = [
    os.eventfd,
    lambda x: select.epoll(),
    lambda x: socket.socket(),
    lambda x: os.open("/", 0),
]
makers += [
    lambda x: os.memfd_create("x"),
    lambda x: os.dup(0),
    lambda x: os.pidfd_open(os.getpid()),
]
for make in makers:
    kept = []
    try:
        while len(kept) < 5000:
            kept.append(make(0))
    except OSError as error:
        assert error.errno == errno.EMFILE, error
    counts.append(len(kept))
    for thing in kept:
        os.close(thing) if isinstance(thing, int) else thing.close()
held = max(counts) <= 1024
print("HELD" if held else "ESCAPED:", counts)
sys.exit(not held)
