# SPDX-License-Identifier: Apache-2.0
# technique: 20
# held: globals taken from suspended generators and coroutines open nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os


def generator():
    yield


async def coroutine():
    pass


async def async_generator():
    yield


sleeper = coroutine()
scopes = [generator().gi_frame.f_globals, sleeper.cr_frame.f_globals]
scopes.append(async_generator().ag_frame.f_globals)
sleeper.close()
seen = []
for scope in scopes:
    builtins = scope["__builtins__"]
    reached = builtins["open"] if isinstance(builtins, dict) else builtins.open
    for path in os.environ["HINT_FILES"].split(":"):
        try:
            seen.append(reached(path).read())
        except OSError:
            pass
print("ESCAPED: %s" % seen if seen else "HELD")
raise SystemExit(bool(seen))
