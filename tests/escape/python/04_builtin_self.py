# SPDX-License-Identifier: Apache-2.0
# technique: 4
# held: the builtins module behind a builtin's __self__ opens nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os

builtins = len.__self__
reached_open = getattr(builtins, "open")

for path in os.environ["HINT_FILES"].split(":"):
    try:
        print("ESCAPED:", reached_open(path).read())
    except OSError:
        continue
    raise SystemExit(1)
print("HELD")
