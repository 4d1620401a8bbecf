# SPDX-License-Identifier: Apache-2.0
# technique: R2 R7
# held: datagrams waiting in loopback sockets count against the box, not against the host
# expect: status=memory_exceeded|completed stdout!~ESCAPED peak_mb<=65
# limits: --memory 64M --timeout 8
import socket

kept, total = [], 0
for _ in range(500):
    try:
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    except OSError:
        break
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
    receiver.bind(("127.0.0.1", 0))
    receiver.setblocking(False)
    sender.setblocking(False)
    address = receiver.getsockname()
    for _ in range(8):
        try:
            sender.sendto(b"x" * 60000, address)
        except OSError:
            break
    kept += [receiver, sender]
for receiver in kept[::2]:
    try:
        while True:
            total += len(receiver.recv(65536))
    except OSError:
        pass
print("ESCAPED: %d MiB in sockets" % (total >> 20) if total > 64 << 20 else "HELD %d" % total)
