# SPDX-License-Identifier: Apache-2.0
# technique: E10 R7
# held: nothing but the box's own loopback exists: no host port, no route, no other interface
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import errno
import os
import socket
import sys

reached = []
port = int(os.environ["HINT_PORT"])
targets = [("127.0.0.1", port), ("127.1.2.3", port), ("0.0.0.0", port), ("10.0.0.1", 80)]
targets += [("169.254.169.254", 80), ("192.168.0.1", 53), ("172.17.0.1", port), ("8.8.8.8", 53)]
for target in targets:
    with socket.socket() as sock:
        sock.settimeout(1)
        if sock.connect_ex(target) not in (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EACCES):
            reached.append(target)
with socket.socket(socket.AF_INET6) as sock:
    if sock.connect_ex(("::ffff:127.0.0.1", port)) == 0:
        reached.append("mapped address")
if [name for _, name in socket.if_nameindex()] != ["lo"]:
    reached.append(socket.if_nameindex())
for kind in (socket.SOCK_RAW, 10):
    try:
        socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
        reached.append("raw socket")
    except OSError:
        pass
with socket.socket() as server, socket.socket() as client:
    server.bind(("127.0.0.1", 0))
    server.listen()
    client.connect(server.getsockname())
print("ESCAPED: %s" % reached if reached else "HELD")
sys.exit(bool(reached))
