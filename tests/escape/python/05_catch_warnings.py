# SPDX-License-Identifier: Apache-2.0
# technique: 5
# held: __builtins__ recovered from a warnings class import modules that reach nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import warnings  # so that the class exists

catcher = next(c for c in object.__subclasses__() if c.__name__ == "catch_warnings")
recovered = catcher.__init__.__globals__["__builtins__"]
recovered = recovered if isinstance(recovered, dict) else vars(recovered)
os = recovered["__import__"]("os")

for path in os.environ["HINT_FILES"].split(":"):
    try:
        print("ESCAPED:", recovered["open"](path).read())
    except OSError:
        continue
    raise SystemExit(1)
print("HELD")
