# SPDX-License-Identifier: Apache-2.0
# technique: 33 34 35
# held: rebinding every name that a runner might look up changes nothing in how the run is reported
# expect: status=completed exit=0 stdout~HELD error=none
import os as exit
import sys

out = sys.stdout
[__name__ := "husk"]
(print := None, quit := None)
for __builtins__ in ({"print": None},):
    pass
match [0, 1]:
    case [__loader__, *__spec__]:
        pass
with open("/dev/null") as __file__:
    pass


def hook(__import__, getattr=None, /, *, compile=None):
    return __import__


class Scope:
    globals = locals = exec = eval = SystemExit = BaseException = None


*sys.argv, traceback, json = [hook, None, None]
sys.modules["traceback"] = sys.modules["json"] = sys.modules["io"] = sys.modules["os"] = None
sys.exc_info = sys.excepthook = sys.exit = None
out.write("HELD\n")
del out, hook, Scope, exit
