# SPDX-License-Identifier: Apache-2.0
# technique: E10 E11
# held: no abstract and no path socket of the host answers, and none is to be found in the box
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os
import socket
import stat
import sys

reached = []
names = ["\0" + os.environ["HINT_SOCKET"], os.environ["HINT_SOCKET_PATH"], "/run/docker.sock"]
names += ["/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"]
names += [
    root + names[1] for root in ("/proc/1/root", "/proc/self/root", "/proc/self/cwd/../../..")
]
for name in names:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try:
            with socket.socket(socket.AF_UNIX, kind) as sock:
                sock.settimeout(1)
                sock.connect(name)
                reached.append(name)
        except OSError:
            pass
for folder, folders, files in os.walk("/" if not reached else "/run"):
    folders[:] = [f for f in folders if folder != "/" or f not in ("proc", "sys")]
    for name in files:
        if stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode):
            reached.append(os.path.join(folder, name))
if "husk-canary" in open("/proc/net/unix").read():
    reached.append("/proc/net/unix")
print("ESCAPED: %r" % reached if reached else "HELD")
sys.exit(bool(reached))
