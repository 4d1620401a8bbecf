# SPDX-License-Identifier: Apache-2.0
# technique: 21 S6
# held: trace and profile hooks that stay on while the runner finishes cannot change the exit code
# expect: status=failed exit=3 stdout~HELD value=None error=none
import sys


def spy(frame, event, arg):
    for name in ("status", "exit_code", "code", "rc", "ok"):
        if name in frame.f_locals:
            frame.f_locals[name] = 0
    return spy


sys.settrace(spy)
sys.setprofile(spy)
frame = sys._getframe()
while frame:
    frame.f_trace = spy
    frame = frame.f_back
print("HELD")
sys.exit(3)
