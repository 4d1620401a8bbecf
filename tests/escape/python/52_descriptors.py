# SPDX-License-Identifier: Apache-2.0
# technique: E3
# held: only the standard streams and one control socket are open; cwd is the workspace
# expect: status=completed exit=0 stdout~HELD
import os
import stat
import sys

strange = []
sockets = 0
for fd in range(1024):
    try:
        info = os.fstat(fd)
    except OSError:
        continue
    target = os.readlink("/proc/self/fd/%d" % fd)
    if fd < 3 and (
        stat.S_ISFIFO(info.st_mode) or stat.S_ISSOCK(info.st_mode) or target == "/dev/null"
    ):
        continue
    if fd >= 3 and stat.S_ISSOCK(info.st_mode) and sockets == 0:
        sockets += 1
        continue
    strange.append((fd, target))
if os.getcwd() != "/workspace" or os.readlink("/proc/self/root") != "/":
    strange.append((os.getcwd(), os.readlink("/proc/self/root")))
for name in ("..", "../..", "../../../../../../.."):
    if os.path.exists(os.path.join(name, os.environ["HINT_FILES"].split(":")[0][1:])):
        strange.append(name)
print("ESCAPED: %s" % strange if strange else "HELD", sockets)
sys.exit(bool(strange))
