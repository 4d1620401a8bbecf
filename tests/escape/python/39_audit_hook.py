# SPDX-License-Identifier: Apache-2.0
# technique: 55 S6
# held: an audit hook that refuses every event cannot turn a failure into success
# expect: status=failed|crashed exit=1|3|134|139 stdout~HELD wall_s<=9
import os
import sys


def refuse(event, args):
    raise RuntimeError("refused: " + event)


os.write(1, b"HELD\n")
sys.addaudithook(refuse)
sys.exit(3)
