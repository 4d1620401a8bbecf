# SPDX-License-Identifier: Apache-2.0
# technique: 1
# held: the os functions found by walking the subclasses of object read nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import sys

classes = ().__class__.__base__.__subclasses__()
wrapper = next(c for c in classes if c.__name__ == "_wrap_close")
reached = wrapper.__init__.__globals__

for path in reached["environ"]["HINT_FILES"].split(":"):
    try:
        fd = reached["open"](path, 0)
    except OSError:
        continue
    print("ESCAPED:", reached["read"](fd, 100))
    sys.exit(1)
print("HELD")
