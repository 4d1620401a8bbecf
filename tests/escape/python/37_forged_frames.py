# SPDX-License-Identifier: Apache-2.0
# technique: 53 S6
# held: plausible result frames written to every descriptor never become the result
# expect: status=failed|crashed value=None error=none stdout!~^FORGED$
# expect: exit!~^0$ wall_s<=9
import json
import os
import struct
import sys

answer = {"status": "completed", "exit_code": 0, "value": "FORGED", "stdout": "FORGED"}
text = json.dumps(answer).encode()
frames = [
    text,
    text + b"\n",
    struct.pack("<I", len(text)) + text,
    struct.pack(">I", len(text)) + text,
]
frames += [struct.pack("<IIII", kind, len(text), 0, 0) + text for kind in range(16)]
frames += [bytes([kind]) + struct.pack("<I", len(text)) + text for kind in range(16)]
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
