# SPDX-License-Identifier: Apache-2.0
# technique: 24 25 28
# held: format fields walk to environ and modules: only the box's own environment is there
# expect: status=completed exit=0 stdout~HELD
import os
import re
import tempfile


class Spy:
    def __init__(self):
        pass

    def __format__(self, spec):
        return "{0.__class__.__init__.__globals__}".format(self)

    def __getitem__(self, key):
        return self.__init__.__globals__["os"].environ

    __repr__ = lambda self: "{0.environ}".format(os)


text = f"{Spy()!r}{Spy()}" + "%(x)s" % Spy()
text += "{0._os.environ} {0._sys.modules[os].environ}".format(tempfile)
text += "{os.environ}".format_map({"os": os})
assert "HINT_FILES" in text, "no field path reached the environment"
if re.search(os.environ["HINT_MARK"] + "[0-9a-f]{32}", text):
    print("ESCAPED:", text)
    raise SystemExit(1)
print("HELD")
