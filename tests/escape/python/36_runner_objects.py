# SPDX-License-Identifier: Apache-2.0
# technique: 51 Z3
# held: no object that the collector knows, the runner's included, holds a secret of the host
# expect: status=completed exit=0 stdout~HELD
import gc
import os
import re
import sys

mark = re.compile(os.environ["HINT_MARK"] + "[0-9a-f]{32}")
todo = gc.get_objects() + list(sys.modules.values()) + [sys._getframe().f_builtins]
known = set()
count = 0
while todo and count < 400000:
    thing = todo.pop()
    if id(thing) in known:
        continue
    known.add(id(thing))
    count += 1
    if isinstance(thing, (str, bytes)):
        text = thing if isinstance(thing, str) else thing.decode("latin-1")
        if mark.search(text):
            print("ESCAPED:", text[:200])
            sys.exit(1)
        continue
    todo += gc.get_referents(thing)
print("HELD", count)
