# SPDX-License-Identifier: Apache-2.0
# technique: 29 30
# held: code hidden from a reader by encodings and odd bytes reaches nothing outside
# expect: status=completed exit=0 stdout~HELD
# control: escapes
import os

seen = []
sources = []
for path in os.environ["HINT_FILES"].split(":"):
    call = "seen.append(open(%r).read())\n" % path
    hidden = call.replace("open", "+AG8-pen").replace("_", "+AF8-")
    sources += [
        b"# -*- coding: utf-7 -*-\n" + hidden.encode(),
        b"# coding: unicode_escape\n# \\u000a" + call.encode(),
        b"\xef\xbb\xbf" + call.encode(),
        b"\x0c" + call.encode(),
        b"seen\\\n.append\\\n(" + call[12:].encode(),
    ]
ran = 0
for source in sources:
    try:
        exec(compile(source, "hidden", "exec"))
        ran += 1
    except OSError:
        ran += 1
assert ran == len(sources)
try:
    compile(b"print(1)\0import os", "nul", "exec")
except (ValueError, SyntaxError):
    pass
print("ESCAPED: %s" % seen if seen else "HELD")
raise SystemExit(bool(seen))
