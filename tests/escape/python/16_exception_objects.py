# SPDX-License-Identifier: Apache-2.0
# technique: 22 23
# held: objects carried by exceptions (context chains, groups, .obj) open nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os

carried = []
try:
    try:
        os.no_such_name
    except AttributeError as error:
        carried.append(error.obj)
        raise KeyError from error
except KeyError as error:
    carried.append(error.__context__.obj)
try:
    raise ExceptionGroup("", [AttributeError(name="open", obj=os)])
except* AttributeError as group:
    carried.append(group.exceptions[0].obj)
assert carried == [os, os, os]
for path in os.environ["HINT_FILES"].split(":"):
    for module in carried:
        try:
            print("ESCAPED:", module.read(module.open(path, 0), 100))
        except OSError:
            continue
        raise SystemExit(1)
print("HELD")
