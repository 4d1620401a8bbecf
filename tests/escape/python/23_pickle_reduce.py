# SPDX-License-Identifier: Apache-2.0
# technique: 37
# held: a pickle whose __reduce__ opens files gets nothing from outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os
import pickle
import copyreg
import shelve


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.popen, ("cat %s 2>/dev/null" % self.path,)


class Other(Bomb):
    __reduce__ = object.__reduce__


copyreg.pickle(Other, lambda bomb: (os.popen, ("cat %s 2>/dev/null" % bomb.path,)))
seen = []
for path in os.environ["HINT_FILES"].split(":"):
    with shelve.open("shelf") as shelf:
        shelf["x"] = Bomb(path)
        seen.append(shelf["x"].read())
    seen += [pickle.loads(pickle.dumps(kind(path))).read() for kind in (Bomb, Other)]
leaks = [text for text in seen if text]
print("ESCAPED: %s" % leaks if leaks else "HELD")
raise SystemExit(bool(leaks))
