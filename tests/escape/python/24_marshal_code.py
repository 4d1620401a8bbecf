# SPDX-License-Identifier: Apache-2.0
# technique: 37 45
# held: a code object brought in by marshal opens nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import marshal
import os
import types

source = "def read(path):\n    return open(path).read()\n"
blob = marshal.dumps(compile(source, "made", "exec"))
scope = {}
exec(marshal.loads(blob), scope)
read = types.FunctionType(scope["read"].__code__.replace(co_name="harmless"), {"open": open})

for path in os.environ["HINT_FILES"].split(":"):
    try:
        print("ESCAPED:", read(path))
    except OSError:
        continue
    raise SystemExit(1)
print("HELD")
