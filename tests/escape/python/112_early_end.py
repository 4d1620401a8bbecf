# SPDX-License-Identifier: Apache-2.0
# technique: 19 S6 S7
# held: code that says it is done and goes on is ended, not believed to be gone
# expect: status=completed|crashed|timeout stdout!~LATE wall_s<=4 husk_mb<=64
# limits: --timeout 2
import os

import sys

frame = sys._getframe()
while "_husk" not in frame.f_globals:
    frame = frame.f_back
channel = frame.f_globals["_husk"]

EXIT = 13
if os.fork() == 0:
    os.setsid()
    while True:
        pass
channel.done([(EXIT, bytes(4))])
for _ in range(1 << 30):
    pass
print("LATE", flush=True)
