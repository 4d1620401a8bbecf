# SPDX-License-Identifier: Apache-2.0
# technique: 9 14
# held: classes built by type() and a module __getattr__ import nothing that reaches outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import sys
import types

hooked = types.ModuleType("hooked")
hooked.__path__ = []
hooked.__getattr__ = lambda name: __import__(name)
sys.modules["hooked"] = hooked
from hooked import os, pathlib

Reader = type(
    "Reader", (str,), {"__truediv__": lambda self, other: pathlib.Path(other).read_text()}
)

for path in os.environ["HINT_FILES"].split(":"):
    try:
        print("ESCAPED:", Reader() / path)
    except OSError:
        continue
    sys.exit(1)
print("HELD")
