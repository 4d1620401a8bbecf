# SPDX-License-Identifier: Apache-2.0
# technique: R2 R4
# held: kernel memory in full pipes counts against the box
# expect: status=memory_exceeded|completed stdout!~ESCAPED peak_mb<=65
# limits: --memory 64M --timeout 8
import fcntl
import os

F_SETPIPE_SZ = 1031
block = b"x" * (1 << 16)
kept, total = [], 0
for _ in range(480):
    try:
        reader, writer = os.pipe()
    except OSError:
        break
    for size in (1 << 20, 1 << 18, 1 << 16):
        try:
            fcntl.fcntl(writer, F_SETPIPE_SZ, size)
            break
        except OSError:
            continue
    os.set_blocking(writer, False)
    try:
        while True:
            total += os.write(writer, block)
    except BlockingIOError:
        pass
    kept.append((reader, writer))
print("ESCAPED: %d MiB in pipes" % (total >> 20) if total > 64 << 20 else "HELD %d" % total)
