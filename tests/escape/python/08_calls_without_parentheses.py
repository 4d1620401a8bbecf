# SPDX-License-Identifier: Apache-2.0
# technique: 10 11 12 13
# held: call gadgets (metaclass, decorator, class hooks, property) end in an open that fails
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os

seen = []


def read(path):
    try:
        with open(path) as stream:
            seen.append(stream.read())
    except OSError:
        pass
    return path


for path in os.environ["HINT_FILES"].split(":"):

    class Meta(type):
        __getitem__ = lambda cls, key: read(key)

    class Target(metaclass=Meta):
        hook = property(lambda self: read(path))
        __class_getitem__ = __init_subclass__ = classmethod(lambda cls, *args: read(path))

    class Named:
        __set_name__ = lambda self, owner, name: read(path)

    Target[path]
    Target().hook
    type("Child", (Target,), {"field": Named()})

    @lambda function: read(path)
    def decorated():
        pass


print("ESCAPED: %s" % seen if seen else "HELD")
raise SystemExit(bool(seen))
