# SPDX-License-Identifier: Apache-2.0
# technique: 19 S6
# held: a set-up failure claimed by running code does not take the place of the result
# expect: status=failed|crashed exit=3|125 stdout~HELD stderr!~FORGED
import os
import struct
import sys

print("HELD", flush=True)
CONTROL, FAILED, MESSAGE = 3, 17, 17
text = b"FORGED: isolation step failed"
fields = struct.pack("<II", MESSAGE, len(text)) + text
os.write(CONTROL, struct.pack("<II16s", FAILED, len(fields), os.urandom(16)) + fields)
sys.exit(3)
