# SPDX-License-Identifier: Apache-2.0
# technique: 19 S5
# held: an endless stream of well-formed frames does not grow husk and does not outlast the limit
# expect: status=timeout|crashed husk_mb<=64 wall_s<=6
# limits: --timeout 2
import os
import struct
import sys

frame = sys._getframe()
while "_husk" not in frame.f_globals:
    frame = frame.f_back
channel = frame.f_globals["_husk"]

CONTROL, DISPLAY = 3, 18
big = bytes(20 << 20)
while channel.display([(b"application/octet-stream", big)]):
    pass  # as long as our own code lets it
while True:
    os.write(CONTROL, struct.pack("<II16s", DISPLAY, len(big), os.urandom(16)) + big)
