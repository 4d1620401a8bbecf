# SPDX-License-Identifier: Apache-2.0
# technique: E13
# held: only the box's own processes are visible, and no host pid can be signalled or read
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os
import sys

reached = []
stranger = int(os.environ["HINT_PID"])
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
if len(pids) > 3 or stranger in pids:
    reached.append(pids)
if os.getpid() != stranger:
    for action in (lambda: os.kill(stranger, 0), lambda: os.pidfd_open(stranger)):
        try:
            action()
            reached.append(stranger)
        except OSError:
            pass
for name in ("environ", "cmdline", "root/etc/passwd", "cwd/secret", "maps"):
    try:
        reached.append(open("/proc/%d/%s" % (stranger, name), "rb").read()[:100])
    except OSError:
        pass
print("ESCAPED: %s" % reached if reached else "HELD")
sys.exit(bool(reached))
