# SPDX-License-Identifier: Apache-2.0
# technique: 3
# held: a library function's __globals__ give modules, and those reach nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import json

scope = json.dumps.__globals__["JSONEncoder"].encode.__globals__["re"].compile.__globals__
sys = scope["enum"].Enum.__class__.__call__.__globals__["sys"]
os = sys.modules["os"]

for path in os.environ["HINT_FILES"].split(":"):
    try:
        print("ESCAPED:", os.read(os.open(path, os.O_RDONLY), 100))
    except OSError:
        continue
    sys.exit(1)
print("HELD")
