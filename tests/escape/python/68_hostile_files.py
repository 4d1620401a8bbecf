# SPDX-License-Identifier: Apache-2.0
# technique: S2 S3
# held: pipes, sockets, links, odd names and a huge sparse file left behind do not hold up the end
# expect: status=completed exit=0 stdout~HELD wall_s<=6
import os
import socket

os.mkfifo("stdout")
os.mkfifo("result.json")
socket.socket(socket.AF_UNIX).bind("control.sock")
os.symlink("/dev/zero", "output")
os.symlink("loop", "loop")
os.symlink("/proc/1/root", "root")
for name in (b"-rf", b"..x", b"new\nline", b"\xff\xfe", b"\x1b[2J", b"x" * 255, b"*", b"$(reboot)"):
    open(name, "w").close()
    os.mkdir(name[:250] + b".d", 0o000)
try:
    with open("sparse", "w") as stream:
        stream.truncate(4 << 40)
except OSError as error:
    print("sparse:", error.strerror)
os.mkdir("closed")
open("closed/file", "w").close()
os.chmod("closed", 0)
print("HELD")
