# SPDX-License-Identifier: Apache-2.0
# technique: Z3
# held: no memory that could be written is shared with the zygote, so boxes cannot talk through it or disturb a birth
# expect: status=completed exit=0 stdout~HELD
import re
import sys

with open("/proc/self/maps") as stream:
    shared = [line.rstrip() for line in stream if re.match(r"\S+ .w.s ", line)]
print("ESCAPED: %s" % shared if shared else "HELD")
sys.exit(bool(shared))
