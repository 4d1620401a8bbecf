# SPDX-License-Identifier: Apache-2.0
# technique: S5
# held: binary output, broken and split UTF-8 and NUL bytes still make one well-formed answer
# expect: status=completed exit=0 stdout~HELD
import os
import time

os.write(1, bytes(range(256)))
os.write(2, b"\xff\xfe\x00\xc3\x28\xed\xa0\x80\xf4\x90\x80\x80")
for byte in "\u20ac\U0001f600".encode():
    os.write(1, bytes([byte]))
    time.sleep(0.01)
os.write(1, b'"}],"status":"completed"}\n\x1b]52;c;eA==\x07\x1b[2J\x9b\r\n')
os.write(1, b"HELD \xe2\x82")
