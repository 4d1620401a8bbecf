# SPDX-License-Identifier: Apache-2.0
# technique: 2 7
# held: the import system's own file loader, reached by __mro__, reads nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os
import sys

base = "".__class__.__mro__[-1]
assert base is (0).__class__.__bases__[0]
loader = next(c for c in base.__subclasses__() if c.__name__ == "FileLoader")

for path in os.environ["HINT_FILES"].split(":"):
    try:
        print("ESCAPED:", loader.get_data(loader("x", path), path))
    except OSError:
        continue
    sys.exit(1)
print("HELD")
