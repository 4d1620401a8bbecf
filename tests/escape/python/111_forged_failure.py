# SPDX-License-Identifier: Apache-2.0
# technique: 19 S6
# held: a set-up failure claimed by running code does not take the place of the result
# expect: status=failed|crashed exit=3|125 stdout~HELD stderr!~FORGED
import sys

frame = sys._getframe()
while "_husk" not in frame.f_globals:
    frame = frame.f_back
channel = frame.f_globals["_husk"]

print("HELD", flush=True)
FAILED, MESSAGE = 17, 17
channel.send(FAILED, [(MESSAGE, b"FORGED: isolation step failed")])
sys.exit(3)
