# SPDX-License-Identifier: Apache-2.0
# technique: E7 E14
# held: only unix, internet and route sockets can be made: exactly EAFNOSUPPORT for the rest
# expect: status=completed exit=0 stdout~HELD
import errno
import socket
import sys

wrong = []
for family in range(64):
    for kind, protocol in (
        (socket.SOCK_STREAM, 0),
        (socket.SOCK_DGRAM, 0),
        (socket.SOCK_SEQPACKET, 0),
    ):
        try:
            socket.socket(family, kind, protocol).close()
            got = 0
        except OSError as error:
            got = error.errno
        if family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
            continue
        if got != errno.EAFNOSUPPORT:
            wrong.append((family, kind, got))
for protocol in range(1, 32):
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol).close()
        wrong.append(("netlink", protocol))
    except OSError:
        pass
for kind, protocol in ((3, 1), (1, 132), (5, 132), (1, 262), (2, 136), (6, 33)):
    try:
        socket.socket(socket.AF_INET, kind, protocol).close()
        wrong.append(("inet", kind, protocol))
    except OSError:
        pass
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
print("ESCAPED: %s" % wrong if wrong else "HELD")
sys.exit(bool(wrong))
