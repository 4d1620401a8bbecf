# SPDX-License-Identifier: Apache-2.0
# technique: S6 S7
# held: signals at everybody end nothing outside the box, and the true end is reported
# expect: status=failed exit=1 stdout~HELD
import os
import signal
import sys

for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
print("HELD", flush=True)
stranger = int(os.environ["HINT_PID"])
for target in (stranger, -stranger, os.getppid() or stranger):
    for number in (signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(target, number)
        except OSError:
            pass
try:
    os.kill(-1, signal.SIGTERM)
except OSError:
    pass
sys.exit(1)
