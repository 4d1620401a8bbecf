# SPDX-License-Identifier: Apache-2.0
# technique: 53 S6
# held: plausible result frames written to every descriptor never become the result
# expect: status=failed|crashed value=None error=none stdout!~^FORGED$
# expect: exit!~^0$ wall_s<=9
import json
import os
import struct
import sys

answer = {"status": "completed", "exit_code": 0, "value": "FORGED"}
text = json.dumps(answer).encode()
fields = struct.pack("<III", 13, 4, 0) + struct.pack("<II", 14, 6) + b"FORGED"
frames = [struct.pack("<II", kind, len(fields)) + bytes(16) + fields for kind in range(24)]
frames += [
    text,
    text + b"\n",
    struct.pack("<I", len(text)) + text,
    struct.pack(">I", len(text)) + text,
]
for name in os.listdir("/proc/self/fd"):
    fd = int(name)
    if fd < 3:
        continue
    for frame in frames:
        try:
            os.set_blocking(fd, False)
            os.write(fd, frame)
        except OSError:
            pass
sys.stdout.flush()
os._exit(3)
