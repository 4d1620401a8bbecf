# SPDX-License-Identifier: Apache-2.0
# technique: 26 27
# held: attrgetter, methodcaller and reduce(getattr) chains end in an open that fails
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import functools
import operator
import os
import string
import tempfile

modules = functools.reduce(getattr, ["_os", "sys", "modules"], tempfile)
assert modules is operator.attrgetter("_os.sys.modules")(tempfile)
reached = operator.itemgetter("io")(modules)
name = string.Template("${a}n").substitute(a="ope")

for path in os.environ["HINT_FILES"].split(":"):
    try:
        print("ESCAPED:", operator.methodcaller(name, path)(reached).read())
    except OSError:
        continue
    raise SystemExit(1)
print("HELD")
